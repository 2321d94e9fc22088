"""Tile and fuse: steps over the same rows run block by block, so that what flows between them stays in the cache.

A run of steps in one region that share an outer axis becomes a counted loop over blocks of rows. Every step is
restricted to the block; a temporary that lives inside alone shrinks to one block. Row softmax, norms and their like are
instances of this one transformation; they have names so that they can be reported and switched off.
"""

from __future__ import annotations

from .extents import Expr, atom_expr, const, emax, emin, floordiv, is_less_equal, register
from .policy import ShapePolicy
from .steps import (
    ITEM_BYTES,
    Buffer,
    ForStep,
    Nest,
    NestInput,
    NestOp,
    NestOut,
    Plan,
    ScalarOpStep,
    ScalarReg,
    Step,
    View,
)
from .usage import Region, Usage, accesses, may_trap

BLOCK_BYTES = 256 << 10  # rows of everything that a block touches: half of a small second-level cache

(((_ROW,), _),) = register("row", 0).terms  # blocks do not nest, so all their loop variables are one atom


def block_rows(plan: Plan, policy: ShapePolicy) -> str:
    """Turn runs of nests over the same rows into loops over blocks of rows."""
    usage = Usage(plan)
    count = 0
    for region in usage.regions:
        if len(region.steps) > 1:
            count += _Blocker(usage, region, policy).run()
    return f"{count} blocks"


class _Run:
    """Consecutive nests over rows of extent `rows`. axis_of: the row axis of each; views: accesses to each buffer."""

    def __init__(self, rows: Expr) -> None:
        self.rows = rows
        self.steps: list[Nest] = []
        self.axis_of: list[int] = []
        self.before: list[Step] = []  # steps met on the way that do not depend on the run
        self.views: dict[Buffer, list[tuple[View, int]]] = {}
        self.written: dict[Buffer, Expr] = {}  # buffer -> bytes of one row
        self.flows = False  # a step reads what an earlier one wrote


