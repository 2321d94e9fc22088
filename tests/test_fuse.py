"""Passes: the same results before and after, and the fusions that are expected of known programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plan_build import Builder, arrays_for
from plan_eval import CodeEvaluator, StepEvaluator
from plan_models import layer_norm, mlp, row_softmax, softmax, transformer_layer
from plan_random import random_plan

import prebake.vm.plan.attention as attention
import prebake.vm.plan.block as block
from prebake.vm.plan.check import check_plan
from prebake.vm.plan.extents import Evaluator, const, floordiv, symbol
from prebake.vm.plan.lower import lower_plan
from prebake.vm.plan.passes import PASSES, run_passes
from prebake.vm.plan.policy import BY_NAME
from prebake.vm.plan.show import show_code, show_plan
from prebake.vm.plan.steps import (
    Contract,
    ExitStep,
    ForStep,
    IfStep,
    Literal,
    Nest,
    NestInput,
    NestOp,
    NestOut,
    Plan,
    Result,
    ScalarOpStep,
    ScalarReg,
    Step,
    View,
    walk,
)

SWITCHES = ("chain", "reduce_epilogue", "product_epilogue", "product_residual", "row_softmax", "row_norm", "product_norm",
            "attention")


def fresh(leaves: dict[int, Any]) -> dict[int, Any]:
    """Copies of leaves, with the layout they had."""
    out = {}
    for row, value in leaves.items():
        if isinstance(value, np.ndarray) and not value.flags.c_contiguous:
            value = value.base.copy()[tuple(slice(None, None, -2) for _ in value.shape)]
        out[row] = value.copy() if isinstance(value, np.ndarray) and value.flags.c_contiguous else value
    return out


def compare(builder: Builder, extents: dict[str, int], disable: tuple[str, ...] = (), seed: int = 0) -> Plan:
    """The plan after the passes, having checked that its results and its code's are those of the typed steps."""
    plan = builder.plan()
    plan.sample = dict(extents)
    leaves = arrays_for(builder, extents, np.random.default_rng(seed))
    with np.errstate(all="ignore"):
        check_plan(plan)
        want = StepEvaluator(plan, fresh(leaves)).run()
        run_passes(plan, disable)
        check_plan(plan)
        got = StepEvaluator(plan, fresh(leaves)).run()
        code = CodeEvaluator(lower_plan(plan), fresh(leaves)).run()
    for name, value in (("steps", got), ("code", code)):
        for x, y in zip(*(v if isinstance(v, tuple) else (v,) for v in (value, want)), strict=True):
            tolerance = 1e-9 if np.asarray(y).dtype == np.float64 else 2e-4
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=name)
    return plan


def kinds(steps: list[Step]) -> list[str]:
    """Names of the steps, loops opened."""
    return [type(step).__name__ for step in walk(steps)]


@pytest.mark.parametrize("seed", range(60))
def test_random_plans_keep_their_results(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "BLOCK_BYTES", (1, 40, 100, 256 << 10)[seed % 4])
    disable = tuple(name for i, name in enumerate(SWITCHES) if (seed * 7 + 3) >> i & 1) if seed % 3 == 0 else ()
    for rows, columns in ((4, 3), (1, 1), (0, 2), (5, 6)):
        compare(random_plan(seed), {"x.shape[0]": rows, "x.shape[1]": columns}, disable, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 1500))
def test_many_random_plans(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "BLOCK_BYTES", (1, 40, 100, 256 << 10)[seed % 4])
    for rows, columns in ((4, 3), (1, 1), (0, 2), (3, 1), (5, 6)):
        compare(random_plan(seed, 20), {"x.shape[0]": rows, "x.shape[1]": columns}, (), seed)


