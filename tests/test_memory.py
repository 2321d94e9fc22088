"""Arena slots: lifetimes over loops and branches, places handed on, and never two live values in one place."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from plan_build import Builder, arrays_for
from plan_eval import CodeEvaluator, StepEvaluator
from plan_models import row_softmax
from plan_random import random_plan

import prebake
from prebake.vm.plan.block import BLOCK_BYTES
from prebake.vm.plan.extents import const, symbol
from prebake.vm.plan.lower import lower_plan
from prebake.vm.plan.memory import assign_slots, fills_buffer, find_lifetimes
from prebake.vm.plan.passes import run_passes
from prebake.vm.plan.steps import IfStep, Plan, ScalarOpStep, ScalarReg, View


def arena_bytes(builder: Builder, extents: dict[str, int], passes: bool = False) -> int:
    """Bytes of the arena when the plan is bound; the code's result is checked on the way."""
    plan = builder.plan()
    plan.sample = dict(extents)
    if passes:
        run_passes(plan)
    leaves = arrays_for(builder, extents, np.random.default_rng(0))
    with np.errstate(all="ignore"):
        want = StepEvaluator(plan, leaves).run()
        code = CodeEvaluator(lower_plan(plan), leaves)
        np.testing.assert_equal(code.run(), want)
    return code.regs[code.code.arena_bytes]  # type: ignore[no-any-return]


def test_a_chain_of_temporaries_needs_one_place() -> None:
    b = Builder()
    x = b.arg("x", [None])
    value = x
    for _ in range(6):
        value = b.unary("neg", value)
    b.ret(value)
    assert arena_bytes(b, {"x.shape[0]": 100}) == 448  # 100 floats, rounded up to whole lines


def test_other_layouts_are_not_overwritten_while_they_are_read() -> None:
    b = Builder()
    x = b.arg("x", [None, None])
    y = b.unary("neg", x)
    b.ret(b.nest((y.shape[1], y.shape[0]), [b.transpose(y, (1, 0))], [("exp", "f32", (0,))],
                 b.temp((y.shape[1], y.shape[0]), "f32")))
    assert arena_bytes(b, {"x.shape[0]": 16, "x.shape[1]": 8}) == 2 * 512


def test_narrow_results_do_not_take_wide_places() -> None:
    b = Builder()
    x = b.arg("x", [None], "f64")
    wide = b.unary("neg", x)
    b.ret(b.cast(wide, "f32"))
    slots = assign_slots(b.plan())
    assert len(slots.sizes) == 2


def test_a_value_read_in_a_loop_lives_through_it() -> None:
    b = Builder()
    x = b.arg("x", [None, None])
    n, m = x.shape
    fixed = b.unary("neg", b.slice(x, 0, 0, 1))
    out = b.temp((n, m), "f32")
    with b.loop(n) as i:
        row = View(x.buffer, "f32", (m,), (x.strides[1],), x.strides[0] * i)
        flat = View(fixed.buffer, "f32", (m,), (fixed.strides[1],), const(0))
        b.store(View(out.buffer, "f32", (m,), (out.strides[1],), out.strides[0] * i),
                b.unary("exp", b.binary("mul", b.unary("neg", row), flat)))
    b.ret(out)
    plan = b.plan()
    lives = find_lifetimes(plan.steps)
    loop_end = max(life.last for life in lives.values() if life.buffer is not out.buffer)
    assert lives[fixed.buffer].last == loop_end
    inner = [life for life in lives.values() if life.buffer not in (fixed.buffer, out.buffer)]
    assert all(life.last < loop_end for life in inner), "values of one trip end with their last use"
    assert arena_bytes(b, {"x.shape[0]": 3, "x.shape[1]": 16}) == 64 + 3 * 64 + 64


