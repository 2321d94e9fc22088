"""Small calls over NumPy's public surface: the JIT against NumPy, and the page that says what becomes of each."""

from __future__ import annotations

import numpy_surface
import pytest
from numpy_surface import CALLED, INTERPRETED, REFUSED, TAPE


def test_nothing_differs_and_the_page_promises_no_more() -> None:
    """No call differs from NumPy's, and each topic has as many calls planned, called and not refused as docs/numpy.md says."""
    counts, _, wrong = numpy_surface.surface()
    assert not wrong, "\n".join(wrong)
    assert counts["ufuncs of one operand"][TAPE] > 300
    page = numpy_surface.PAGE.read_text()
    if f"with NumPy {numpy_surface.version()};" not in page:
        pytest.skip("the page was written with another NumPy")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| ")]
    said = {topic: {fate: int(n or 0) for fate, n in zip((TAPE, CALLED, INTERPRETED, REFUSED), numbers, strict=True)}
            for topic, *numbers in rows if topic in counts}
    assert said.keys() == counts.keys(), "docs/numpy.md: python tests/numpy_surface.py"
    for topic, number in said.items():
        found = counts[topic]
        assert found[TAPE] >= number[TAPE], f"{topic}: docs/numpy.md promises more (python tests/numpy_surface.py)"
        assert found[TAPE] + found[CALLED] >= number[TAPE] + number[CALLED], f"{topic}: fewer calls have plans"
        assert found[REFUSED] <= number[REFUSED], f"{topic}: more calls are refused"


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ("f4", "i2", "u1", "u8", "u4", "c8", "c16", "?", "f2", "bfloat16"))
def test_nothing_differs_in_other_dtypes(dtype: str) -> None:
    """The same calls with arrays of another dtype where they have float64."""
    chosen = pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype
    wrong = numpy_surface.surface(chosen)[2]
    assert not wrong, "\n".join(wrong)
