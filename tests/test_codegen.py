"""Kernels as C against the NumPy evaluator of steps: random nests, random plans, control flow, buckets, traps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_build import c_source, compile_kernels, driver, drivers
from nest_fuzz import random_nest
from plan_build import Builder, arrays_for, spread
from plan_eval import StepEvaluator
from plan_models import mlp, row_softmax, transformer_layer
from plan_random import random_plan

from prebake.pgo.c_text import literal
from prebake.pgo.codegen import Kernel, bucket_text, kernel_name
from prebake.pgo.drive import Driver, GuardFailed, Trapped, find_kernel
from prebake.vm.errors import PlanError
from prebake.vm.plan.extents import compare, const, emin, floordiv, register
from prebake.vm.plan.lower import lower_plan
from prebake.vm.plan.passes import run_passes
from prebake.vm.plan.steps import (
    AllocStep,
    BreakStep,
    ExitStep,
    Fact,
    IfStep,
    Literal,
    LoadStep,
    Nest,
    NestInput,
    NestOp,
    NestOut,
    Result,
    ScalarOpStep,
    ScalarReg,
    SetStep,
    StoreStep,
    TrapStep,
    View,
    WhileStep,
)

TOLERANCE = {"f": {"rtol": 2e-5, "atol": 2e-4}, "e": {"rtol": 2e-2, "atol": 2e-2}, "d": {"rtol": 1e-9, "atol": 1e-9}}


def same(got: Any, want: Any, what: str = "") -> None:
    """Equal structure, dtype and shape; floats within the tolerance of re-associated sums."""
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w, what)
        return
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape, (what, got.dtype, got.shape, want.dtype, want.shape)
    with np.errstate(all="ignore"):
        if want.dtype.kind == "f":
            scale = TOLERANCE[want.dtype.char]
            np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), **scale, err_msg=what)  # type: ignore[arg-type]
        else:
            np.testing.assert_array_equal(got, want, err_msg=what)


def extents_of(b: Builder, **values: int) -> dict[str, int]:
    """Extents by symbol, 3 where not given; x_0 stands for x.shape[0]."""
    named = {f"{row.path}.shape[{d}]": 3 for row in b.rows for d in range(row.ndim)}
    return named | {k.replace("_0", ".shape[0]").replace("_1", ".shape[1]"): v for k, v in values.items()}


def check(b: Builder, run: Any = None, seed: int = 0, **values: int) -> Any:
    """What a kernel answers, after comparing it with the steps' own answer."""
    plan = b.plan()
    run = run or driver(lower_plan(plan))
    leaves = [arrays_for(b, extents_of(b, **values), np.random.default_rng(seed)) for _ in range(2)]
    want = StepEvaluator(plan, leaves[0]).run()
    got = run(leaves[1])
    same(got, want, f"{b.name} {values}")
    for row, a in leaves[0].items():
        same(leaves[1][row], a, f"argument {row} of {b.name} {values}")
    return got


# --- nests -----------------------------------------------------------------------------------------------------------

def fuzz_nests(first: int, last: int) -> None:
    built = {str(seed): random_nest(seed) for seed in range(first, last)}
    runs = drivers({name: lower_plan(b.plan()) for name, (b, _) in built.items()})
    rng = np.random.default_rng(first)
    for name, (b, axes) in built.items():
        reduces = {o.reduce for step in b.steps if isinstance(step, Nest) for o in step.outs}
        least = 1 if reduces & {"max", "min", "argmax", "argmin"} else 0
        for trial in range(6):
            sizes = {s: int(rng.choice([least, 1, 2, 3, 7, 40])) for s in axes}
            if axes and trial == 0:
                sizes[axes[-1]] = 300  # past one block
            if axes and trial == 1:
                sizes[axes[0]] = least
            leaves = arrays_for(b, extents_of(b) | b.sample | sizes, rng)
            want = StepEvaluator(b.plan(), leaves).run()
            same(runs[name](leaves), want, f"seed {name} {sizes}")


def test_random_nests() -> None:
    fuzz_nests(0, 48)


