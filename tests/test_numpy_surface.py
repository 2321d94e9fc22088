"""Small calls over NumPy's public surface: the JIT against NumPy, and the page that says what becomes of each."""

from __future__ import annotations

import numpy_surface
import pytest


def test_nothing_differs_and_the_page_is_true() -> None:
    counts, calls, wrong = numpy_surface.surface()
    assert not wrong, "\n".join(wrong)
    assert counts["ufuncs of one operand"][numpy_surface.TAPE] > 300
    page = numpy_surface.PAGE.read_text()
    if f"with NumPy {numpy_surface.version()};" not in page:
        pytest.skip("the page was written with another NumPy")
    assert numpy_surface.render(counts, calls) == page, "docs/numpy.md: python tests/numpy_surface.py"
