"""The tape machine and its nest engine on hand-built code, for every CPU level of the host."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tape_helper import LEVELS, NATIVE_NUMPY, Builder, Runner, Trapped, node, run_nest

from prebake.templates.scalars import OPS
from prebake.templates.tapecode import NATIVE_OF, TRAPS
from prebake.vm.plan.code import (
    Alloc,
    Break,
    Cast,
    Continue,
    ContractCode,
    Exit,
    For,
    Guard,
    If,
    In,
    Int,
    Load,
    Move,
    NestCode,
    NodeOp,
    Out,
    Output,
    Scalar,
    Store,
    Trap,
    While,
)
from prebake.vm.plan.signature import DTYPE_NAMES

pytestmark = pytest.mark.parametrize("level", LEVELS)
COUNTS = [0, 1, 2, 7, 8, 9, 31, 63, 64, 65, 1023, 1024, 1025, 2047, 2048, 2049, 5000]
NUMPY_REDUCE = {
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "any": np.any,
    "all": np.all,
    "argmax": np.argmax,
    "argmin": np.argmin,
}


def values(shape, dtype="f32", seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.7
    if dtype[0] in "iu":
        return rng.integers(0 if dtype[0] == "u" else -50, 50, shape).astype(NATIVE_NUMPY.get(dtype, np.int8))
    return rng.standard_normal(shape).astype(NATIVE_NUMPY[dtype])


def layouts(shape, dtype="f32", seed=0):
    """One content in the layouts that a view may have."""
    base = values(shape, dtype, seed)
    yield "C", base
    if base.ndim:
        yield "F", np.asfortranarray(base)
        wide = np.zeros((*shape[:-1], shape[-1] * 2 + 1), base.dtype)
        wide[..., 1::2] = base
        yield "step", wide[..., 1::2]
        back = np.ascontiguousarray(base[..., ::-1])
        yield "reversed", back[..., ::-1]
        down = np.ascontiguousarray(base[::-1])
        yield "rows-reversed", down[::-1]


# --- elementwise ------------------------------------------------------------------------------------------------------


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


# --- reductions -------------------------------------------------------------------------------------------------------


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


# --- gather, scatter, masks -------------------------------------------------------------------------------------------


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


# --- the machine ------------------------------------------------------------------------------------------------------


def test_integers_round_as_python_does(level):
    for a, b in [(7, 2), (-7, 2), (7, -2), (-7, -2), (6, 3), (5, 0), (-(2**63), -1), (0, 5)]:
        builder = Builder()
        x, y = builder.reg("i64", a), builder.reg("i64", b)
        ops = ["add", "sub", "mul", "floordiv", "mod", "min", "max", "eq", "ne", "lt", "le", "and", "or"]
        dst = [builder.reg() for _ in ops]
        chosen = builder.reg()
        builder.bind += [Int(op, d, x, y) for op, d in zip(ops, dst, strict=True)]
        builder.bind.append(Int("select", chosen, x, y, dst[9]))
        runner = builder.run(level)
        got = [runner.value(d, "i64") for d in dst]
        wrap = lambda v: (v + 2**63) % 2**64 - 2**63  # noqa: E731
        want = [
            wrap(v)
            for v in (
                a + b,
                a - b,
                a * b,
                a // b if b else 0,
                a % b if b else 0,
                min(a, b),
                max(a, b),
                a == b,
                a != b,
                a < b,
                a <= b,
                a & b,
                a | b,
            )
        ]
        assert got == want
        assert runner.value(chosen, "i64") == (a if a < b else b)


def test_guards_report_the_first_that_fails(level):
    b = Builder()
    yes, no, out = b.reg("i64", 1), b.reg("i64", 0), b.reg("i64", 0)
    b.bind += [Guard(yes), Guard(yes), Guard(no), Move(out, yes), Guard(no)]
    runner = Runner(b.code(), level)
    assert runner.bind(runner.tape.plan_address, runner.frame) == 3
    assert runner.value(out, "i64") == 0
    runner.regs[no] = 1
    assert runner.bind(runner.tape.plan_address, runner.frame) == 0
    assert runner.value(out, "i64") == 1


def test_image_presets_constants(level):
    b = Builder()
    regs = [
        b.reg("f32", -1.5),
        b.reg("f64", 1e300),
        b.reg("i64", -3),
        b.reg("bool", True),
        b.reg("i32", -7),
        b.reg("i64"),
    ]
    runner = Runner(b.code(), level)
    assert [runner.value(r, k) for r, k in zip(regs, ["f32", "f64", "i64", "bool", "i32", "i64"], strict=True)] == [
        -1.5,
        1e300,
        -3,
        1,
        -7,
        0,
    ]
    assert len(runner.tape.image) == 8 * runner.tape.n_regs


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [
        (0, 5, 1),
        (5, 0, -1),
        (0, 0, 1),
        (3, 20, 7),
        (20, 3, -7),
        (0, -5, 1),
        (2**62, 2**63 - 1, 2**61),
        (-(2**63), 2**63 - 1, 2**62),
    ],
)
def test_for_visits_what_range_visits(start, stop, step, level):
    """The body changes the loop's registers, as a program that assigns to its loop variable would."""
    out = np.zeros(64, np.int64)
    b = Builder()
    var, count, one, eight, address = b.reg(), b.reg("i64", 0), b.reg("i64", 1), b.reg("i64", 8), b.ref(out).base
    offset, limits = b.reg(), [b.reg("i64", v) for v in (start, stop, step)]
    b.body.append(
        For(
            var,
            *limits,
            (
                Int("mul", offset, count, eight),
                Store(var, "i64", "i64", address, offset),
                Int("add", count, count, one),
                Int("sub", var, var, one),
            ),
        )
    )
    runner = b.run(level)
    want = list(range(start, stop, step))
    assert runner.value(count, "i64") == len(want)
    assert list(out[: len(want)]) == want