def test_copies() -> None:
    """Views that are only copied: slices, turned ones, every dtype, few elements and long rows."""
    built = {}
    for dtype in ("bool", "i8", "f16", "i32", "f32", "f64"):
        for order in ((0, 1, 2), (0, 2, 1), (2, 0, 1), (1, 2, 0)):
            for layout in "CS":
                b = Builder(f"copy_{dtype}_{''.join(map(str, order))}_{layout}")
                x = b.arg("x", [None, None, None], dtype, layout=layout)
                b.ret(b.transpose(b.slice(x, 1, 1, x.shape[1]), order))
                built[b.name] = b
    runs = drivers({name: lower_plan(b.plan()) for name, b in built.items()})
    source = c_source([Kernel("pb_one", lower_plan(built["copy_f32_021_S"].plan()), {})])
    assert "pb_copy(" in source
    for name, b in built.items():
        for shape in ((1, 2, 1), (2, 3, 4), (3, 18, 33), (2, 6, 300), (0, 2, 2), (40, 41, 3)):
            check(b, runs[name], **{f"x.shape[{d}]": n for d, n in enumerate(shape)})


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 2000, 100))
def test_many_random_nests(first: int) -> None:
    fuzz_nests(first, first + 100)


def test_sums_of_what_lies_nowhere_beside_vectors() -> None:
    """Indexes, values of an outer axis and strided ones are reduced in a loop that is written in vectors for the rest."""
    b = Builder()
    x = b.arg("x", [None, 40])
    rows, columns = x.shape
    truth, outer = b.arg("truth", [rows], "bool"), b.arg("outer", [rows])
    zero = const(0)
    items = [NestInput("view", "f32", view=x), NestInput("iota", "i64", axis=1),
             *(NestInput("view", v.dtype, view=View(v.buffer, v.dtype, x.shape, (v.strides[0], zero), zero))
               for v in (truth, outer)),
             NestInput("view", "f32", view=View(x.buffer, "f32", (rows, const(20)), (x.strides[0], const(8)), zero))]
    for slot, name, dtype in ((1, "sum", "i64"), (2, "any", "bool"), (3, "max", "f32"), (4, "prod", "f32")):
        axes = (rows, items[slot].view.shape[1]) if slot == 4 else (rows, columns)
        made, kept = b.temp(axes, "f32"), b.temp([rows], dtype)
        out = View(kept.buffer, dtype, axes, (kept.strides[0], zero), zero)
        source = items[4] if slot == 4 else items[0]
        inputs = [source, items[slot]]
        b.steps.append(Nest(axes, inputs, [NestOp("exp", "f32", "f32", (0,))],
                            [NestOut(2, "store", made, 0), NestOut(1, name, out, 2)]))
        b.give(made, kept)
    run = driver(lower_plan(b.plan()))
    for n in (1, 2, 9):
        check(b, run, x_0=n)


def test_bucket_constants_are_literals_and_ranges_stay() -> None:
    b = Builder()
    x = b.arg("x", [None, None])
    b.ret(b.unary("exp", b.reduce("sum", x, [1])))
    code = lower_plan(b.plan())
    bounds = {"x.shape[0]": (2, 9), "x.shape[1]": (12, 12)}
    table = compile_kernels([Kernel("pb_k", code, bounds)])
    run = Driver(code, table, find_kernel(table, "pb_k"))
    for rows in (2, 5, 9):
        check(b, run, x_0=rows, x_1=12)
    for rows, columns in ((1, 12), (10, 12), (3, 4)):
        with pytest.raises(GuardFailed) as info:
            run({0: np.zeros((rows, columns), "f4")})
        assert info.value.number == 1  # past the plan's own guards, of which there are none
    text = c_source([Kernel("pb_k", code, bounds)])
    assert f"R[{code.symbols['x.shape[1]']}].i != 12" in text
    assert "int64_t n1 = 12;" in text and "int64_t n0 = 12;" not in text


