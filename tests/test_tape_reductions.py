"""Reductions of nests on the tape, on hand-built code for every CPU level of the host."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tape_arrays import COUNTS, NUMPY_REDUCE, layouts, values
from tape_helper import LEVELS, NATIVE_NUMPY, Builder, node, run_nest

pytestmark = pytest.mark.parametrize("level", LEVELS)


def check_reduction(reduce, x, axes, level, dtype):
    if reduce in ("argmax", "argmin"):
        want = NUMPY_REDUCE[reduce](x, axis=axes[0])
    else:
        want = NUMPY_REDUCE[reduce](x, axis=axes)
        if x.dtype.kind == "i":
            want = NUMPY_REDUCE[reduce](x, axis=axes).astype(x.dtype)
    want = np.asarray(want)
    out = np.full(want.shape, 7, np.int64 if reduce.startswith("arg") else x.dtype)
    run_nest(x.shape, [x], [], [(0, reduce, out, sum(1 << a for a in axes))], level)
    if reduce in ("sum", "prod") and dtype[0] == "f":
        exact = NUMPY_REDUCE[reduce](x.astype(np.longdouble), axis=axes)
        scale = NUMPY_REDUCE[reduce](np.abs(x).astype(np.longdouble), axis=axes)
        assert np.all(np.abs(out - exact) <= 40 * np.finfo(x.dtype).eps * scale + 1e-30)
    else:
        assert np.array_equal(out, want, equal_nan=dtype[0] == "f"), (reduce, x.shape, axes)


BY_DTYPE = {
    "f32": ["sum", "prod", "max", "min", "argmax", "argmin"],
    "f64": ["sum", "prod", "max", "min", "argmax", "argmin"],
    "i32": ["sum", "prod", "max", "min", "argmax", "argmin"],
    "i64": ["sum", "prod", "max", "min", "argmax", "argmin"],
    "bool": ["any", "all", "max", "min", "argmax", "argmin"],
}


@pytest.mark.parametrize("dtype", list(BY_DTYPE))
@pytest.mark.parametrize("n", COUNTS)
def test_reduce_around_block_sizes(n, dtype, level):
    for reduce in BY_DTYPE[dtype]:
        if n == 0 and reduce in ("max", "min", "argmax", "argmin"):
            continue
        for _, x in layouts((n,), dtype):
            check_reduction(reduce, x, (0,), level, dtype)
        for _, x in layouts((3, n), dtype, 1):
            check_reduction(reduce, x, (1,), level, dtype)
        for _, x in layouts((n, 3), dtype, 2):
            check_reduction(reduce, x, (0,), level, dtype)


@pytest.mark.parametrize(
    "shape",
    [
        (4, 5, 6),
        (3, 1, 7, 2),
        (2, 3000),
        (3000, 2),
        (40, 1500),
        (5, 40, 30),
        (12, 3, 700),
        (2, 2, 2, 2, 2),
        (0, 4),
        (4, 0),
        (3, 0, 2),
        (1, 1),
    ],
)
@pytest.mark.parametrize("dtype", ["f32", "f64", "i64", "bool"])
def test_reduce_every_set_of_axes(shape, dtype, level):
    for _, x in layouts(shape, dtype):
        for count in range(1, len(shape) + 1):
            for axes in itertools.combinations(range(len(shape)), count):
                for reduce in BY_DTYPE[dtype]:
                    if reduce.startswith("arg") and count > 1:
                        continue
                    if 0 in shape and reduce not in ("sum", "prod", "any", "all"):
                        continue
                    check_reduction(reduce, x, axes, level, dtype)


def test_wide_accumulation_is_cut_into_pieces(level):
    x = values((9, 5000))
    check_reduction("sum", x, (0,), level, "f32")
    check_reduction("max", np.asfortranarray(values((5000, 9))), (1,), level, "f32")
    check_reduction("prod", values((3, 30, 3, 50), "i64"), (0, 2), level, "i64")


def test_sums_of_float32_are_pairwise_or_better(level):
    n = 1_000_000
    for x in (
        np.full(n, 0.1, np.float32),
        np.full((n // 4, 4), 0.1, np.float32),
        np.full((4, n // 4), 0.1, np.float32),
    ):
        for axes in [tuple(range(x.ndim)), (x.ndim - 1,)]:
            want = x.sum(axis=axes, dtype=np.float64)
            out = np.empty(want.shape, np.float32)
            run_nest(x.shape, [x], [], [(0, "sum", out, sum(1 << a for a in axes))], level)
            assert np.allclose(out, want, rtol=3e-7, atol=0)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 31, 64, 65, 130, 2048, 2049, 4100])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_nan_rules_of_extrema(n, dtype, level):
    for where in sorted({0, n // 2, n - 1}):
        x = values((n,), dtype)
        x[where] = np.nan
        if n > 2:
            x[min(where + 1, n - 1)] = np.nan
        for reduce in ("max", "min", "argmax", "argmin"):
            check_reduction(reduce, x, (0,), level, dtype)
            check_reduction(reduce, np.stack([x, x[::-1], -x]), (1,), level, dtype)
    for fill in (np.inf, -np.inf, 0.0):
        x = np.full((n, 2), fill, NATIVE_NUMPY[dtype])
        for reduce in ("max", "min", "argmax", "argmin"):
            check_reduction(reduce, x, (0,), level, dtype)


def test_different_masks_stores_and_reductions_in_one_nest(level):
    """exp(x - row) is stored; its sums over either axis and both, and arg reductions of x leave the same nest."""
    for shape in [(1, 1), (3, 4), (70, 130), (5, 4000)]:
        for _, x in layouts(shape):
            m = x.max(axis=1, keepdims=True)
            e, rows, cols = np.empty(shape, np.float32), np.empty(shape[0], np.float32), np.empty(shape[1], np.float32)
            total, high, low = np.empty((), np.float32), np.empty(shape[0], np.int64), np.empty(shape[1], np.int64)
            run_nest(
                shape,
                [x, m],
                [node("sub", "f32", 0, 1), node("exp", "f32", 2)],
                [
                    (3, "store", e, 0),
                    (3, "sum", rows, 2),
                    (3, "sum", cols, 1),
                    (3, "sum", total, 3),
                    (0, "argmax", high, 2),
                    (0, "argmin", low, 1),
                ],
                level,
            )
            want = np.exp(x - m)
            assert np.allclose(e, want, rtol=1e-6, atol=0)
            assert np.allclose(rows, want.sum(1), rtol=1e-5) and np.allclose(cols, want.sum(0), rtol=1e-5)
            assert np.allclose(total, want.sum(), rtol=1e-5)
            assert np.array_equal(high, x.argmax(1)) and np.array_equal(low, x.argmin(0))


def test_reduction_of_scalars_and_small_memory_types(level):
    b = Builder()
    out = np.empty((), np.int64)
    run_nest((3, 2000), [b.scalar(2, "i64")], [], [(0, "sum", out, 3)], level, b)
    assert out == 12000
    x = values((300, 11), "i8")
    wide, same, half = np.empty(300, np.int64), np.empty(11, np.int8), np.empty((), np.float16)
    run_nest(x.shape, [x], [node("cast", "i32", 0, result="i64")], [(1, "sum", wide, 2)], level)
    run_nest(x.shape, [x], [], [(0, "sum", same, 1)], level)
    assert np.array_equal(wide, x.sum(1)) and np.array_equal(same, x.sum(0, dtype=np.int8))
    h = values((5000,)).astype(np.float16)
    run_nest(h.shape, [h], [], [(0, "sum", half, 1)], level)
    assert half == h.sum(dtype=np.float32).astype(np.float16)
