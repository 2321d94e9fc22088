"""Lowering: register code computes what the steps say, with integer work at entry or hoisted out of loops."""

from __future__ import annotations

import numpy as np
import pytest
from plan_build import Builder, arrays_for
from plan_eval import CodeEvaluator, GuardFailed, StepEvaluator, Trapped

from prebake.vm.lang.frontend import compile_function
from prebake.vm.plan.code import For, Int, NestCode, Trap
from prebake.vm.plan.extents import compare, const, emin, floordiv, register, symbol
from prebake.vm.plan.lower import lower_plan
from prebake.vm.plan.planner import plan_live
from prebake.vm.plan.steps import (
    BreakStep,
    ExitStep,
    Fact,
    IfStep,
    Literal,
    Result,
    ScalarOpStep,
    ScalarReg,
    SetStep,
    StoreStep,
    TrapStep,
    View,
    WhileStep,
)

RNG = np.random.default_rng(7)


def extents_of(builder: Builder, values: dict[str, int]) -> dict[str, int]:
    """Extents by symbol name for a builder's rows, default 3."""
    names = [f"{row.path}.shape[{d}]" for row in builder.rows for d in range(row.ndim)]
    return {name: values.get(name, 3) for name in names} | values


def both(builder: Builder, **values: int) -> object:
    """Result of the code, after comparing it with the steps' own."""
    plan = builder.plan()
    named = {k.replace("_0", ".shape[0]").replace("_1", ".shape[1]"): v for k, v in values.items()}
    leaves = arrays_for(builder, extents_of(builder, named), RNG)
    want = StepEvaluator(plan, {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in leaves.items()}).run()
    got = CodeEvaluator(lower_plan(plan), leaves).run()
    np.testing.assert_equal(got, want)
    return got


def softmax(b: Builder, x: View) -> View:
    top = b.reduce("max", x, [1])
    e = b.unary("exp", b.binary("sub", x, top))
    return b.binary("div", e, b.reduce("sum", e, [1]))


def relu(b: Builder, x: View) -> View:
    return b.binary("maximum", x, 0.0)


@pytest.mark.parametrize("rows", [0, 1, 2, 7])
def test_mlp_with_packed_weights(rows: int) -> None:
    b = Builder()
    x = b.arg("x", [None, 4])
    w1, b1 = b.arg("w1", [4, 6], constant=True), b.arg("b1", [6], constant=True)
    w2 = b.arg("w2", [6, 3], constant=True)
    hidden = relu(b, b.binary("add", b.matmul(x, w1), b1))
    b.ret(softmax(b, b.matmul(hidden, w2)))
    got = both(b, x_0=rows)
    assert isinstance(got, np.ndarray) and got.shape == (rows, 3)
    code = lower_plan(b.plan())
    assert [(p.k, p.n) for p in code.packs] == [(4, 6), (6, 3)]
    assert set(code.symbols) == {"x.shape[0]", "x.shape[1]"}
    assert [leaf.row for leaf in code.leaves] == [0, 1, 2, 3]


def test_strided_and_reversed_arguments() -> None:
    b = Builder()
    n, m = symbol("x.shape[0]"), symbol("x.shape[1]")
    x, y = b.arg("x", [n, m], layout="S"), b.arg("y", [m, n], layout="S")
    b.ret(b.matmul(x, y), b.binary("mul", x, b.transpose(y, (1, 0))))
    both(b, x_0=3, x_1=5, y_0=5, y_1=3)


def test_facts_become_guards() -> None:
    b = Builder()
    x = b.arg("x", [None, None])
    n, m = x.shape
    b.facts.append(Fact(compare("eq", n, m), False, "x.shape[0] != x.shape[1]"))
    b.facts.append(Fact(compare("lt", const(1), n), True, "x.shape[0] > 1"))
    b.ret(b.unary("neg", x))
    both(b, x_0=3, x_1=4)
    code = lower_plan(b.plan())
    for shape, text in (((3, 3), "x.shape[0] != x.shape[1]"), ((1, 4), "x.shape[0] > 1")):
        with pytest.raises(GuardFailed, match=r"x\.shape") as info:
            CodeEvaluator(code, {0: np.zeros(shape, "f4")}).run()
        assert str(info.value) == text


def test_entry_integers_are_bound_and_shared() -> None:
    b = Builder()
    x = b.arg("x", [None, None])
    half = floordiv(x.shape[1], 2)
    left, right = b.slice(x, 1, 0, half), b.slice(x, 1, half, half * 2)
    b.ret(b.binary("add", left, right))
    both(b, x_0=3, x_1=7)
    code = lower_plan(b.plan())
    assert sum(isinstance(i, Int) and i.op == "floordiv" and i.b in code.consts and code.consts[i.b] == 2
               for i in code.bind) == 1
    assert all(isinstance(i, NestCode) for i in code.body)


def test_loop_expressions_are_hoisted_to_the_loop_that_defines_them() -> None:
    b = Builder()
    n, m = symbol("x.shape[0]"), symbol("x.shape[1]")
    x, out = b.arg("x", [n, m, 4]), b.arg("y", [n, m, 4], writable=True)
    with b.loop(n) as i, b.loop(m) as j:
        def at(v: View, i: object = i, j: object = j) -> View:
            return View(v.buffer, v.dtype, (v.shape[2],), (v.strides[2],), v.strides[0] * i + v.strides[1] * j)
        b.store(at(out), b.unary("neg", at(x)))
    b.ret(out)
    both(b, x_0=3, x_1=2, y_0=3, y_1=2)
    (outer, last) = lower_plan(b.plan()).body
    assert isinstance(outer, For) and isinstance(last, NestCode)
    *before, inner = outer.body
    assert isinstance(inner, For)
    assert [i.op for i in before if isinstance(i, Int)] == ["mul"]  # i * row bytes, once for each i
    assert [i.op for i in inner.body if isinstance(i, Int)] == ["mul", "add"]