def test_nested_loops_break_continue_while_if(level):
    """For i in range(6): skip 3, stop at 5; j = 0; while True: if j >= i: break; total += j; j += 1."""
    b = Builder()
    i, j, total, test = b.reg(), b.reg(), b.reg("i64", 0), b.reg()
    zero, one, three, five, six = (b.reg("i64", v) for v in (0, 1, 3, 5, 6))
    inner = While((Int("le", test, i, j), If(test, (Break(),)), Int("add", total, total, j), Int("add", j, j, one)))
    b.body.append(
        For(
            i,
            zero,
            six,
            one,
            (
                Int("eq", test, i, three),
                If(test, (Continue(),)),
                Int("eq", test, i, five),
                If(test, (Break(),), (Move(j, zero),)),
                inner,
            ),
        )
    )
    after = b.reg("i64", 0)
    b.body += [Move(after, one), Exit(), Move(after, zero)]
    runner = b.run(level)
    assert runner.value(total, "i64") == sum(j for i in (0, 1, 2, 4) for j in range(i))
    assert runner.value(after, "i64") == 1
    for _ in range(2):  # the registers may be run again
        runner.regs[total] = 0
        runner.bind_run()
        assert runner.value(total, "i64") == 7


def test_scalars_casts_loads_and_stores(level):
    b = Builder()
    half, small, out = np.array([1.5], np.float16), np.array([-3], np.int8), np.zeros(1, np.uint8)
    x, y, z, wide = b.reg("f32"), b.reg("i32"), b.reg("f64"), b.reg("i64")
    less, root = b.reg("bool"), b.reg("f64")
    b.body += [
        Load(x, "f32", "f16", b.ref(half).base, -1),
        Load(y, "i32", "i8", b.ref(small).base, -1),
        Load(wide, "i64", "i8", b.ref(small).base, -1),
        Cast(z, "f64", y, "i32"),
        Scalar("lt", "f64", less, (z, z)),
        Scalar("square", "f64", root, (z,)),
        Store(y, "i32", "u8", b.ref(out).base, -1),
    ]
    runner = b.run(level)
    assert (runner.value(x, "f32"), runner.value(y, "i32"), runner.value(wide, "i64")) == (1.5, -3, -3)
    assert (runner.value(z, "f64"), runner.value(less, "bool"), runner.value(root, "f64")) == (-3.0, 0, 9.0)
    assert out[0] == 253


