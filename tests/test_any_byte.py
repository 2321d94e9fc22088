"""Booleans whose bytes are any number but 0, as views of masks of 0 and 255 have them: true, on every engine."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import prebake
from prebake.vm.run.bundle import usable_levels

LENGTHS = (0, 1, 3, 15, 16, 33, 64, 70, 300)


def of_masks(m, k, x, t):
    return (m & k, m | k, ~m, np.where(m, x, 0), np.where(t, m, k), x * m, m + k, m.astype(np.int64), np.logical_xor(m, ~k),
            np.maximum(m, k), np.where(m & ~k, x, -x))


def of_sums(m, k, x, t):
    return (m.sum(), np.count_nonzero(m), (m | k).sum(), m.any(), m.all(), m.mean(), np.sum(x, where=m), (x * k).sum(),
            x[m].sum(), m[::2].sum())


def of_rows(m, k, x, t):
    a = m.reshape(-1, 1)
    b = np.stack((m, k, t))
    return a.sum(axis=1), a.any(axis=1), b.sum(axis=0), b.sum(axis=1), b.any(axis=0), b.all(axis=1), (b & t).sum(axis=0)


def of_places(m, k, x, t):
    return m.argmax(), m.argmin(), (m | t).argmax(), k[::-1].argmax(), (t[: k.size] & k).argmin()


def of_elements(m, k, x, t):
    total, count = 0.0, 0
    for i in range(x.shape[0]):
        if m[i]:
            total = total + x[i]
        count += k[i] * 1
    return total, count


def arguments(n: int, step: int = 1) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(n)
    masks = [(rng.integers(0, 2, n * step) * rng.integers(1, 256, n * step)).astype("u1").view(bool)[::step] for _ in range(2)]
    return *masks, rng.normal(size=n), rng.random(n) > 0.5


@pytest.mark.parametrize("engine", ["jit", "interpreter"])
@pytest.mark.parametrize("function", [of_masks, of_sums, of_rows, of_places, of_elements])
def test_as_of_ordinary_booleans(function: object, engine: str) -> None:
    fast = prebake.jit(function)  # type: ignore[call-overload]
    for n in LENGTHS:
        for step in (1, 3):
            given = arguments(n, step)
            plain = [a != 0 if a.dtype == bool else a for a in given]
            if function is of_places and n == 0:
                continue
            want = function(*plain)  # type: ignore[operator]
            with np.errstate(all="ignore"), prebake.engine(engine):
                got = fast(*given)
            for one, other in zip(got, want, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12, strict=True)


BUNDLED = """
import numpy as np
import prebake


@prebake.jit
def f(m, k, x):
    return m.any(), m.all(), m.argmax(), k.sum(), (np.exp(x) * 2).sum(), np.where(k, x, 0).max(), (m | k).sum()
"""


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler")
def test_in_bundles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "any_byte.py").write_text(BUNDLED)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    f = importlib.import_module("any_byte").f
    try:
        with prebake.profile(tmp_path / "p.json"):
            for n in (16, 70):
                f(*arguments(n)[:3])
        prebake.plan(tmp_path / "p.json", tmp_path / "b.yaml", measure=False)
        prebake.build(tmp_path / "b.yaml", tmp_path / "bundle", targets=[usable_levels()[0]])
        prebake.load_bundle(tmp_path / "bundle")
        for n in (16, 70):
            m, k, x, _ = arguments(n)
            for one, other in zip(f(m, k, x), f.__wrapped__(m != 0, k != 0, x), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12, strict=True)
        assert f.stats()["prebuilt"] == 2
    finally:
        sys.modules.pop("any_byte")
