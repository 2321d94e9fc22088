"""Tile and fuse: steps over the same rows run block by block, so that what flows between them stays in the cache.

A run of steps in one region that share an outer axis becomes a counted loop over blocks of rows. Every step is
restricted to the block; a temporary that lives inside alone shrinks to one block. Row softmax, norms and their like are
instances of this one transformation; they have names so that they can be reported and switched off.
"""

from __future__ import annotations

from ...templates.records import replace
from .extents import Expr, atom_expr, const, emax, emin, floordiv, is_less_equal, register
from .policy import BLOCK, ShapePolicy
from .steps import (
    ITEM_BYTES,
    Buffer,
    Contract,
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
    walk,
)
from .usage import Region, Usage, accesses, may_trap

LEAST_ROWS, MOST_ROWS = 48, 192  # of a block that holds products
PRODUCT_BYTES = 512 << 10  # rows of a product's operand and result: about a small second-level cache
BLOCK_BYTES = 256 << 10  # rows of everything that a block touches: half of a small second-level cache

(((_ROW,), _),) = register("row", 0).terms  # blocks do not nest, so all their loop variables are one atom


def block_rows(plan: Plan, policy: ShapePolicy) -> str:
    """Turn runs of nests over the same rows into loops over blocks of rows."""
    steps = walk(plan.steps)
    if [*map(type, steps)].count(Nest) < 2 and not any(isinstance(step, Contract) and step.b.buffer.constant for step in steps):
        return "0 blocks"
    usage = Usage(plan)
    count = 0
    for region in usage.regions:
        if len(region.steps) > 1:
            count += _Blocker(usage, region, policy).run()
    return f"{count} blocks"


class _Run:
    """Consecutive steps over rows of extent `rows`. axis_of: the row axis of each; views: accesses to each buffer with
    their row axis (-1: the access is the same for all rows)."""

    def __init__(self, rows: Expr) -> None:
        self.rows = rows
        self.steps: list[Nest | Contract] = []
        self.axis_of: list[int] = []
        self.before: list[Step] = []  # steps met on the way that do not depend on the run
        self.views: dict[Buffer, list[tuple[View, int]]] = {}
        self.written: dict[Buffer, Expr] = {}  # buffer -> bytes of one row
        self.flows = False  # a step reads what an earlier one wrote
        self.traps = False


