"""Elementwise nests on the tape, and random ones, on hand-built code for every CPU level of the host."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tape_arrays import COUNTS, NUMPY_REDUCE, layouts, values
from tape_helper import LEVELS, Builder, node, run_nest

from prebake.vm.plan.code import In, NodeOp

pytestmark = pytest.mark.parametrize("level", LEVELS)


@pytest.mark.parametrize(
    "shape",
    [
        (),
        (1,),
        (0,),
        (5,),
        (2049,),
        (0, 4),
        (4, 0),
        (3, 5),
        (40, 1),
        (1, 40),
        (100, 10),
        (7, 300),
        (3, 2500),
        (2, 3, 4, 5),
        (60, 3, 3),
        (2, 1, 700),
        (1, 1, 1),
    ],
)
def test_broadcast_chain_in_every_layout(shape, level):
    """((x + row) * column - scalar): the last axis and the first broadcast, the result in C and in Fortran order."""
    row = values(shape[-1:], seed=1)
    column = values((*shape[:1], *(1,) * (len(shape) - 1)), seed=2)
    for (_, x), order in itertools.product(layouts(shape), "CF"):
        out = np.full(shape, 9, np.float32, order)
        b = Builder()
        run_nest(
            shape,
            [x, row, column, b.scalar(1.5, "f32")],
            [node("add", "f32", 0, 1), node("mul", "f32", 4, 2), node("sub", "f32", 5, 3)],
            [(6, "store", out, 0)],
            level,
            b,
        )
        assert np.array_equal(out, (x + row) * column - np.float32(1.5))


@pytest.mark.parametrize("n", COUNTS)
def test_mixed_dtypes_and_predicates(n, level):
    """select(x > y, i32 cast to f64, y) with two outputs of different size."""
    x, y, i = values((n,), "f64"), values((n,), "f64", 1), values((n,), "i32", 2)
    mask, out = np.empty(n, np.bool_), np.empty(n)
    run_nest(
        (n,),
        [x, y, i],
        [node("gt", "f64", 0, 1), node("cast", "i32", 2, result="f64"), NodeOp("select", "f64", "f64", (3, 4, 1))],
        [(3, "store", mask, 0), (5, "store", out, 0)],
        level,
    )
    assert np.array_equal(mask, x > y)
    assert np.array_equal(out, np.where(x > y, i.astype(np.float64), y))


@pytest.mark.parametrize("n", [1, 9, 2500])
def test_select_with_scalars_in_every_place(n, level):
    c, x, y = values((n,), "bool"), values((n,), "f32"), values((n,), "f32", 1)
    for scalars in itertools.product([False, True], repeat=3):
        full = (c, x, y)
        used = [v[:1] if s else v for v, s in zip(full, scalars, strict=True)]
        out = np.empty(n, np.float32)
        run_nest((n,), used, [NodeOp("select", "f32", "f32", (0, 1, 2))], [(3, "store", out, 0)], level)
        assert np.array_equal(out, np.broadcast_to(np.where(*used), (n,)))


def test_constant_fill_and_iota(level):
    for shape in [(), (5,), (2500,), (30, 40), (3, 0)]:
        out = np.empty(shape, np.float64)
        b = Builder()
        run_nest(shape, [b.scalar(2.5, "f64")], [], [(0, "store", out, 0)], level, b)
        assert np.array_equal(out, np.full(shape, 2.5))
        strided = np.zeros((*shape, 2), np.int64)[..., 0]
        for axis in range(len(shape)):
            run_nest(
                shape, [In("iota", "i64", axis=axis)], [node("square", "i64", 0)], [(1, "store", strided, 0)], level
            )
            assert np.array_equal(strided, np.indices(shape)[axis] ** 2)
            transposed = np.zeros(shape, np.int64, order="F")
            run_nest(shape, [In("iota", "i64", axis=axis)], [], [(0, "store", transposed, 0)], level)
            assert np.array_equal(transposed, np.indices(shape)[axis])


@pytest.mark.parametrize("shape", [(7,), (4000,), (30, 90)])
def test_in_place_and_several_outputs(shape, level):
    """x becomes x * 2 while y becomes old x + x * 2, and the sum of the old x is taken."""
    for (_, x), flip in itertools.product(layouts(shape), [False, True]):
        old = x.copy()
        y, total = np.empty_like(old), np.zeros((), np.float64)
        outs = [
            (2, "store", x, 0),
            (3, "store", y, 0),
            (4, "sum", total, 2 ** len(shape) - 1),
            (0, "store", np.empty_like(old), 0),
        ]
        b = Builder()
        run_nest(
            shape,
            [x, b.scalar(2, "f32")],
            [node("mul", "f32", 0, 1), node("add", "f32", 0, 2), node("cast", "f32", 0, result="f64")],
            outs[::-1] if flip else outs,
            level,
            b,
        )
        assert np.array_equal(x, old * 2)
        assert np.array_equal(y, old + old * 2)
        assert np.allclose(total, old.sum(dtype=np.float64))
        assert np.array_equal(outs[3][2], old)


def test_many_live_values_fit_somewhere(level):
    """40 values alive at once: blocks shrink, scratch may go to the heap."""
    n = 3000
    x = values((n,), "f64")
    ops, sums = [], 1
    for k in range(40):
        ops.append(node("add", "f64", 0, k))
    acc = 1
    for k in range(2, 41):
        ops.append(node("maximum", "f64", acc, k))
        acc = len(ops)
        sums += 1
    out = np.empty(n)
    run_nest((n,), [x], ops, [(len(ops), "store", out, 0)], level)
    made = [x]
    for k in range(40):
        made.append(x + made[k])
    assert np.array_equal(out, np.maximum.reduce(made[1:]))


@pytest.mark.parametrize("seed", range(60))
def test_random_nests(seed, level):
    """Random shapes, layouts, broadcasts, chains and outputs against the same computed by NumPy in float64."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(rng.choice([1, 2, 3, 5, 17, 64, 200])) for _ in range(rng.integers(1, 5)))
    if np.prod(shape) > 300_000:
        shape = shape[:2]
    n = len(shape)
    inputs, slots = [], []
    for k in range(rng.integers(1, 4)):
        part = tuple(1 if rng.random() < 0.3 else e for e in shape)
        made = list(layouts(part, "f64", k))
        inputs.append(made[rng.integers(len(made))][1])
        order = rng.permutation(n)
        if rng.random() < 0.3:
            inputs[-1] = np.ascontiguousarray(inputs[-1].transpose(order)).transpose(np.argsort(order))
        slots.append(np.broadcast_to(inputs[-1], shape))
    ops = []
    for _ in range(rng.integers(0, 7)):
        op = str(rng.choice(["add", "sub", "mul", "maximum", "minimum"]))
        a, b = rng.integers(len(slots), size=2)
        ops.append(node(op, "f64", int(a), int(b)))
        function = {"add": np.add, "sub": np.subtract, "mul": np.multiply}.get(op) or getattr(np, op)
        slots.append(function(slots[a], slots[b]))
    outs, wants = [], []
    for _ in range(rng.integers(1, 4)):
        slot = int(rng.integers(len(slots)))
        reduce = str(rng.choice(["store", "sum", "max", "min", "argmax"]))
        mask = 0 if reduce == "store" else int(rng.integers(1, 2**n))
        if reduce == "argmax":
            mask = 1 << int(rng.integers(n))
        axes = tuple(a for a in range(n) if mask >> a & 1)
        if reduce == "store":
            want = slots[slot]
        elif reduce == "argmax":
            want = np.argmax(slots[slot], axis=axes[0])
        else:
            want = NUMPY_REDUCE[reduce](slots[slot], axis=axes)
        want = np.asarray(want)
        target = np.empty(want.shape, want.dtype, order=str(rng.choice(["C", "F"])))
        outs.append((slot, reduce, target, mask))
        wants.append(want)
    run_nest(shape, inputs, ops, outs, level)
    for (slot, reduce, got, mask), want in zip(outs, wants, strict=True):
        if reduce == "sum":
            scale = np.abs(slots[slot]).sum(axis=tuple(a for a in range(n) if mask >> a & 1))
            assert np.all(np.abs(got - want) <= 1e-13 * scale)
        else:
            assert np.array_equal(got, want), (shape, reduce, mask)