def test_equal_nests_are_one_function() -> None:
    b = Builder()
    x, y = b.arg("x", [None]), b.arg("y", [None])
    b.ret(b.unary("tanh", x), b.unary("tanh", y))
    text = c_source([Kernel(f"pb_k{i}", lower_plan(b.plan()), {"x.shape[0]": (i, i + 7)}) for i in range(3)])
    assert text.count(" int pb_nest_tanh_f32_") == 1


def test_functions_with_vector_variants_are_compiled_where_they_are_used() -> None:
    b = Builder()
    x = b.arg("x", [None])
    b.ret(b.unary("sin", x), b.binary("pow", x, b.unary("cos", x)))
    code = lower_plan(b.plan())
    text = c_source([Kernel("pb_k", code, {})])
    assert all(f"#define PB_USE_{name}\n" in text for name in ("sin", "cos", "pow")) and "PB_USE_tan" not in text
    x_ = np.concatenate([np.linspace(-9, 9, 333), [1e30, -1e30, np.inf, np.nan, -0.0, 0.0]]).astype("f4")
    with np.errstate(all="ignore"):
        same(driver(code)({0: x_}), (np.sin(x_), x_ ** np.cos(x_)), "sin, cos and pow")


def test_strides_known_at_run_time_only() -> None:
    b = Builder()
    x, y = b.arg("x", [None, None], layout="S"), b.arg("y", [None, None], layout="S")
    b.rows[0], b.shapes[1] = b.rows[0], b.shapes[0]
    y = View(y.buffer, "f32", x.shape, y.strides, y.offset)
    b.ret(b.binary("mul", x, y), b.reduce("sum", x, [1]), b.reduce("max", y, [0]))
    run = driver(lower_plan(b.plan()))
    base = np.random.default_rng(1).standard_normal((40, 700)).astype("f4")
    layouts = [base[:20, :300], base[:20, ::2][:, :300], base[::-1][:20, :300], base[:20, 300:0:-1],
               np.asfortranarray(base[:20, :300]), np.broadcast_to(base[:1, :300], (20, 300)),
               np.broadcast_to(base[:20, :1], (20, 300)), np.broadcast_to(base[0, 0], (20, 300))]
    for i, a in enumerate(layouts):
        for c in (layouts[(i + 1) % len(layouts)], a):
            got = run({0: a, 1: c})
            same(got, (a * c, a.sum(1, keepdims=True), c.max(0, keepdims=True)), f"layout {i}")


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_reductions_at_every_size(dtype: str) -> None:
    b = Builder()
    x = b.arg("x", [None, None], dtype)
    names = ("sum", "max", "min", "argmax", "argmin")
    b.ret(*(b.reduce(n, x, [axis], keepdims=False) for n in names for axis in (0, 1)))
    run = driver(lower_plan(b.plan()))
    rng = np.random.default_rng(2)
    for n in (1, 2, 7, 8, 9, 255, 256, 257, 1023, 1024, 1025):
        for place in (None, 0, n - 1):
            a = rng.standard_normal((3, n)).astype({"f32": "f4", "f64": "f8"}[dtype])
            if place is not None:
                a[1, place] = np.nan
                a[2, :] = -np.inf
            for array in (a, np.ascontiguousarray(a.T)):
                want = [getattr(array, name)(axis) for name in names for axis in (0, 1)]
                same(run({0: array}), want, f"{n} {place} {array.shape}")


def test_sums_are_at_least_as_exact_as_pairwise() -> None:
    b = Builder()
    x = b.arg("x", [None])
    b.ret(b.reduce("sum", x, [0]))
    run = driver(lower_plan(b.plan()))
    a = np.full(1_000_001, 0.1, "f4")
    exact = float(a.astype("f8").sum())
    assert abs(float(run({0: a})[0]) - exact) <= abs(float(a.sum()) - exact)
    inf = np.ones(600, "f4")
    inf[300] = np.inf
    assert run({0: inf})[0] == np.inf