def test_changing_scalars_invalidate_what_was_computed_from_them() -> None:
    b = Builder()
    x = b.arg("x", [None])
    n = x.shape[0]
    i = ScalarReg("i64", "i", register("i"))
    total = ScalarReg("f32", "total")
    done = ScalarReg("bool", "done")
    value = ScalarReg("f32", "value")
    step = ScalarReg("i64", "t", register("t"))
    assert i.expr is not None and step.expr is not None
    at = View(x.buffer, "f32", (), (), i.expr * 4)
    body = [ScalarOpStep("ge", done, (i.expr, n), "i64"), IfStep(done, [BreakStep()], [])]
    inner = Builder()
    inner.steps = body
    from prebake.vm.plan.steps import LoadStep
    body += [LoadStep(value, at), ScalarOpStep("add", total, (total, value), "f32"),
             ScalarOpStep("add", step, (i.expr, Literal(2, "i64")), "i64"), SetStep(i, step.expr)]
    b.steps += [SetStep(i, const(0)), SetStep(total, Literal(0.0, "f32")), WhileStep(body)]
    b.ret_scalar(total)
    b.ret_scalar(i.expr)
    for rows in (0, 1, 5):
        got = both(b, x_0=rows)
        assert isinstance(got, tuple) and got[1] == rows + rows % 2


def test_early_exit_leaves_results_behind() -> None:
    b = Builder()
    x = b.arg("x", [None])
    flag, result = ScalarReg("bool", "flag"), ScalarReg("i64", "r", register("r"))
    top = b.load(b.reduce("max", x, [0], keepdims=False))
    b.steps.append(ScalarOpStep("gt", flag, (top, Literal(0.5, "f32")), "f32"))
    b.steps.append(SetStep(result, const(7)))
    b.steps.append(IfStep(flag, [ExitStep()], []))
    b.steps.append(SetStep(result, const(9)))
    assert result.expr is not None
    b.ret_scalar(result.expr)
    seen = {both(b, x_0=n) for n in (1, 1, 1, 1, 1, 1, 1, 1)}
    assert seen == {7, 9}


def test_traps_carry_their_position() -> None:
    b = Builder()
    x = b.arg("x", [None])
    bad = ScalarReg("bool", "bad")
    first = b.load(View(x.buffer, "f32", (), (), const(0)))
    b.steps.append(ScalarOpStep("lt", bad, (first, Literal(100.0, "f32")), "f32"))
    b.steps.append(TrapStep("INDEX", bad, 17))
    b.ret_scalar(first)
    with pytest.raises(Trapped) as info:
        CodeEvaluator(lower_plan(b.plan()), {0: np.zeros(3, "f4")}).run()
    assert info.value.args == ("INDEX", 17)
    assert any(isinstance(i, Trap) for i in lower_plan(b.plan()).body)


def test_scalar_arguments_and_stores() -> None:
    b = Builder()
    x, scale, n = b.arg("x", [None, None], writable=True), b.real("scale"), b.integer("n")
    y = b.binary("mul", x, scale)
    b.store(x, y)
    b.steps.append(StoreStep(View(x.buffer, "f32", (), (), const(4)), Literal(-0.0, "f32")))
    b.ret(x)
    b.ret_scalar(emin(n, x.shape[0]))
    got = both(b, x_0=3, x_1=4, n=2)
    assert isinstance(got, tuple) and got[1] == 2 and np.signbit(got[0][0, 1])


def test_views_of_results_and_arguments() -> None:
    b = Builder()
    x = b.arg("x", [None, None])
    out = b.temp(x.shape, "f32")
    out.buffer.kind = "out"
    b.store(out, b.unary("neg", x))
    b.results += [Result("new", view=out), Result("view", view=b.transpose(out, (1, 0))),
                  Result("view", view=b.slice(x, 0, 1, x.shape[0])), Result("arg", row=0)]
    got = both(b, x_0=4, x_1=2)
    assert isinstance(got, tuple)
    code = lower_plan(b.plan())
    assert [item.kind for item in code.result.items] == ["new", "view", "view", "arg"]
    assert code.result.items[1].output == 0 and code.result.items[2].row == 0


def test_unknown_symbol_is_an_internal_error() -> None:
    from prebake.vm.errors import InternalError
    b = Builder()
    b.arg("x", [symbol("nowhere.shape[0]")])
    b.ret_scalar(symbol("nowhere.shape[0]"))
    with pytest.raises(InternalError, match="nowhere"):
        lower_plan(b.plan())


def test_codes_of_one_plan_read_alike() -> None:
    """Builds put kernels together whose codes read alike: nothing in the text may be an address."""
    def score(x, w):  # type: ignore[no-untyped-def]
        return np.tanh(x @ w) * 2

    program = compile_function(score)
    texts = [repr(lower_plan(plan_live(program, (np.ones((n, 3)), np.ones((3, 2))), lambda index: None))) for n in (4, 9)]
    assert texts[0] == texts[1] and "places" not in texts[0]