class _Blocker:
    def __init__(self, usage: Usage, region: Region, policy: ShapePolicy) -> None:
        self.usage, self.region, self.policy = usage, region, policy
        self.out: list[Step] = []
        self.count = 0

    def run(self) -> int:
        """Rewrite the region; the number of blocks made."""
        current: _Run | None = None
        for step in self.region.steps:
            if isinstance(step, Nest) and step.axes:
                if current is not None:
                    if self._extend(current, step):
                        continue
                    if self._passes_before(current, step):
                        current.before.append(step)
                        continue
                    self._finish(current)
                current = self._start(step)
                if current is None:
                    self.out.append(step)
            elif current is not None and isinstance(step, ScalarOpStep) and not self.region.sets:
                current.before.append(step)
            else:
                if current is not None:
                    self._finish(current)
                    current = None
                self.out.append(step)
        if current is not None:
            self._finish(current)
        self.region.steps[:] = self.out
        return self.count

    def _start(self, step: Nest) -> _Run | None:
        for extent in step.axes:
            if extent.value == 1 or not extent.is_entry:
                continue
            run = _Run(extent)
            if self._extend(run, step):
                return run
        return None

    def _extend(self, run: _Run, step: Nest) -> bool:
        """Add a step to the run, when running it block by block changes nothing."""
        if any(out.indexes for out in step.outs):
            return False
        for axis, extent in enumerate(step.axes):
            if extent is run.rows and self._fits(run, step, axis):
                reads, writes = accesses(step)
                run.flows = run.flows or any(view.buffer in run.written for view in reads)
                for view in writes:
                    run.written[view.buffer] = view.strides[axis]
                for view in (*reads, *writes):
                    run.views.setdefault(view.buffer, []).append((view, axis))
                run.steps.append(step)
                run.axis_of.append(axis)
                return True
        return False

    @staticmethod
    def _fits(run: _Run, step: Nest, axis: int) -> bool:
        if any(out.reduced >> axis & 1 for out in step.outs):
            return False
        if any(item.kind == "iota" and item.axis == axis for item in step.inputs):
            return False
        reads, writes = accesses(step)
        fresh: dict[Buffer, Expr] = {}
        for view in writes:
            stride = view.strides[axis]
            before = run.written.get(view.buffer, stride)
            if fresh.setdefault(view.buffer, stride) is not stride or before is not stride:
                return False
            if not _in_row(view, axis, stride):
                return False
            if view.buffer not in run.written and any(
                    other.strides[at] is not stride or not _in_row(other, at, stride)
                    for other, at in run.views.get(view.buffer, ())):
                return False
        for view in reads:
            row = run.written.get(view.buffer) or fresh.get(view.buffer)
            if row is not None and (view.strides[axis] is not row or not _in_row(view, axis, row)):
                return False
        for op in step.ops:  # a gather may reach any row
            if op.view is not None and (op.view.buffer in run.written or op.view.buffer in fresh):
                return False
        return True

    @staticmethod
    def _passes_before(run: _Run, step: Nest) -> bool:
        """Whether the step may run before the whole run."""
        if may_trap(step):
            return False
        reads, writes = accesses(step)
        return (not any(view.buffer in run.written for view in reads)
                and not any(view.buffer in run.views for view in writes))

    # --- rewriting --------------------------------------------------------------------------------------------------

    def _finish(self, run: _Run) -> None:
        self.out.extend(run.before)
        name = _name(run)
        if len(run.steps) < 2 or not run.flows:
            self.out.extend(run.steps)
            return
        if not self.policy.takes_block(name, run.rows):
            self.out.extend(run.steps)
            return
        var = ScalarReg("i64", "row", atom_expr(_ROW))
        assert var.expr is not None
        block = self._block_rows(run)
        count = emin(block, run.rows - var.expr)
        shrunk = self._shrink(run, block)
        body: list[Step] = [_restrict(step, axis, count, var.expr, shrunk)
                            for step, axis in zip(run.steps, run.axis_of, strict=True)]
        self.out.append(ForStep(var, const(0), run.rows, block, body))
        self.count += 1
        self.policy.note(name, f"{len(body)} steps over {run.rows!r} rows, {block!r} a block")

    @staticmethod
    def _block_rows(run: _Run) -> Expr:
        """Rows of a block: known when extents are bound."""
        total = const(0)
        for views in run.views.values():
            best: Expr | None = None
            for view, axis in views:
                if view.strides[axis].value == 0:
                    continue
                size = const(ITEM_BYTES[view.dtype])
                for other, (extent, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
                    if other != axis and stride.value != 0:
                        size = size * extent
                if best is None or is_less_equal(best, size):
                    best = size
            if best is not None:
                total = total + best
        rows = emax(1, floordiv(BLOCK_BYTES, emax(1, total)))
        if rows.value is not None and rows.const > 4:
            return const(rows.const // 4 * 4)
        return rows

    def _shrink(self, run: _Run, block: Expr) -> dict[Buffer, Buffer]:
        """One-block stand-ins for the temporaries that live inside the run alone."""
        inside = {id(step) for step in run.steps}
        shrunk: dict[Buffer, Buffer] = {}
        for buffer, row in run.written.items():
            if not self.usage.is_local(buffer, self.region) or buffer.size_bytes is not run.rows * row:
                continue
            places = self.region.reads.get(buffer, set()) | self.region.writes.get(buffer, set())
            if all(id(self.region.steps[at]) in inside for at in places):
                size = emin(block, run.rows) * row
                shrunk[buffer] = Buffer("temp", buffer.dtype, size, name=buffer.name, is_trip_local=True)
        return shrunk


def _in_row(view: View, axis: int, row: Expr) -> bool:
    """Whether the view, at row index 0, stays inside the first `row` bytes of its buffer."""
    if row.value is not None and row.const <= 0:
        return False
    low = high = view.offset
    for other, (extent, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        if other == axis or extent.value == 1 or stride.value == 0:
            continue
        reach = (extent - 1) * stride
        if stride.bounds()[0] >= 0:
            high = high + reach
        else:
            return False
    return is_less_equal(0, low) is True and is_less_equal(high + ITEM_BYTES[view.dtype], row) is True


def _restrict(step: Nest, axis: int, count: Expr, start: Expr, shrunk: dict[Buffer, Buffer]) -> Nest:
    """The step over `count` rows from `start` on."""
    axes = (*step.axes[:axis], count, *step.axes[axis + 1:])

    def part(view: View) -> View:
        small = shrunk.get(view.buffer)
        if small is not None:
            return View(small, view.dtype, axes, view.strides, view.offset)
        stride = view.strides[axis]
        offset = view.offset + stride * start if stride.value != 0 else view.offset
        return View(view.buffer, view.dtype, axes, view.strides, offset)

    inputs = [NestInput("view", item.dtype, view=part(item.view)) if item.view is not None else item
              for item in step.inputs]
    ops = [op if op.view is None else NestOp(op.op, op.dtype, op.operand_dtype, op.args, part(op.view), op.indexes,
                                             op.position) for op in step.ops]
    outs = [NestOut(out.slot, out.reduce, part(out.view), out.reduced, out.mask, out.indexes, out.position)
            for out in step.outs]
    return Nest(axes, inputs, ops, outs, step.position)


def _name(run: _Run) -> str:
    """The named fusion that a run is an instance of."""
    ops = {op.op for step in run.steps for op in step.ops}
    reductions = {out.reduce for step in run.steps for out in step.outs}
    if "max" in reductions and "sum" in reductions and "exp" in ops:
        return "row_softmax"
    if "sum" in reductions and ("sqrt" in ops or "pow" in ops) and ops & {"div", "reciprocal", "mul"}:
        return "row_norm"
    return "block"