def test_traps_and_late_allocation(level):
    b = Builder()
    no, yes, address = b.reg("bool", 0), b.reg("bool", 1), b.reg("ptr")
    b.body += [Trap("VALUE", no, 1), Alloc(0), Trap("ZERO_DIVISION", yes, 12), Trap("VALUE", -1, 2)]
    code = b.code()
    code.outputs = (Output("f64", (), address, early=False),)
    runner = Runner(code, level)
    with pytest.raises(Trapped) as caught:
        runner.bind_run()
    assert caught.value.args == (TRAPS["ZERO_DIVISION"], 12)
    assert runner.allocated[0][0] == 0
    assert runner.value(address, "i64") == runner.allocated[0][1].ctypes.data


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_contract_with_batches_strides_bias_and_relu(dtype, level):
    for batch, (m, n, k) in itertools.product([(), (3,), (2, 3)], [(1, 1, 1), (5, 17, 9), (4, 6, 0), (0, 3, 2)]):
        a, w, bias = values((*batch, m, k), dtype), values((k, n), dtype, 1), values((n,), dtype, 2)
        w_t = np.asfortranarray(w)
        for act, b_array, with_bias in itertools.product(["none", "relu"], [w, w_t], [True, False]):
            out = np.full((*batch, m, n), 7, a.dtype)
            b = Builder()
            regs = [b.reg("i64", e) for e in (*batch, m, n, k)]
            b.body.append(
                ContractCode(
                    dtype,
                    tuple(regs[:-3]),
                    *regs[-3:],
                    b.ref(a),
                    b.ref(np.broadcast_to(b_array, (*batch, k, n))),
                    b.ref(out),
                    -1,
                    b.ref(bias) if with_bias else None,
                    act,
                )
            )
            b.run(level)
            want = a @ w + (bias if with_bias else 0)
            want = np.maximum(want, 0) if act == "relu" else want
            assert np.allclose(out, want, rtol=1e-5, atol=1e-5)


def test_loop_over_slices_with_a_nest(level):
    """cumulative: for i in range(1, n): x[i] += x[i - 1], with row addresses computed on the tape."""
    x = values((20, 300))
    want = np.cumsum(x, axis=0, dtype=np.float32)
    b = Builder()
    i, one, n, row, here, before = (
        b.reg(),
        b.reg("i64", 1),
        b.reg("i64", 20),
        b.reg("i64", x.strides[0]),
        b.reg(),
        b.reg(),
    )
    width, base, step = b.reg("i64", 300), b.ref(x).base, b.reg("i64", 4)
    ref = type(b.ref(x))
    b.body.append(
        For(
            i,
            one,
            n,
            one,
            (
                Int("mul", here, i, row),
                Int("sub", before, here, row),
                NestCode(
                    (width,),
                    (
                        In("view", "f32", "f32", ref(base, here, (step,))),
                        In("view", "f32", "f32", ref(base, before, (step,))),
                    ),
                    (node("add", "f32", 0, 1),),
                    (Out(2, "store", "f32", ref(base, here, (step,))),),
                ),
            ),
        )
    )
    b.run(level)
    assert np.allclose(x, want, rtol=1e-5, atol=1e-5)


# --- random nests -----------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("dtype", ["bool", "i32", "i64", "f32", "f64"])
def test_scalar_operations_on_registers_equal_blocks(dtype, level):
    """Every operation on registers, against the block stencil over the same operands; the result may replace an operand."""
    rng = np.random.default_rng(5)
    special = {"f32": [0.0, -0.0, np.inf, np.nan, 1.5], "f64": [0.0, -0.0, -np.inf, np.nan, 2.0]}
    kind = NATIVE_NUMPY[dtype]
    if dtype == "bool":
        pool = np.array([False, True])
    elif dtype[0] == "i":
        pool = np.array([0, 1, -1, 7, -3, np.iinfo(kind).max, np.iinfo(kind).min], kind)
    else:
        pool = np.concatenate([np.array(special[dtype]), rng.standard_normal(3)]).astype(kind)
    a, b = (x.ravel() for x in np.meshgrid(pool, pool))
    for op in OPS:
        if dtype not in op.dtypes:
            continue
        x, y = a, np.abs(b) % 9 if op.name == "pow" and dtype[0] == "i" else b
        arrays = [a == b, x, y] if op.arity == 3 else [x, y][: op.arity]
        want = np.empty(a.size, np.bool_ if op.predicate else kind)
        run_nest(a.shape, arrays, [node(op.name, dtype, *range(op.arity))], [(op.arity, "store", want, 0)], level)
        made = "bool" if op.predicate else dtype
        builder = Builder()
        results = []
        for k in range(a.size):
            regs = [builder.reg("bool" if v.dtype == bool else dtype, v[k].item()) for v in arrays]
            results.append(regs[-1])
            builder.body.append(Scalar(op.name, dtype, regs[-1], tuple(regs)))
        runner = builder.run(level)
        got = np.array([runner.value(reg, made) for reg in results])
        if dtype[0] == "f" and op.name in ("pow", "exp", "exp2", "expm1", "log", "log2", "log1p", "tanh", "erf"):
            np.testing.assert_allclose(got, want, rtol=1e-6 if dtype == "f32" else 1e-15)
        else:
            assert np.array_equal(got, want, equal_nan=True), op.name
