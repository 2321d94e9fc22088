"""The tape machine on hand-built code, for every CPU level of the host: registers, control, traps, products."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tape_arrays import values
from tape_helper import LEVELS, NATIVE_NUMPY, Builder, Runner, Trapped, node, run_nest

from prebake.templates.scalars import OPS
from prebake.templates.tapecode import TRAPS
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
    Out,
    Output,
    Scalar,
    Store,
    Trap,
    While,
)

pytestmark = pytest.mark.parametrize("level", LEVELS)


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
