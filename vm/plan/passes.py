"""The column of passes: from typed steps to the steps that are lowered, each timed and printable.

Every pass rewrites `plan.steps` in place and keeps the plan's meaning; with all fusions switched off the same results
come out, slower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from ...templates.records import record
from .attention import block_attention
from .axes import collapse_all, collapse_rows
from .block import block_rows
from .fuse import fuse_nests
from .planner_errors import let_interrupt
from .policy import ShapePolicy
from .prune import drop_dead, share_equal
from .steps import Plan


@record(eq=True)
class Pass:
    """One pass. fusions: the names of which at least one must be allowed (none: it always runs)."""

    name: str
    doc: str
    run: Callable[[Plan, ShapePolicy], str]  # returns a note for the log
    fusions: tuple[str, ...] = ()


PASSES: tuple[Pass, ...] = (
    Pass("dead", "drop steps whose results nobody reads", drop_dead),
    Pass("share", "let nests that compute the same share one result", share_equal),
    Pass("fuse", "merge nests point by point; bias, residual and activation into products", fuse_nests,
         ("chain", "reduce_epilogue", "gather_sum", "product_epilogue", "product_residual")),
    Pass("attention", "run products of activations, and the rows between them, block by block", block_attention,
         ("attention",)),
    Pass("rows", "make all axes but the last one", collapse_rows),
    Pass("blocks", "run steps over the same rows block by block", block_rows,
         ("row_softmax", "row_norm", "product_norm")),
    Pass("axes", "make neighbouring axes one", collapse_all),
)

watchers: list[Callable[[str, Plan], None]] = []  # called with a pass's name and the plan after it, for dumps


def run_passes(plan: Plan, disable_fusions: Sequence[str] = ()) -> Plan:
    """The plan after every pass, rewritten in place; `plan.log` holds each pass's name, milliseconds and note."""
    policy = ShapePolicy(plan, disable_fusions)
    for watch in watchers:
        watch("typed", plan)
    for item in PASSES:
        if item.fusions and not any(map(policy.allows, item.fusions)):
            plan.log.append((item.name, 0.0, "switched off"))
            continue
        let_interrupt()
        start = perf_counter()
        note = item.run(plan, policy)
        plan.log.append((item.name, (perf_counter() - start) * 1e3, note))
        for watch in watchers:
            watch(item.name, plan)
    policy.close()
    return plan
