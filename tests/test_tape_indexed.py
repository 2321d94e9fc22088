"""Gathers, scatters and masked stores of nests on the tape, on hand-built code for every CPU level of the host."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tape_arrays import layouts, values
from tape_helper import LEVELS, NATIVE_NUMPY, Builder, Trapped, node, run_nest

from prebake.templates.tapecode import NATIVE_OF, TRAPS
from prebake.vm.plan.code import NestCode, NodeOp, Out
from prebake.vm.plan.signature import DTYPE_NAMES

pytestmark = pytest.mark.parametrize("level", LEVELS)


def gather_node(b, array, axes_of, n_axes, indexes, position=5):
    """A gather whose view moves with the nest axes given in axes_of (by array axis; None: indexed)."""
    strides = [0] * n_axes
    triples = []
    indexes = iter(indexes)
    for axis, at in enumerate(axes_of):
        if at is None:
            triples.append((next(indexes), b.reg("i64", array.shape[axis]), b.reg("i64", array.strides[axis])))
        else:
            strides[at] = array.strides[axis]
    ref = b.ref(array)
    ref = type(ref)(ref.base, -1, tuple(b.reg("i64", s) for s in strides))
    memory = DTYPE_NAMES[array.dtype]
    return NodeOp("gather", NATIVE_OF[memory], NATIVE_OF[memory], (), memory, ref, tuple(triples), position)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i8", "bool"])
@pytest.mark.parametrize(("rows", "dim"), [(1, 1), (6, 3), (5, 40), (3, 700), (500, 64), (0, 4)])
def test_gather_rows(rows, dim, dtype, level):
    """table[index] along axis 0, with negative indexes, for i64 and i32 indexes."""
    for _, table in layouts((50, dim), dtype):
        for kind in ("i64", "i32"):
            index = np.random.default_rng(1).integers(-50, 50, rows).astype(NATIVE_NUMPY[kind])
            b = Builder()
            out = np.empty((rows, dim), table.dtype)
            run_nest(
                (rows, dim),
                [index[:, None]],
                [gather_node(b, table, (None, 1), 2, [0])],
                [(1, "store", out, 0)],
                level,
                b,
            )
            assert np.array_equal(out, table[index])


@pytest.mark.parametrize("n", [1, 10, 3000])
def test_gather_two_indexes_and_use(n, level):
    """x[i, j] * 2, with i and j of shape (n,); then a scalar j."""
    rng = np.random.default_rng(0)
    x = values((20, 30))
    i, j = rng.integers(-20, 20, n), rng.integers(0, 30, n)
    for column in (j, j[:1]):
        b = Builder()
        out = np.empty(n, np.float32)
        run_nest(
            (n,),
            [i, column, b.scalar(2.0, "f32")],
            [gather_node(b, x, (None, None), 1, [0, 1]), node("mul", "f32", 3, 2)],
            [(4, "store", out, 0)],
            level,
            b,
        )
        assert np.array_equal(out, x[i, column] * 2)


@pytest.mark.parametrize("bad", [50, -51, 10**12, -(2**63)])
def test_index_out_of_bounds_traps(bad, level):
    table = values((50, 4))
    for n, at in [(1, 0), (9, 8), (3000, 2999)]:
        index = np.zeros(n, np.int64)
        index[at] = bad
        b = Builder()
        out = np.empty((n, 4), np.float32)
        with pytest.raises(Trapped) as caught:
            run_nest(
                (n, 4),
                [index[:, None]],
                [gather_node(b, table, (None, 1), 2, [0], 77)],
                [(1, "store", out, 0)],
                level,
                b,
            )
        assert caught.value.args == (TRAPS["INDEX"], 77)


def scatter(shape, inputs, ops, slot, array, index_slot, level, mask=-1, builder=None):
    """array[index, :] = slot over the nest's axes (n, dim); the first axis is indexed."""
    b = builder or Builder()
    axes = tuple(b.reg("i64", e) for e in shape)
    ins = tuple(b.view(x, shape) if isinstance(x, np.ndarray) else x for x in inputs)
    ref = b.ref(array)
    indexes = ()
    if index_slot >= 0:
        indexes = ((index_slot, b.reg("i64", array.shape[0]), b.reg("i64", array.strides[0])),)
        ref = type(ref)(ref.base, -1, (b.reg("i64", 0), *ref.strides[1:]))
    out = Out(slot, "store", DTYPE_NAMES[array.dtype], ref, 0, mask, indexes, 31)
    b.body.append(NestCode(axes, ins, tuple(ops), (out,)))
    b.run(level)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i8", "bool"])
@pytest.mark.parametrize(("n", "dim"), [(1, 1), (6, 3), (2000, 5), (40, 2100)])
def test_scatter_last_of_equal_indexes_wins(n, dim, dtype, level):
    x = values((n, dim), dtype)
    index = np.random.default_rng(2).integers(-10, 10, n)
    for source in (x, np.asfortranarray(x)):
        want, got = np.zeros((10, dim), x.dtype), np.zeros((10, dim), x.dtype)
        for row, at in enumerate(index):
            want[at] = x[row]
        scatter((n, dim), [source, index[:, None]], [], 0, got, 1, level)
        assert np.array_equal(got, want)
    index[-1] = 10
    with pytest.raises(Trapped) as caught:
        scatter((n, dim), [x, index[:, None]], [], 0, got, 1, level)
    assert caught.value.args == (TRAPS["INDEX"], 31)


@pytest.mark.parametrize("dtype", ["f32", "i8", "f64"])
@pytest.mark.parametrize("shape", [(1, 1), (6, 7), (40, 90), (2, 3000)])
def test_masked_store(shape, dtype, level):
    for (_, x), (_, target) in itertools.product(layouts(shape, dtype), layouts(shape, dtype, 3)):
        mask = values(shape, "bool")
        for m in (mask, mask[:, :1], np.array([[True]]), np.array([[False]])):
            want, got = target.copy(), target.copy()
            np.copyto(want, x, where=m)
            scatter(shape, [x, m], [], 0, got, -1, level, mask=1)
            assert np.array_equal(got, want)