def indexed(mode: str) -> Builder:
    """A gather or scatter of rows by an int64 array."""
    b = Builder(mode)
    table, index = b.arg("t", [None, None], writable=True), b.arg("i", [None], "i64")
    axes = (index.shape[0], table.shape[1])
    at = NestInput("view", "i64", view=View(index.buffer, "i64", axes, (index.strides[0], const(0)), const(0)))
    moved = View(table.buffer, "f32", axes, (const(0), table.strides[1]), const(0))
    where = ((0, table.shape[0], table.strides[0]),)
    if mode == "gather":
        out = b.temp(axes, "f32")
        out.buffer.kind = "out"
        b.results.append(Result("new", view=out))
        b.steps.append(Nest(axes, [at], [NestOp("gather", "f32", "i64", (), moved, where, 7),
                                         NestOp("square", "f32", "f32", (1,))], [NestOut(2, "store", out)]))
    else:
        value = NestInput("scalar", "f32", operand=Literal(5.0, "f32"))
        b.steps.append(Nest(axes, [at, value], [], [NestOut(1, "store", moved, indexes=where, position=9)]))
        b.results.append(Result("arg", row=0))
    return b


def test_indices_wrap_and_trap() -> None:
    table = np.arange(12, dtype="f4").reshape(4, 3)
    runs = drivers({m: lower_plan(indexed(m).plan()) for m in ("gather", "scatter")})
    index = np.array([0, -1, 3, -4, 2], "i8")
    same(runs["gather"]({0: table, 1: index}), table[index] ** 2)
    written = table.copy()
    runs["scatter"]({0: written, 1: index[:3]})
    want = table.copy()
    want[index[:3]] = 5
    same(written, want)
    for bad in (4, -5, 2**62, -(2**63)):
        untouched = table.copy()
        for mode, position in (("gather", 7), ("scatter", 9)):
            with pytest.raises(Trapped) as info:
                runs[mode]({0: untouched, 1: np.array([1, bad, 0], "i8")})
            assert (info.value.code, info.value.position) == ("INDEX", position)
        same(untouched, table)  # nothing was stored before the check
    same(runs["gather"]({0: table[:0], 1: index[:0]}), np.zeros((0, 3), "f4"))


def test_masked_stores_and_in_place() -> None:
    b = Builder()
    x = b.arg("x", [None], writable=True)
    inputs = [NestInput("view", "f32", view=x), NestInput("scalar", "f32", operand=Literal(0.0, "f32"))]
    b.steps.append(Nest(x.shape, inputs, [NestOp("lt", "bool", "f32", (0, 1)), NestOp("neg", "f32", "f32", (0,))],
                        [NestOut(3, "store", x, mask=2)]))
    b.results.append(Result("arg", row=0))
    run = driver(lower_plan(b.plan()))
    for n in (0, 1, 9, 1000):
        a = np.random.default_rng(n).standard_normal(n).astype("f4")
        want = np.where(a < 0, -a, a)
        assert run({0: a}) is a
        same(a, want)


def test_reductions_over_different_axes_share_a_nest_with_an_in_place_store() -> None:
    b = Builder()
    x = b.arg("x", [None, None], writable=True)
    n, m = x.shape
    rows, columns = b.temp([n], "f32"), b.temp([m], "f32")
    for v in (rows, columns):
        v.buffer.kind = "out"
        b.results.append(Result("new", view=v))
    outs = [NestOut(0, "sum", View(rows.buffer, "f32", x.shape, (rows.strides[0], const(0)), const(0)), 2),
            NestOut(1, "store", x),
            NestOut(0, "max", View(columns.buffer, "f32", x.shape, (const(0), columns.strides[0]), const(0)), 1)]
    b.steps.append(Nest(x.shape, [NestInput("view", "f32", view=x)], [NestOp("neg", "f32", "f32", (0,))], outs))
    check(b, x_0=5, x_1=6)