@pytest.mark.parametrize("off", [(), *((name,) for name in SWITCHES), tuple(BY_NAME)])
@pytest.mark.parametrize("rows", [0, 1, 2, 5, 40])
def test_models_with_fusions_on_and_off(off: tuple[str, ...], rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "BLOCK_BYTES", 300)
    monkeypatch.setattr(block, "LEAST_ROWS", 3)
    monkeypatch.setattr(block, "MOST_ROWS", 16)
    monkeypatch.setattr(attention, "BLOCK_BYTES", 300)
    monkeypatch.setattr(attention, "LEAST_ROWS", 3)
    for builder in (transformer_layer(), mlp(), row_softmax()):
        plan = compare(builder, {"x.shape[0]": rows, "x.shape[1]": 7}, off)
        for name in off:
            assert all("switched off" in note for note in plan.fired.get(name, ()))


def test_mlp_becomes_products_and_one_block() -> None:
    plan = compare(mlp((6, 8, 4, 5)), {"x.shape[0]": 9})
    products = [step for step in walk(plan.steps) if isinstance(step, Contract)]
    assert [(p.bias is not None, p.act) for p in products] == [(True, "relu"), (True, "relu"), (True, "none")]
    assert kinds(plan.steps) == ["ForStep"] + ["Contract"] * 3 + ["Nest"] * 3
    assert plan.steps[0].body[-1].outs[0].view.buffer.kind == "out"  # type: ignore[union-attr]
    assert "6 steps over x.shape[0] rows" in plan.fired["product_norm"][0]


def test_rows_of_products_are_split_evenly() -> None:
    b = Builder()
    x, w, v = b.arg("x", [None, 4]), b.arg("w", [4, 4], constant=True), b.arg("v", [4, 4], constant=True)
    b.give(b.matmul(b.matmul(x, w), v))
    plan = compare(b, {"x.shape[0]": 400})
    (loop,) = plan.steps
    assert isinstance(loop, ForStep)
    rows = {n: loop.step.evaluate({"x.shape[0]": n}) for n in (0, 1, 7, 192, 193, 200, 400, 577)}
    assert rows == {0: 1, 1: 1, 7: 7, 192: 192, 193: 97, 200: 100, 400: 134, 577: 145}


def test_relu_layer_is_one_product_into_the_result() -> None:
    b = Builder()
    x, w, bias = b.arg("x", [None, 4]), b.arg("w", [4, 3], constant=True), b.arg("bias", [3], constant=True)
    b.ret(b.binary("maximum", b.binary("add", b.matmul(x, w), bias), 0.0))
    plan = compare(b, {"x.shape[0]": 5})
    (product,) = plan.steps
    assert isinstance(product, Contract) and product.act == "relu" and product.out.buffer.kind == "out"
    assert plan.fired["product_epilogue"] == ["2 biases and activations moved into products"]


def test_where_form_of_relu_stays_outside() -> None:
    """np.where(h > 0, h, 0) turns NaN into 0, the product's relu keeps it."""
    b = Builder()
    x, w = b.arg("x", [None, 4]), b.arg("w", [4, 3], constant=True)
    h = b.matmul(x, w)
    zero = b.temp(h.shape, "f32")
    b.nest(h.shape, [(Literal(0.0, "f32"), "f32")], [], zero, slot=0)
    b.ret(b.where(b.binary("lt", zero, h), h, zero))
    plan = compare(b, {"x.shape[0]": 5})
    assert [step.act for step in walk(plan.steps) if isinstance(step, Contract)] == ["none"]


def test_gelu_is_one_nest() -> None:
    b = Builder()
    x = b.arg("x", [None, None])
    cube = b.binary("mul", b.binary("mul", x, x), x)
    inner = b.binary("mul", b.binary("add", x, b.binary("mul", cube, 0.044715)), 0.79788456)
    b.ret(b.binary("mul", b.binary("mul", x, 0.5), b.binary("add", b.unary("tanh", inner), 1.0)))
    plan = compare(b, {"x.shape[0]": 3, "x.shape[1]": 5})
    (nest,) = plan.steps
    assert isinstance(nest, Nest) and len(nest.axes) == 1 and len(nest.ops) == 9
    assert sum(item.view is not None for item in nest.inputs) == 1


