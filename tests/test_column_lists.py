"""Reductions of columns that the accumulator machine folds row after row: pieces, groups of rows, outer axes, windows."""

from __future__ import annotations

import numpy as np
import pytest
from tape_helper import LEVELS, NATIVE_NUMPY, node, run_nest

# of columns, from a few strips of the widest level on: last strips that overlap, several windows, several pieces
COLUMNS = [255, 256, 257, 300, 511, 513, 1025, 1100, 2111, 4097, 6200]
ROWS = [1, 2, 7, 8, 9, 16, 17, 40]
DTYPES = ("f32", "f64", "i32", "i64")
LEVEL_AND_DTYPE = pytest.mark.parametrize(("level", "dtype"), [(level, dtype) for level in LEVELS for dtype in DTYPES])


def made(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype[0] == "i":
        return rng.integers(-99, 99, shape).astype(NATIVE_NUMPY[dtype])
    x = rng.standard_normal(shape).astype(NATIVE_NUMPY[dtype])
    x.flat[rng.integers(x.size, size=3)] = np.nan, np.inf, -0.0
    return x


def check(got: np.ndarray, x: np.ndarray, how: str, axis: int | tuple[int, ...]) -> None:
    if how == "sum" and x.dtype.kind == "f":
        exact, size = x.astype("f8").sum(axis), np.abs(x.astype("f8")).sum(axis)
        with np.errstate(invalid="ignore"):
            near = np.abs(got - exact) <= 16 * np.finfo(x.dtype).eps * size
        assert np.all(near | (got == exact) | (np.isnan(got) & np.isnan(exact)))
    else:
        want = x.sum(axis, dtype=x.dtype) if how == "sum" else getattr(x, how)(axis)
        assert np.array_equal(got, want, equal_nan=x.dtype.kind == "f")


@LEVEL_AND_DTYPE
def test_columns_of_every_length(dtype, level):
    """Each reduction, of inputs and of what is computed and stored too, beside one number a row and one a column."""
    rng = np.random.default_rng(1)
    for n in COLUMNS:
        rows = int(rng.choice(ROWS))
        x, row = made(rng, (rows, n), dtype), made(rng, (1, n), dtype)
        column = made(rng, (rows, 1), "i32").astype(x.dtype)
        with np.errstate(invalid="ignore"):
            product = x * column - row
        outs = {how: np.zeros(n, x.dtype) for how in ("sum", "max", "min")}
        plain, stored = np.zeros((n, 3), x.dtype), np.zeros((rows, n), x.dtype)
        nodes = [node("mul", dtype, 0, 1), node("sub", dtype, 3, 2)]
        run_nest((rows, n), [x, np.broadcast_to(column, x.shape), np.broadcast_to(row, x.shape)], nodes,
                 [*[(4, how, out, 1) for how, out in outs.items()], (0, "sum", plain[:, 1], 1), (4, "store", stored, 0)], level)
        for how, out in outs.items():
            check(out, product, how, 0)
        check(plain[:, 1], x, "sum", 0)
        assert np.array_equal(stored, product, equal_nan=dtype[0] == "f") and not plain[:, ::2].any()


@LEVEL_AND_DTYPE
def test_axes_before_and_behind(dtype, level):
    """The middle of three and four axes, two of them, views that are strided, reversed and transposed, results of any strides."""
    rng = np.random.default_rng(2)
    for n in (260, 1030):
        whole = made(rng, (3, 4, 11, n + 2), dtype)
        for x, reduced, axis in ((whole[0, ..., 1:n + 1], 2, 1), (whole[::-1, :, ::2, :n], 4, 2), (whole[..., 2:], 6, (1, 2)),
                                 (whole[:, ::-1, :, :n].transpose(1, 2, 0, 3), 2, 1), (whole[..., 1:n + 1], 7, (0, 1, 2)),
                                 (whole[..., 1:n + 1], 5, (0, 2))):
            kept = [k for k in range(x.ndim) if not reduced >> k & 1]
            out = np.zeros([x.shape[k] for k in kept[::-1]], x.dtype).T
            best = np.zeros((*[x.shape[k] for k in kept], 2), x.dtype)[..., 1]
            with np.errstate(invalid="ignore"):
                double = x + x
            run_nest(x.shape, [x], [node("add", dtype, 0, 0)], [(1, "sum", out, reduced), (0, "max", best, reduced)], level)
            check(out, double, "sum", axis)
            check(best, x, "max", axis)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_truth_values_and_masks(dtype, level):
    rng = np.random.default_rng(3)
    for n in (257, 1100):
        x, y = made(rng, (9, n), dtype), made(rng, (9, n), dtype)
        x[:, ::3] = y[:, ::3]
        some, every, total = np.zeros(n, bool), np.zeros(n, bool), np.zeros(n, x.dtype)
        nodes = [node("gt", dtype, 0, 1), node("eq", dtype, 0, 1), node("select", dtype, 2, 0, 1)]
        run_nest((9, n), [x, y], nodes, [(2, "any", some, 1), (3, "all", every, 1), (4, "sum", total, 1)], level)
        assert np.array_equal(some, (x > y).any(0)) and np.array_equal(every, (x == y).all(0))
        check(total, np.where(x > y, x, y), "sum", 0)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_sums_are_close_and_keep_their_sign(dtype, level):
    """Many rows: better than one addition after the other; columns of -0 alone are -0."""
    x = np.full((3001, 300), 0.1, NATIVE_NUMPY[dtype])
    x[:, 7] = -0.0
    total = np.zeros(300, x.dtype)
    run_nest(x.shape, [-x], [node("neg", dtype, 0)], [(1, "sum", total, 1)], level)
    assert total[7] == 0 and np.signbit(total[7])
    exact = np.float64(x[0, 0]) * 3001
    assert np.all(np.abs(np.delete(total, 7) - exact) <= (2 if dtype == "f32" else 400) * np.finfo(x.dtype).eps * exact)