def test_what_is_reduced_or_taken_is_read_before_it_is_overwritten_in_place() -> None:
    b = Builder()
    x = b.arg("x", [None], "f64", writable=True)
    total, taken = b.temp((), "f64"), b.temp(x.shape, "f64")
    for v in (total, taken):
        v.buffer.kind = "out"
        b.results.append(Result("new", view=v))
    b.nest(x.shape, [(Literal(0.0, "f64"), "f64")], [], taken)
    everywhere = [View(v.buffer, "f64", x.shape, (const(0),), const(0)) for v in (total, taken)]
    inputs = [NestInput("view", "f64", view=x), NestInput("scalar", "f64", operand=Literal(5.0, "f64"))]
    ops = [NestOp("add", "f64", "f64", (0, 1)), NestOp("ge", "bool", "f64", (0, 0))]  # all are taken
    b.steps.append(Nest(x.shape, inputs, ops, [
        NestOut(2, "store", x), NestOut(0, "sum", everywhere[0], 1), NestOut(0, "compress", everywhere[1], 1, 3)]))
    check(b, x_0=7)
    check(b, x_0=600)


# --- whole plans -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("fused", [False, True])
def test_random_plans(fused: bool) -> None:
    fuzz_plans(range(24), fused)


@pytest.mark.slow
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("first", range(100, 500, 100))
def test_many_random_plans(first: int, fused: bool) -> None:
    fuzz_plans(range(first, first + 100), fused)


def fuzz_plans(seeds: range, fused: bool) -> None:
    codes = {}
    for seed in seeds:
        plan = random_plan(seed).plan()
        codes[str(seed)] = lower_plan(run_passes(plan) if fused else plan)
    runs = drivers(codes)
    for seed in seeds:
        b = random_plan(seed)
        for n, m in ((1, 1), (3, 4), (7, 5), (2, 40)):
            shapes = {"x": (n, m), "y": (n, m), "v": (m,), "w": (m, 4), "c": (4,)}
            values = {f"{row.path}.shape[{d}]": shapes[row.path][d] for row in b.rows for d in range(row.ndim)}
            leaves = [arrays_for(b, values, np.random.default_rng(seed)) for _ in range(2)]
            want = StepEvaluator(b.plan(), leaves[0]).run()
            got = runs[str(seed)](leaves[1])
            plan_same(got, want, f"random_plan({seed}) {n} {m}")


def plan_same(got: Any, want: Any, what: str) -> None:
    """As `same`, but relative to the largest value: long programs cancel."""
    if isinstance(want, tuple):
        for g, w in zip(got, want, strict=True):
            plan_same(g, w, what)
        return
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape, what
    finite = np.abs(want[np.isfinite(want)]).astype("f8")
    scale = max(float(finite.max(initial=0)), 0.02)
    bound = {"f": 1e-3, "d": 1e-8}.get(want.dtype.char, 0) * scale
    with np.errstate(all="ignore"):
        near = np.abs(got.astype("f8") - want.astype("f8")) <= bound
        fine = (got == want) | (np.isnan(got) & np.isnan(want)) | near
    assert fine.all(), f"{what}: {got[~fine][:3]} instead of {want[~fine][:3]}"


@pytest.mark.parametrize("fused", [False, True])
def test_models(fused: bool) -> None:
    models = {"mlp": mlp(), "row_softmax": row_softmax(), "transformer": transformer_layer()}
    plans = {name: b.plan() for name, b in models.items()}
    runs = drivers({name: lower_plan(run_passes(plan) if fused else plan) for name, plan in plans.items()})
    for name, make in (("mlp", mlp), ("row_softmax", row_softmax), ("transformer", transformer_layer)):
        for n in (1, 2, 5, 9):
            check(make(), runs[name], x_0=n, x_1={"mlp": 6, "row_softmax": 11, "transformer": 8}[name])


def test_products_in_batches_with_bias_and_activation() -> None:
    b = Builder()
    x, w, bias = b.arg("x", [None, None, 7]), b.arg("w", [7, 9], constant=True), b.arg("b", [9])
    out = b.temp((*x.shape[:2], const(9)), "f32")
    out.buffer.kind = "out"
    b.results.append(Result("new", view=out))
    y = b.matmul(x, w)
    step = b.steps[-1]
    step.out, step.bias, step.act = View(out.buffer, "f32", y.shape, y.strides, const(0)), bias, "relu"  # type: ignore[union-attr]
    check(b, x_0=3, x_1=4)
    assert lower_plan(b.plan()).packs
    many = Builder()
    p, q = many.arg("x", [None, 3, 5]), many.arg("y", [1, 5, 4], layout="S")
    many.ret(many.matmul(p, spread(q, (p.shape[0], const(5), const(4)))))
    check(many, x_0=4, y_0=1)