def test_softmax_is_a_block_of_three_nests() -> None:
    plan = compare(row_softmax(), {"x.shape[0]": 300, "x.shape[1]": 300})
    (loop,) = plan.steps
    assert isinstance(loop, ForStep) and [len(step.outs) for step in loop.body] == [1, 2, 1]  # type: ignore[union-attr]
    assert "3 steps" in plan.fired["row_softmax"][0]
    temps = {out.view.buffer for step in loop.body for out in step.outs} - {None}  # type: ignore[union-attr]
    sizes = [buffer.size_bytes.evaluate(plan.sample) for buffer in temps if buffer.kind == "temp"]
    assert max(sizes) <= block.BLOCK_BYTES < 300 * 300 * 4


@pytest.mark.parametrize("rows", [1, 5, 84, 85, 120, 127, 128, 1000, 1001])
def test_blocks_of_rows_are_of_nearly_one_size(rows: int) -> None:
    """No block of a few rows at the end; none is more than half as large again as its share of the cache."""
    plan = compare(row_softmax(), {"x.shape[0]": rows, "x.shape[1]": 384})
    (loop,) = [step for step in plan.steps if isinstance(step, ForStep)]
    size = Evaluator(lambda atom: plan.sample[str(atom.name)])(loop.step)
    blocks = -(-rows // size)
    assert size - (rows - (blocks - 1) * size) < blocks
    assert size * 384 * 8 <= 1.5 * block.BLOCK_BYTES + 384 * 8


def test_layer_norm_reads_its_input_three_times() -> None:
    """The mean inside the variance is the mean: it is not computed twice."""
    b = Builder()
    x, gain, shift = b.arg("x", [None, 8]), b.arg("g", [8]), b.arg("h", [8])
    b.ret(layer_norm(b, x, gain, shift))
    plan = compare(b, {"x.shape[0]": 33})
    nests = [step for step in walk(plan.steps) if isinstance(step, Nest)]
    assert sum(any(i.view is not None and i.view.buffer.name == "x" for i in n.inputs) for n in nests) == 3
    assert "steps over x.shape[0] rows" in plan.fired["row_norm"][0]


def test_scalars_are_computed_once() -> None:
    b = Builder()
    x = b.arg("x", [None, None])
    b.ret(b.mean(x, 1), b.mean(b.unary("square", x), 1))
    plan = compare(b, {"x.shape[0]": 3, "x.shape[1]": 4})
    casts = [step for step in walk(plan.steps) if isinstance(step, ScalarOpStep)]
    assert len(casts) == 1
    assert not any(op.op == "cast" for step in walk(plan.steps) if isinstance(step, Nest) for op in step.ops)


def test_reductions_over_one_array_share_a_pass() -> None:
    b = Builder()
    x = b.arg("x", [None, None])
    b.give(b.reduce("sum", x, [1]), b.reduce("sum", b.unary("square", x), [1]), b.reduce("max", x, [1]))
    plan = compare(b, {"x.shape[0]": 3, "x.shape[1]": 4})
    nests = [step for step in walk(plan.steps) if isinstance(step, Nest)]
    assert len(nests) == 1 and [out.reduce for out in nests[0].outs] == ["sum", "sum", "max"]


def test_update_in_place_needs_no_temporary() -> None:
    b = Builder()
    y = b.arg("y", [None, None])
    x = b.arg("x", y.shape, writable=True)
    b.store(x, b.binary("add", b.binary("mul", x, 0.5), y))
    b.results.append(Result("view", view=x))
    plan = compare(b, {"y.shape[0]": 3, "y.shape[1]": 4})
    (nest,) = plan.steps
    assert isinstance(nest, Nest) and nest.outs[0].view.buffer is x.buffer


@pytest.mark.parametrize("form", ["transposed", "shifted", "reversed"])
def test_overlapping_store_waits_for_its_right_side(form: str) -> None:
    b = Builder()
    n = symbol("x.shape[0]")
    x = b.arg("x", [n, n], writable=True)
    if form == "transposed":  # x[...] = (-x).T, through a temporary read the other way round
        b.store(x, b.transpose(b.unary("neg", x), (1, 0)))
    elif form == "shifted":  # x[1:] = -x[:-1]
        b.store(b.slice(x, 0, 1, n), b.unary("neg", b.slice(x, 0, 0, n - 1)))
    else:
        flipped = View(x.buffer, x.dtype, x.shape, (-x.strides[0], x.strides[1]), x.strides[0] * (n - 1))
        b.store(x, b.unary("neg", flipped))
    b.ret(x)
    plan = compare(b, {"x.shape[0]": 4})
    outs = [out for step in walk(plan.steps) if isinstance(step, Nest) for out in step.outs]
    assert any(out.view.buffer.kind == "temp" for out in outs)


def test_what_an_update_read_is_not_what_it_left() -> None:
    """The nest that updates x reads the old x; a nest that joins it reads the new one."""
    b = Builder()
    x = b.arg("x", [None], writable=True)
    t = b.unary("exp", x)
    b.store(x, b.binary("add", t, x))
    z = b.binary("mul", t, x)
    b.give(t, z)
    plan = compare(b, {"x.shape[0]": 5})
    (nest,) = plan.steps
    assert isinstance(nest, Nest) and len(nest.outs) == 3


def test_a_read_before_a_store_stays_before_it() -> None:
    b = Builder()
    x = b.arg("x", [None], writable=True)
    before = b.unary("exp", x)
    b.store(x, b.unary("neg", b.binary("mul", x, 3.0)))
    b.ret(b.binary("add", before, x))
    compare(b, {"x.shape[0]": 5})


def test_a_result_is_written_before_an_exit() -> None:
    """A nest that also writes a result must not move behind an early return."""
    b = Builder()
    x = b.arg("x", [None])
    out = b.temp(x.shape, "f32")
    out.buffer.kind = "out"
    y = b.unary("tanh", x)
    b.nest(x.shape, [y], [], out, slot=0)
    flag, value = ScalarReg("bool", "flag"), b.load(b.reduce("sum", y, [0], keepdims=False))
    b.steps.append(ScalarOpStep("eq", flag, (value, value), "f32"))
    b.steps.append(IfStep(flag, [ExitStep()], []))
    b.nest(x.shape, [b.unary("exp", b.binary("add", out, y))], [], out, slot=0)
    b.results.append(Result("new", view=out))
    compare(b, {"x.shape[0]": 5})


def test_gather_stays_before_a_store_to_an_argument() -> None:
    """x[...] = table[index]: an index out of range must leave x untouched."""
    b = Builder()
    x, table = b.arg("x", [None], writable=True), b.arg("table", [None])
    index = b.arg("index", [x.shape[0]], "i64")
    got = b.temp(x.shape, "f32")
    at = View(table.buffer, "f32", x.shape, (const(0),), const(0))
    b.steps.append(Nest(x.shape, [NestInput("view", "i64", view=index)],
                        [NestOp("gather", "f32", "i64", (), at, ((0, table.shape[0], const(4)),), 3)],
                        [NestOut(1, "store", got)], 3))
    b.store(x, got)
    b.ret(b.unary("neg", got))
    plan = compare(b, {"x.shape[0]": 3, "table.shape[0]": 6})
    gathers = [step for step in walk(plan.steps) if isinstance(step, Nest) and any(op.indexes for op in step.ops)]
    assert gathers and all(out.view.buffer is not x.buffer for step in gathers for out in step.outs)


def test_filled_and_sliced_constants_disappear() -> None:
    b = Builder()
    x = b.arg("x", [None, None])
    zeros = b.temp(x.shape, "f32")
    b.nest(x.shape, [(Literal(0.0, "f32"), "f32")], [], zeros, slot=0)
    half = floordiv(x.shape[0], 2)
    b.ret(b.binary("add", b.slice(x, 0, 0, half), b.slice(zeros, 0, half, half * 2)))
    plan = compare(b, {"x.shape[0]": 5, "x.shape[1]": 4})
    assert kinds(plan.steps) == ["Nest"]


def test_small_dtypes_round_in_memory() -> None:
    """A value stored as float16 is not the value: the temporary stays."""
    b = Builder()
    x = b.arg("x", [None])
    b.ret(b.cast(b.cast(b.binary("mul", x, 1.2345), "f16"), "f32"))
    compare(b, {"x.shape[0]": 5})


def test_products_write_where_their_copy_went() -> None:
    b = Builder()
    s = symbol("x.shape[0]")
    x, w = b.arg("x", [s, 4]), b.arg("w", [4, 6])
    out = b.temp((s, const(2), const(6)), "f32")
    for i in range(2):
        part = View(out.buffer, "f32", (s, const(6)), (out.strides[0], out.strides[2]), const(24 * i))
        b.store(part, b.matmul(b.binary("mul", x, float(i + 1)), w))
    b.ret(out)
    plan = compare(b, {"x.shape[0]": 3})
    assert kinds(plan.steps).count("Nest") == 3 and kinds(plan.steps).count("Contract") == 2


def test_attention_softmax_rows_are_blocked_over_all_heads() -> None:
    b = Builder()
    s = symbol("x.shape[1]")
    b.ret(softmax(b, b.arg("x", [3, s, s])))
    plan = compare(b, {"x.shape[1]": 9})
    (loop,) = plan.steps
    assert isinstance(loop, ForStep) and loop.stop is s * 3


def test_passes_are_timed_and_dumps_are_readable() -> None:
    plan = compare(transformer_layer(), {"x.shape[0]": 5})
    assert [name for name, _, _ in plan.log] == [item.name for item in PASSES]
    text = show_plan(plan)
    for part in ("product f32", "for row in range(0, x.shape[0]", "tanh.f32", "return new out0", "pass fuse",
                 "product_norm:"):
        assert part in text
    code = show_code(lower_plan(plan))
    for part in ("bind", "body", "pack 0", "nest [", "output 0: f32"):
        assert part in code


def test_every_fusion_says_why_it_did_not_fire() -> None:
    plan = compare(row_softmax(), {"x.shape[0]": 3, "x.shape[1]": 4}, ("product_epilogue",))
    assert set(plan.fired) == set(BY_NAME)
    assert plan.fired["product_epilogue"] == ["switched off"]
    assert plan.fired["row_norm"] == ["no place for it in this program"]
    assert plan.fired["conv_bn"] == ["not implemented"]
    assert "3 steps" in plan.fired["row_softmax"][0]


def residual_layer() -> Builder:
    """relu(x + (x @ w + b))"""
    b = Builder()
    x, w = b.arg("x", [symbol("x.shape[0]"), 4]), b.arg("w", [4, 4], constant=True)
    y = b.binary("add", x, b.binary("add", b.matmul(x, w), b.arg("b", [4], constant=True)))
    b.ret(b.binary("maximum", y, 0.0))
    return b


def test_residuals_move_into_products() -> None:
    plan = compare(residual_layer(), {"x.shape[0]": 9})
    (product,) = plan.steps
    assert isinstance(product, Contract) and product.act == "relu" and product.out.buffer.kind == "out"
    assert product.bias is not None and product.residual is not None and product.residual.buffer.name == "x"
    assert plan.fired["product_residual"] == ["1 residuals moved into products"]
    off = compare(residual_layer(), {"x.shape[0]": 9}, ("product_residual",))
    assert kinds(off.steps) == ["ForStep", "Contract", "Nest"]


def test_residuals_in_batches() -> None:
    b = Builder()
    s = symbol("x.shape[1]")
    x, w, r = b.arg("x", [3, s, 4]), b.arg("w", [3, 4, 5]), b.arg("r", [3, s, 5])
    b.ret(b.binary("add", b.matmul(x, w), r), b.binary("add", b.matmul(x, b.arg("v", [4, 5])), r))
    plan = compare(b, {"x.shape[1]": 6})
    products = [step for step in walk(plan.steps) if isinstance(step, Contract)]
    assert [len(p.batch) for p in products] == [1, 0] and all(p.residual is not None for p in products)


def test_a_residual_that_the_result_overwrites_stays_outside() -> None:
    b = Builder()
    s = symbol("x.shape[0]")
    x, w = b.arg("x", [s, 4], writable=True), b.arg("w", [4, 4])
    b.store(x, b.binary("add", x, b.matmul(x, w)))
    compare(b, {"x.shape[0]": 7})


def test_unknown_fusions_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown fusions: chains"):
        run_passes(mlp().plan(), ["chains"])