def test_a_value_carried_from_trip_to_trip_keeps_its_place() -> None:
    """Written piece by piece in a loop: what one trip wrote, the next one reads."""
    b = Builder()
    x = b.arg("x", [None])
    (n,) = x.shape
    seen = b.temp((n,), "f32")
    total = b.temp((n,), "f32")
    with b.loop(n) as i:
        at = View(seen.buffer, "f32", (), (), i * 4)
        b.nest((), [View(x.buffer, "f32", (), (), i * 4)], [("exp", "f32", (0,))], at)
        so_far = View(seen.buffer, "f32", (i + 1,), (const(4),), const(0))
        scratch = b.temp((n,), "f32")  # would take the place of `seen`, if that were free between trips
        b.nest((n,), [(i, "i64")], [("cast", "i64", "f32", (0,))], scratch)
        b.nest((i + 1,), [so_far], [], View(total.buffer, "f32", (i + 1,), (const(0),), i * 4), slot=0, reduce="sum",
               reduced=1)
    b.ret(total)
    lives = find_lifetimes(b.plan().steps)
    assert lives[seen.buffer].first <= 1
    leaves = arrays_for(b, {"x.shape[0]": 5}, np.random.default_rng(0))
    got = CodeEvaluator(lower_plan(b.plan()), leaves).run()
    np.testing.assert_allclose(got, np.cumsum(np.exp(leaves[0])), rtol=1e-6)


@pytest.mark.parametrize("whole", [True, False])
def test_partly_written_in_a_branch(whole: bool) -> None:
    b = Builder()
    x = b.arg("x", [None])
    (n,) = x.shape
    kept = b.temp((n,), "f32")
    flag = ScalarReg("bool", "flag")
    with b.loop(n) as i:
        b.steps.append(ScalarOpStep("eq", flag, (i, const(0)), "i64"))
        outer, b.steps = b.steps, []
        b.store(kept, x)
        then, b.steps = b.steps, outer
        b.steps.append(IfStep(flag, then, []) if not whole else then[0])
        other = b.unary("exp", x)
        b.store(b.temp((n,), "f32"), b.binary("add", kept, other))
    b.ret(b.unary("neg", x))
    life = find_lifetimes(b.plan().steps)[kept.buffer]
    assert (life.first == 1) is not whole, "filled in the first trip alone, it must outlive the trip"


def test_fills_buffer() -> None:
    b = Builder()
    n, m = symbol("rows"), symbol("columns")
    whole = b.temp((n, m), "f32")
    assert fills_buffer(whole)
    assert not fills_buffer(b.slice(whole, 0, 0, n - 1)) and not fills_buffer(b.slice(whole, 0, 1, n))
    assert fills_buffer(View(whole.buffer, "f32", (n, m, symbol("depth")), (*whole.strides, const(0)), const(0)), 4)


@pytest.mark.parametrize("seed", range(40))
def test_live_values_never_share_a_place(seed: int) -> None:
    plan: Plan = random_plan(seed).plan()
    if seed % 2:
        run_passes(plan)
    lives = find_lifetimes(plan.steps)
    slots = assign_slots(plan)
    by_slot: dict[int, list] = {}
    for buffer, slot in slots.slot_of.items():
        by_slot.setdefault(slot, []).append(lives[buffer])
    for members in by_slot.values():
        members.sort(key=lambda life: life.first)
        for a, b in pairwise(members):
            assert a.last < b.first or (a.last == b.first and b.donor is a.buffer)


def test_blocks_keep_the_arena_in_the_cache() -> None:
    plain = arena_bytes(row_softmax(), {"x.shape[0]": 400, "x.shape[1]": 100})
    fused = arena_bytes(row_softmax(), {"x.shape[0]": 400, "x.shape[1]": 100}, passes=True)
    assert plain > 400 * 100 * 4 and fused < BLOCK_BYTES
    few = arena_bytes(row_softmax(), {"x.shape[0]": 2, "x.shape[1]": 100}, passes=True)
    assert few <= 2 * 448 + 2 * 64, "no more rows than there are"


@prebake.jit
def _resized(image, size):
    """Extents that come from a float: nothing bounds them but the integers that a plan takes."""
    h, w = image.shape[:2]
    scale = min(size / h, size / w)
    nh, nw = int(round(h * scale)), int(round(w * scale))
    rows = (np.arange(nh) / scale).astype(int).clip(0, h - 1)
    columns = (np.arange(nw) / scale).astype(int).clip(0, w - 1)
    out = np.full((size, size, 3), 114, dtype=image.dtype)
    out[(size - nh) // 2:(size - nh) // 2 + nh, :nw] = image[rows][:, columns]
    return out


def test_temporaries_that_nothing_bounds_take_what_they_need() -> None:
    """Their bounds' product passed 64 bits: the arena was too small (a crash)."""
    image = np.arange(180, dtype=np.uint8).reshape(6, 10, 3)
    for size in (12, 5, 20):
        np.testing.assert_array_equal(_resized(image, size), _resized.__wrapped__(image, size))
    assert _resized.stats()["jit"] == 3