# --- control flow and scalars ----------------------------------------------------------------------------------------

def test_loops_with_exits_and_changing_scalars() -> None:
    b = Builder()
    x = b.arg("x", [None])
    i, total, done = ScalarReg("i64", "i", register("i")), ScalarReg("f32", "total"), ScalarReg("bool", "done")
    value = ScalarReg("f32", "value")
    assert i.expr is not None
    at = View(x.buffer, "f32", (), (), i.expr * 4)
    body = [ScalarOpStep("ge", done, (i.expr, x.shape[0]), "i64"), IfStep(done, [BreakStep()], []), LoadStep(value, at),
            ScalarOpStep("add", total, (total, value), "f32"), SetStep(i, i.expr + 2)]
    b.steps += [SetStep(i, const(0)), SetStep(total, Literal(0.0, "f32")), WhileStep(body)]
    b.ret_scalar(total)
    b.ret_scalar(i.expr)
    run = driver(lower_plan(b.plan()))
    for n in (0, 1, 5, 8):
        assert check(b, run, x_0=n)[1] == n + n % 2


def test_counted_loops_in_both_directions_over_slices() -> None:
    for step in (1, 2, -1, -3):
        b = Builder(f"step{step}")
        x, y = b.arg("x", [None, None]), b.arg("y", [None, None], writable=True)
        b.shapes[1] = x.shape
        y = View(y.buffer, "f32", x.shape, x.strides, const(0))
        first, last = (const(0), x.shape[0]) if step > 0 else (x.shape[0] - 1, const(-1))
        with b.loop(last, first, step) as i:
            def row(v: View, i: Any = i) -> View:
                return View(v.buffer, v.dtype, (v.shape[1],), (v.strides[1],), v.strides[0] * i)
            b.store(row(y), b.binary("mul", row(x), 2.0))
        b.results.append(Result("arg", row=1))
        run = driver(lower_plan(b.plan()))
        for n in (0, 1, 4, 7):
            check(b, run, x_0=n, x_1=3, y_0=n, y_1=3)


def test_early_exit_writes_its_results() -> None:
    b = Builder()
    x = b.arg("x", [None])
    flag, result = ScalarReg("bool", "flag"), ScalarReg("i64", "r", register("r"))
    top = b.load(b.reduce("max", x, [0], keepdims=False))
    b.steps += [ScalarOpStep("gt", flag, (top, Literal(0.5, "f32")), "f32"), SetStep(result, const(7)),
                IfStep(flag, [ExitStep()], []), SetStep(result, const(9))]
    assert result.expr is not None
    b.ret_scalar(result.expr)
    run = driver(lower_plan(b.plan()))
    assert {check(b, run, seed=s, x_0=2) for s in range(12)} == {7, 9}


def test_traps_facts_and_arguments() -> None:
    b = Builder()
    x, scale, n = b.arg("x", [None, None], writable=True), b.real("scale"), b.integer("n")
    b.facts.append(Fact(compare("eq", x.shape[0], x.shape[1]), False, "x.shape[0] != x.shape[1]"))
    bad = ScalarReg("bool", "bad")
    b.steps += [ScalarOpStep("eq", bad, (n, Literal(13, "i64")), "i64"), TrapStep("VALUE", bad, 21)]
    b.store(x, b.binary("mul", x, scale))
    b.steps.append(StoreStep(View(x.buffer, "f32", (), (), const(4)), Literal(-0.0, "f32")))
    b.ret(x)
    b.ret_scalar(emin(n, floordiv(x.shape[0], 2)))
    code = lower_plan(b.plan())
    run = driver(code)
    got = check(b, run, x_0=3, x_1=4, n=2)
    assert got[1] == 1 and np.signbit(got[0][0, 1])
    with pytest.raises(GuardFailed) as guard:
        run({0: np.zeros((3, 3), "f4"), 1: 1.0, 2: 2})
    assert guard.value.number == 1
    with pytest.raises(Trapped) as trap:
        run({0: np.zeros((2, 3), "f4"), 1: 1.0, 2: 13})
    assert (trap.value.code, trap.value.position) == ("VALUE", 21)
    with pytest.raises(PlanError, match=r"x.shape\[0\] != x.shape\[1\].*false everywhere"):
        compile_kernels([Kernel("pb_k", code, {"x.shape[0]": (4, 4), "x.shape[1]": (4, 4)})])


