"""np.linspace of scalars: in the precision that NumPy computes in, planned, equal bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import prebake

VALUES = {"ordinary": (1.0, 2.5), "reversed": (0.7, -0.3), "equal": (2.0, 2.0), "zeros": (-0.0, -0.0),
          "of the smallest": (0.0, 1e-45), "of the smallest doubles": (5e-324, 1.5e-323), "infinite": (np.inf, 1.0),
          "not a number": (np.nan, 1.0), "overflowing": (3e38, -3e38)}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int8"])
def test_between_scalars(dtype: str, values: tuple[float, float]) -> None:
    @prebake.jit
    def f(x):
        n = x.shape[0]
        return (np.linspace(x[0], x[1], n), np.linspace(x.min(), 3, n, endpoint=False), np.linspace(x[0], x[1], 5, dtype="f8"),
                np.linspace(0.1, x[1], 7, dtype=np.float32), np.linspace(x[0], 2.5), np.linspace(x[0], x[1], 2 + n))

    with np.errstate(all="ignore"):
        x = np.array([*values, values[0]]).astype(dtype)
        got, want = f(x), f.__wrapped__(x)
    for one, other in zip(got, want, strict=True):
        assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes()), (one, other)
    assert f.stats()["jit"] == 1
