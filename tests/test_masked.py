"""Comparisons, counts of booleans, and sums under a mask, on hand-built nests for every CPU level of the host."""

from __future__ import annotations

import numpy as np
import pytest
from tape_helper import LEVELS, NATIVE_NUMPY, Builder, node, run_nest

pytestmark = pytest.mark.parametrize("level", LEVELS)
COMPARES = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
# around the vectors of each level, the runs of 64 and the 4 of them that are added together, and a tile
SIZES = [*range(1, 36), 63, 64, 65, 127, 128, 129, 255, 256, 257, 320, 1000, 2048, 2049, 4100, 9000]
SPECIAL = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan]


def values(rng: np.random.Generator, shape, dtype: str) -> np.ndarray:
    """Few different numbers, so that many are equal; NaN and infinities among floats. Not aligned to vectors."""
    size = int(np.prod(shape))
    x = rng.integers(-3, 4, size + 1).astype(NATIVE_NUMPY[dtype])
    if dtype[0] == "f":
        where = rng.random(size + 1) < 0.2
        x[where] = rng.choice(np.array(SPECIAL, x.dtype), int(where.sum()))
    elif dtype == "i64":
        x[rng.random(size + 1) < 0.3] += 1 << 32  # differs in the upper half alone
    return x[1:].reshape(shape)


@pytest.mark.parametrize("dtype", ["i32", "i64", "f32", "f64"])
@pytest.mark.parametrize("name", COMPARES)
def test_comparisons(name, dtype, level):
    rng = np.random.default_rng(1)
    for n in SIZES:
        x, y = values(rng, n, dtype), values(rng, n, dtype)
        outs = [np.zeros(n + 1, bool)[1:] for _ in range(3)]
        b = Builder()
        s = x.dtype.type(2)
        inputs = [x, y, b.scalar(s.item(), dtype)]
        run_nest((n,), inputs, [node(name, dtype, 0, 1), node(name, dtype, 0, 2), node(name, dtype, 2, 1)],
                 [(3 + k, "store", out, 0) for k, out in enumerate(outs)], level, b)
        for out, want in zip(outs, (COMPARES[name](x, y), COMPARES[name](x, s), COMPARES[name](s, y)), strict=True):
            assert out.tobytes() == want.tobytes(), (n, name)


def masks(rng: np.random.Generator, shape) -> list[np.ndarray]:
    return [rng.random(shape) < share for share in (0.0, 0.002, 0.5, 1.0)]


SHAPES = [(1,), (1, 1), (5, 1), (1, 5), (7, 300), (300, 7), (3, 5, 64), (40, 65, 3), (2, 5000), (5000, 2), (3, 1, 700)]


@pytest.mark.parametrize("memory", ["i64", "f64"])
def test_counts(memory, level):
    """Over every set of axes, in C and Fortran order, of masks in memory and of masks that are made."""
    rng = np.random.default_rng(2)
    for shape in [*[(n,) for n in SIZES], *SHAPES]:
        for mask in masks(rng, shape):
            for reduced in range(1, 1 << len(shape)):
                axes = tuple(a for a in range(len(shape)) if reduced >> a & 1)
                want = mask.sum(axis=axes, dtype=NATIVE_NUMPY[memory])
                for order in "CF":
                    x = np.array(mask, order=order)
                    outs = [np.full(want.shape, 7, want.dtype) for _ in range(2)]
                    nodes = [node("cast", "bool", 0, result=memory), node("not", "bool", 0),
                             node("cast", "bool", 2, result=memory)]
                    run_nest(shape, [x], nodes, [(1, "sum", outs[0], reduced), (3, "sum", outs[1], reduced)], level)
                    assert np.array_equal(outs[0], want), (shape, axes, order)
                    assert np.array_equal(outs[1], mask.size // max(want.size, 1) - want), (shape, axes, order)


def test_counts_of_nothing(level):
    for shape, reduced in (((0,), 1), ((3, 0), 2), ((0, 3), 1)):
        out = np.full([n for a, n in enumerate(shape) if not reduced >> a & 1], 7)
        run_nest(shape, [np.zeros(shape, bool)], [node("cast", "bool", 0, result="i64")], [(1, "sum", out, reduced)], level)
        assert not out.any()
    for value in (False, True):  # over no axes
        out = np.full((), 7)
        run_nest((), [np.array(value)], [node("cast", "bool", 0, result="i64")], [(1, "sum", out, 0)], level)
        assert out == value


@pytest.mark.parametrize("dtype", ["i32", "i64", "f32", "f64"])
def test_sums_under_a_mask(dtype, level):
    """What is not under the mask may be anything; the values under it are summed as exactly as without a mask."""
    rng = np.random.default_rng(3)
    for shape in [*[(n,) for n in SIZES], *SHAPES]:
        for mask in masks(rng, shape):
            good = rng.standard_normal(shape) * 100
            x = np.array(good, NATIVE_NUMPY[dtype])
            if dtype[0] == "f":
                x[~mask] = np.nan
            for reduced in range(1, 1 << len(shape)):
                axes = tuple(a for a in range(len(shape)) if reduced >> a & 1)
                want = np.where(mask, x, 0).sum(axis=axes, dtype=np.float64 if dtype[0] == "f" else x.dtype)
                size = np.where(mask, abs(x), 0).sum(axis=axes, dtype=np.float64)
                for order in "CF":
                    out, count = np.full(want.shape, 7, x.dtype), np.full(want.shape, 7)
                    b = Builder()
                    inputs = [np.array(mask, order=order), np.array(x, order=order), b.scalar(0, dtype)]
                    nodes = [node("select", dtype, 0, 1, 2), node("cast", "bool", 0, result="i64")]
                    run_nest(shape, inputs, nodes, [(3, "sum", out, reduced), (4, "sum", count, reduced)], level, b)
                    assert np.all(abs(out - want) <= size * (1e-15 if dtype == "f64" else 2e-7)), (shape, axes, order)
                    assert np.array_equal(count, mask.sum(axis=axes))


def test_selected_values_that_others_read_are_made(level):
    """The same selection is stored, or summed into another type: the sum does not take it over."""
    rng = np.random.default_rng(4)
    x, mask = rng.standard_normal((30, 70)).astype("f4"), rng.random((30, 70)) < 0.5
    b = Builder()
    stored, total, wide = np.zeros_like(x), np.zeros((), "f4"), np.zeros((), "f8")
    nodes = [node("select", "f32", 0, 1, 2), node("cast", "f32", 3, result="f64")]
    run_nest(x.shape, [mask, x, b.scalar(0.0, "f32")], nodes,
             [(3, "store", stored, 0), (3, "sum", total, 3), (4, "sum", wide, 3)], level, b)
    want = np.where(mask, x, 0)
    assert np.array_equal(stored, want)
    assert np.allclose(total, want.sum(dtype="f8"), rtol=1e-5) and np.allclose(wide, want.sum(dtype="f8"))


def test_a_selection_with_something_else_than_zero(level):
    """-0.0 and 1.0 are no zeros to be passed over."""
    mask = np.zeros(200, bool)
    for other, want in ((1.0, 200.0), (-0.0, -0.0)):
        b, out = Builder(), np.ones(())
        run_nest((200,), [mask, np.ones(200), b.scalar(other, "f64")], [node("select", "f64", 0, 1, 2)],
                 [(3, "sum", out, 1)], level, b)
        assert out == want