def test_late_results_are_allocated_when_their_shape_is_known() -> None:
    b = Builder()
    x = b.arg("x", [None], "i64")
    count = b.load(b.reduce("max", x, [0], keepdims=False))
    assert count.expr is not None
    out = b.temp([count.expr], "f32")
    out.buffer.kind = "out"
    b.steps.append(AllocStep(out.buffer))
    b.nest([count.expr], [("iota", 0)], [("cast", "i64", "f32", (0,))], out)
    b.results.append(Result("new", view=out))
    run = driver(lower_plan(b.plan()))
    for n in (0, 1, 9):
        same(run({0: np.array([n, 0], "i8")}), np.arange(n, dtype="f4"))


def test_floor_division_of_extents_matches_python() -> None:
    b = Builder()
    n, d = b.integer("n"), b.integer("d")
    from prebake.vm.plan.extents import mod
    b.ret_scalar(floordiv(n, d))
    b.ret_scalar(mod(n, d))
    run = driver(lower_plan(b.plan()))
    for a in (-7, -1, 0, 1, 6, 7):
        for c in (-3, -1, 1, 2, 7):
            assert tuple(map(int, run({0: a, 1: c}))) == (a // c, a % c)
    assert tuple(map(int, run({0: 5, 1: 0}))) == (0, 0)


# --- text ------------------------------------------------------------------------------------------------------------

def test_literals_are_exact() -> None:
    assert literal(0.1, "f64") == "0x1.999999999999ap-4"
    assert literal(0.1, "f32") == "0x1.99999a0000000p-4f"
    assert literal(-0.0, "f32") == "(-0x0.0p+0f)"
    assert literal(float("nan"), "f64") == '__builtin_nan("")' and literal(-np.inf, "f32") == "-__builtin_inff()"
    assert literal(1e300, "f32") == "__builtin_inff()"
    assert literal(-(2**63), "i64") == "INT64_MIN" and literal(2**40, "i64") == "1099511627776LL"
    assert literal(True, "bool") == "1" and literal(-3, "i64") == "(-3)"


def test_names_are_c_names() -> None:
    assert kernel_name("models.risk:Net.score", 0, 3) == "pb_models_risk__Net_score_p0_b3"
    assert bucket_text({"x.shape[0]": (1, 2**62), "d": (4, 4)}) == "{d: 4, x.shape[0]: [1, inf]}"
    assert "*/" not in bucket_text({'p["*/"]': (1, 2)})


@pytest.mark.parametrize("n", [2, 3, 4])
def test_narrowing_rounds_in_small_kernels(n: int) -> None:
    """float64 -> float32 -> float64 keeps its rounding where the compiler knows few extents (GCC 12 once lost it)."""
    from prebake.vm.lang.frontend import compile_function
    from prebake.vm.plan.lower import lower_plan
    from prebake.vm.plan.passes import run_passes
    from prebake.vm.plan.planner import plan_live

    def narrowed(x, z):
        return (z.astype(np.float32) * x).sum(axis=1)

    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((n, n)), rng.standard_normal((n, n))
    code = lower_plan(run_passes(plan_live(compile_function(narrowed), (x, z), lambda index: None)))
    kernel = driver(code, {f"{name}.shape[{axis}]": (n, n) for name in "xz" for axis in (0, 1)})
    assert np.abs(kernel({0: x, 1: z}) - narrowed(x, z)).max() < 1e-14