class _Blocker:
    def __init__(self, usage: Usage, region: Region, policy: ShapePolicy) -> None:
        self.usage, self.region, self.policy = usage, region, policy
        self.products = policy.allows("product_norm")
        self.out: list[Step] = []
        self.count = 0

    def run(self) -> int:
        """Rewrite the region; the number of blocks made."""
        current: _Run | None = None
        for step in self.region.steps:
            if (isinstance(step, Nest) and step.axes) or (isinstance(step, Contract) and self._is_row_wise(step)):
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

    def _is_row_wise(self, step: Contract) -> bool:
        """Whether a product is one of rows with a packed matrix: any block of rows costs its share."""
        return self.products and not step.batch and step.b.buffer.constant and step.m.value != 1

    def _start(self, step: Nest | Contract) -> _Run | None:
        for extent in step.axes if isinstance(step, Nest) else (step.m,):
            if extent.value == 1 or not extent.is_entry:
                continue
            run = _Run(extent)
            if self._extend(run, step):
                return run
        return None

    def _extend(self, run: _Run, step: Nest | Contract) -> bool:
        """Add a step to the run, when running it block by block changes nothing."""
        if isinstance(step, Contract):
            if step.m is not run.rows:
                return False
            reads = [(step.a, 0), (step.b, -1)] + ([(step.bias, -1)] if step.bias is not None else [])
            reads += [(step.residual, 0)] if step.residual is not None else []
            return self._fits(run, step, 0, reads, [(step.out, 0)])
        if run.rows not in step.axes or any([out.indexes for out in step.outs]):
            return False
        views, outs = accesses(step)
        for axis, extent in enumerate(step.axes):
            if extent is not run.rows or any([out.reduced >> axis & 1 for out in step.outs]):
                continue
            if any([item.kind == "iota" and item.axis == axis for item in step.inputs]):
                continue
            if self._fits(run, step, axis, [(view, axis) for view in views], [(view, axis) for view in outs]):
                return True
        return False

    @staticmethod
    def _fits(run: _Run, step: Nest | Contract, axis: int, reads: list[tuple[View, int]],
              writes: list[tuple[View, int]]) -> bool:
        """Add the step with these accesses, when each row of what the run writes is touched at its own row alone."""
        fresh: dict[Buffer, Expr] = {}
        for view, at in writes:
            buffer, stride = view.buffer, view.strides[at]
            before = run.written.get(buffer, stride)
            if fresh.setdefault(buffer, stride) is not stride or before is not stride or not _in_row(view, at, stride):
                return False
            if buffer not in run.written and any(
                    other_at < 0 or other.strides[other_at] is not stride or not _in_row(other, other_at, stride)
                    for other, other_at in run.views.get(buffer, ())):
                return False
        for view, at in reads:
            row = run.written.get(view.buffer) or fresh.get(view.buffer)
            if row is not None and (at < 0 or view.strides[at] is not row or not _in_row(view, at, row)):
                return False
        traps = isinstance(step, Nest) and may_trap(step)
        if traps:
            assert isinstance(step, Nest)
            for op in step.ops:  # a gather may reach any row
                if op.view is not None and (op.view.buffer in run.written or op.view.buffer in fresh):
                    return False
        if (traps or run.traps) and any(buffer.kind == "arg" for buffer in (*run.written, *fresh)):
            return False  # an argument would be written, in part, before the trap
        run.traps = run.traps or traps
        run.flows = run.flows or any(view.buffer in run.written for view, _ in reads)
        run.written.update(fresh)
        for view, at in (*reads, *writes):
            run.views.setdefault(view.buffer, []).append((view, at))
        run.steps.append(step)
        run.axis_of.append(axis)
        return True

    @staticmethod
    def _passes_before(run: _Run, step: Nest | Contract) -> bool:
        """Whether the step may run before the whole run."""
        if isinstance(step, Nest) and may_trap(step):
            return False
        reads, writes = accesses(step)
        if run.traps and any(view.buffer.kind == "arg" for view in writes):
            return False  # an argument would be written before the trap
        return (not any(view.buffer in run.written for view in reads)
                and not any(view.buffer in run.views for view in writes))

    # --- rewriting --------------------------------------------------------------------------------------------------

    def _finish(self, run: _Run) -> None:
        self.out.extend(run.before)
        if len(run.steps) < 2 or not run.flows:
            self.out.extend(run.steps)
            return
        name = _name(run)
        if not self.policy.takes_block(name, run.rows):
            self.out.extend(run.steps)
            return
        var = ScalarReg("i64", "row", atom_expr(_ROW))
        assert var.expr is not None
        products = [step for step in run.steps if isinstance(step, Contract)]
        block = product_block(run.rows, products) if products else self._block_rows(run)
        count = emin(block, run.rows - var.expr)
        shrunk = self._shrink(run, block)
        body: list[Step] = [_restrict(step, axis, count, var.expr, shrunk)
                            for step, axis in zip(run.steps, run.axis_of, strict=True)]
        self.out.append(ForStep(var, const(0), run.rows, block, body))
        self.count += 1
        self.policy.note(name, f"{len(body)} steps over {run.rows!r} rows, ", (block,), " a block here")

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
            rows = const(rows.const // 4 * 4)
        if not run.rows.is_entry:
            return rows
        # of nearly one size, half as large again rather than one more: a few rows cost a block's launches too
        blocks = emax(1, floordiv(run.rows + floordiv(rows, 2), rows))
        return emax(1, floordiv(run.rows + blocks - 1, blocks))

    def _shrink(self, run: _Run, block: Expr) -> dict[Buffer, Buffer]:
        """One-block stand-ins for the temporaries that live inside the run alone."""
        inside = {id(step) for step in run.steps}
        shrunk: dict[Buffer, Buffer] = {}
        if not block.is_entry:  # the arena is laid out when the call begins
            return shrunk
        for buffer, row in run.written.items():
            if not self.usage.is_local(buffer, self.region) or buffer.size_bytes is not run.rows * row:
                continue
            places = self.region.reads.get(buffer, set()) | self.region.writes.get(buffer, set())
            if all(id(self.region.steps[at]) in inside for at in places):
                size = emin(block, run.rows) * row
                shrunk[buffer] = Buffer("temp", buffer.dtype, size, name=buffer.name, is_trip_local=True)
        return shrunk


def product_block(rows: Expr, products: list[Contract]) -> Expr:
    """Rows of a block that holds products: enough to pay for reading the matrices, few enough that operand and result
    stay in the second-level cache; the blocks of a call are of nearly one size."""
    widest = const(1)
    for step in products:
        widest = emax(widest, step.k + step.n)
    item = max(ITEM_BYTES[step.dtype] for step in products)
    most = emin(MOST_ROWS, emax(LEAST_ROWS, floordiv(PRODUCT_BYTES, widest * item)))
    blocks = emax(1, floordiv(rows + most - 1, most))
    return emax(1, floordiv(rows + blocks - 1, blocks))


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


def _restrict(step: Nest | Contract, axis: int, count: Expr, start: Expr, shrunk: dict[Buffer, Buffer]) -> Step:
    """The step over `count` rows from `start` on."""
    def part(view: View, axes: tuple[Expr, ...]) -> View:
        small = shrunk.get(view.buffer)
        if small is not None:
            return View(small, view.dtype, axes, view.strides, view.offset)
        stride = view.strides[axis]
        offset = view.offset + stride * start if stride.value != 0 else view.offset
        return View(view.buffer, view.dtype, axes, view.strides, offset)

    if isinstance(step, Contract):
        return replace(step, batch=(), m=count, a=part(step.a, (count, step.k)), out=part(step.out, (count, step.n)),
                       residual=part(step.residual, (count, step.n)) if step.residual is not None else None)
    axes = (*step.axes[:axis], count, *step.axes[axis + 1:])
    inputs = [NestInput("view", item.dtype, view=part(item.view, axes)) if item.view is not None else item
              for item in step.inputs]
    ops = [op if op.view is None else NestOp(op.op, op.dtype, op.operand_dtype, op.args, part(op.view, axes),
                                             op.indexes, op.position) for op in step.ops]
    outs = [NestOut(out.slot, out.reduce, part(out.view, axes), out.reduced, out.mask, out.indexes, out.position)
            for out in step.outs]
    return Nest(axes, inputs, ops, outs, step.position)


def _name(run: _Run) -> str:
    """The named fusion that a run is an instance of."""
    nests = [step for step in run.steps if isinstance(step, Nest)]
    if len(nests) < len(run.steps):
        return "product_norm"
    ops = {op.op for step in nests for op in step.ops}
    reductions = {out.reduce for step in nests for out in step.outs}
    if "max" in reductions and "sum" in reductions and "exp" in ops:
        return "row_softmax"
    if "sum" in reductions and ("sqrt" in ops or "pow" in ops) and ops & {"div", "reciprocal", "mul"}:
        return "row_norm"
    return BLOCK
