"""Attention without the whole score matrix: products of activations and the rows between them run block by block.

A product whose result only the steps up to a second product read, row by row (scale, mask, softmax), becomes a loop over
blocks of its batch axes (batch, heads) and of its rows (queries): the scores of one block stay in the second-level
cache, and only one block of them has memory. Operands are read where they lie, heads between other heads. Rows that are
divided by their own sum before the second product are divided after it, where they are shorter.
"""

from __future__ import annotations

from ...templates.records import replace
from .extents import Expr, const, emax, emin, floordiv, register
from .policy import ShapePolicy
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
    SetStep,
    Step,
    TrapStep,
    View,
    contiguous_strides,
    walk,
)
from .usage import Region, Usage, accesses, may_trap

BLOCK_BYTES = 128 << 10  # scores of a block: they, the operands and their packs share a small second-level cache
LEAST_ROWS = 24  # of a block: fewer do not pay for packing the operand that all rows share
_MOST_AXES = 4  # batch axes
_ATOMS = tuple(register(f"block{i}", 0) for i in range(_MOST_AXES + 1))


def block_attention(plan: Plan, policy: ShapePolicy) -> str:
    """Turn each pair of products with row-wise steps between them into a loop over blocks."""
    steps = walk(plan.steps)
    products = [at for at, step in enumerate(steps) if isinstance(step, Contract)]
    if not products or Nest not in set(map(type, steps[products[0]:products[-1]])):
        return ""
    usage = Usage(plan)
    count = 0
    for region in usage.regions:
        runs: list[_Run] = []
        for at, step in enumerate(region.steps):
            if isinstance(step, Contract) and (not runs or at > runs[-1].end):
                found = _Finder(usage, region, at).find()
                if found is not None:
                    runs.append(found)
        for run in reversed(runs):
            region.steps[run.first:run.end + 1] = run.blocks(policy)
        count += len(runs)
    return f"{count} blocks" if count else ""


class _Finder:
    """Looks for the run that begins with the product at `first`."""

    def __init__(self, usage: Usage, region: Region, first: int) -> None:
        self.usage, self.region, self.first = usage, region, first
        self.scores = region.steps[first]
        assert isinstance(self.scores, Contract)
        self.rows = (*self.scores.batch, self.scores.m)

    def find(self) -> _Run | None:
        """The run, or None where there is none."""
        scores = self.scores
        assert isinstance(scores, Contract)
        if len(scores.batch) > _MOST_AXES or scores.b.buffer.constant or not self._owns(scores.out):
            return None
        if not all(extent.is_entry for extent in (*self.rows, scores.n)):
            return None
        run: list[Nest | Contract] = [scores]
        before: list[Step] = []
        made: dict[Buffer, View] = {scores.out.buffer: scores.out}
        for at in range(self.first + 1, len(self.region.steps)):
            step = self.region.steps[at]
            if isinstance(step, (ScalarOpStep, SetStep, TrapStep)):
                if self.region.sets:
                    return None
                before.append(step)
                continue
            if isinstance(step, Contract) and step.a.buffer in made:
                return self._end(run, before, made, step, at)
            if not isinstance(step, Nest):
                return None
            if self._takes(step, made):
                run.append(step)
                for out in step.outs:
                    made[out.view.buffer] = out.view
            elif self._is_apart(step, run, made):
                before.append(step)
            else:
                return None
        return None

    def _owns(self, view: View) -> bool:
        """Whether the view's buffer is a temporary of this region, written once, whose rows are apart."""
        return self.usage.is_local(view.buffer, self.region) and self.usage.is_written_once(view.buffer)

    def _takes(self, nest: Nest, made: dict[Buffer, View]) -> bool:
        """Whether the nest works on each row of the run by itself, into temporaries that belong to the run."""
        n = len(self.rows)
        if len(nest.axes) not in (n, n + 1) or nest.axes[:n] != self.rows or may_trap(nest):
            return False
        if any(op.view is not None for op in nest.ops) or any(
                out.reduced & (1 << n) - 1 or out.indexes or out.mask >= 0 or out.view.buffer in made
                or not self._owns(out.view) for out in nest.outs):
            return False
        reads = [item.view for item in nest.inputs if item.view is not None]
        mine = [view for view in reads if view.buffer in made]
        return bool(mine) and all(self._same_rows(view, made[view.buffer]) for view in mine)

    def _same_rows(self, view: View, written: View) -> bool:
        """Whether the view reads each row at the row that wrote it."""
        n = len(self.rows)
        if view.offset is not written.offset or view.dtype != written.dtype:
            return False
        for extent, a, b in zip(self.rows, view.strides, written.strides, strict=False):
            if extent.value != 1 and a is not b:
                return False
        mine, theirs = view.strides[n:], written.strides[n:]
        return not mine or mine[0].value == 0 or mine == theirs

    @staticmethod
    def _is_apart(step: Nest, run: list[Nest | Contract], made: dict[Buffer, View]) -> bool:
        """Whether the step may run before the whole run."""
        reads, writes = accesses(step)
        used = {view.buffer for other in run for views in accesses(other) for view in views}
        return not may_trap(step) and not any(view.buffer in made for view in reads) and not any(
            view.buffer in used for view in writes)

    def _end(self, run: list[Nest | Contract], before: list[Step], made: dict[Buffer, View], last: Contract,
             at: int) -> _Run | None:
        others = [view.buffer for view in (last.b, last.out, last.bias, last.residual) if view is not None]
        if (len(run) < 2 or (*last.batch, last.m) != self.rows or not self._same_rows(last.a, made[last.a.buffer])
                or any(buffer in made for buffer in others)):
            return None
        result = last.out.buffer
        if result.kind == "arg" or any(view.buffer is result for step in run for view in accesses(step)[0]):
            return None
        places = {id(step) for step in (*run, last)}
        for buffer in made:
            touched = self.region.reads.get(buffer, set()) | self.region.writes.get(buffer, set())
            if any(id(self.region.steps[place]) not in places for place in touched):
                return None
        return _Run(self.rows, run, before, made, last, self.first, at)


class _Run:
    """Steps that are to run block by block. made: the temporaries that live inside alone, as they are written."""

    def __init__(self, rows: tuple[Expr, ...], steps: list[Nest | Contract], before: list[Step],
                 made: dict[Buffer, View], last: Contract, first: int, end: int) -> None:
        self.rows, self.steps, self.before, self.made = rows, [*steps, last], before, made
        self.first, self.end = first, end

    def blocks(self, policy: ShapePolicy) -> list[Step]:
        """The loops that stand in the steps' place."""
        is_late = self._divide_late()
        scores = self.steps[0]
        assert isinstance(scores, Contract)
        sizes = _block_sizes(self.rows, scores.n * ITEM_BYTES[scores.dtype])
        variables: list[ScalarReg] = []
        starts: list[Expr] = []
        for extent, size, atom in zip(self.rows, sizes, _ATOMS, strict=False):
            if extent is size:
                starts.append(const(0))
                continue
            variable = ScalarReg("i64", "block", atom)
            variables.append(variable)
            assert variable.expr is not None
            starts.append(variable.expr)
        counts = tuple(extent if start.value == 0 else emin(size, extent - start)
                       for extent, size, start in zip(self.rows, sizes, starts, strict=True))
        small = {buffer: self._shrunk(buffer, view, sizes) for buffer, view in self.made.items()}
        body: list[Step] = [_restrict(step, counts, starts, small) for step in self.steps]
        loops = [(extent, size, start) for extent, size, start in zip(self.rows, sizes, starts, strict=True)
                 if start.value != 0]
        for (extent, size, _), variable in zip(reversed(loops), reversed(variables), strict=True):
            body = [ForStep(variable, const(0), extent, size, body)]
        policy.note("attention", f"{len(self.steps)} steps in blocks of ", sizes,
                    " rows here, divided after the second product" if is_late else " rows here")
        return [*self.before, *body]

    def _shrunk(self, buffer: Buffer, view: View, sizes: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
        """A temporary of one block, and its strides."""
        n = len(sizes)
        inner = tuple(extent for extent, stride in zip(view.shape[n:], view.strides[n:], strict=True)
                      if stride.value != 0)
        item = ITEM_BYTES[view.dtype]
        shape = (*sizes, *inner)
        size = const(item)
        for extent in shape:
            size = size * extent
        strides = contiguous_strides(shape, item)
        return (Buffer("temp", buffer.dtype, size, name=buffer.name, is_trip_local=True), strides)

    def _divide_late(self) -> bool:
        """Divide by the rows' sums after the second product; whether that is done."""
        last, divide = self.steps[-1], self.steps[-2]
        assert isinstance(last, Contract)
        if (not isinstance(divide, Nest) or len(self.steps) < 4 or last.act != "none"
                or last.bias is not None or last.residual is not None
                or len(divide.ops) != 1 or divide.ops[0].op != "div" or divide.ops[0].args != (0, 1)
                or len(divide.outs) != 1 or divide.outs[0].reduce != "store"
                or divide.outs[0].view.buffer is not last.a.buffer):
            return False
        n = len(self.rows)
        values, sums = (item.view for item in divide.inputs)
        if (values is None or sums is None or len(divide.axes) != n + 1 or sums.strides[n].value != 0
                or values.dtype != last.dtype or sums.dtype != last.dtype):
            return False
        for step in self.steps[:-2]:  # exp of something, and its sum over the row: no sum that is 0 or too small
            if isinstance(step, Nest):
                ways = {out.view.buffer: out for out in step.outs}
                if values.buffer in ways and sums.buffer in ways:
                    value, total = ways[values.buffer], ways[sums.buffer]
                    slot = value.slot - len(step.inputs)
                    if (value.slot == total.slot and total.reduce == "sum" and value.reduce == "store" and slot >= 0
                            and step.ops[slot].op == "exp"):
                        break
        else:
            return False
        del self.made[last.a.buffer]
        axes = (*self.rows, last.n)
        out = last.out
        self.steps[-2:] = [
            Contract(last.batch, last.m, last.n, last.k, View(values.buffer, values.dtype, last.a.shape, values.strides,
                     values.offset), last.b, out, last.dtype, position=last.position, rounding=last.rounding),
            Nest(axes, [NestInput("view", last.dtype, view=out),
                        NestInput("view", last.dtype, view=View(sums.buffer, sums.dtype, axes, sums.strides, sums.offset))],
                 [NestOp("div", last.dtype, last.dtype, (0, 1))], [NestOut(2, "store", out)], divide.position),
        ]
        return True


def _block_sizes(rows: tuple[Expr, ...], row_bytes: Expr) -> tuple[Expr, ...]:
    """Extents of a block along each axis: all of the inner axes while they fit, then part of one, then one by one."""
    sizes: list[Expr] = []
    inner = row_bytes
    for depth, extent in enumerate(reversed(rows)):
        if extent.value == 1:
            sizes.append(extent)
            continue
        most = emin(extent, emax(LEAST_ROWS if depth == 0 else 1, floordiv(BLOCK_BYTES, emax(1, inner))))
        blocks = emax(1, floordiv(extent + most - 1, emax(1, most)))
        sizes.append(emax(1, floordiv(extent + blocks - 1, blocks)))
        inner = inner * extent
    return tuple(reversed(sizes))


def _moved(view: View, starts: list[Expr]) -> Expr:
    """The offset of the view's part that begins at `starts`."""
    offset = view.offset
    for stride, start in zip(view.strides, starts, strict=False):
        if stride.value != 0 and start.value != 0:
            offset = offset + stride * start
    return offset


def _restrict(step: Nest | Contract, counts: tuple[Expr, ...], starts: list[Expr],
              small: dict[Buffer, tuple[Buffer, tuple[Expr, ...]]]) -> Step:
    """The step over one block of rows."""
    n = len(counts)

    def part(view: View, axes: tuple[Expr, ...]) -> View:
        found = small.get(view.buffer)
        if found is not None:
            buffer, strides = found
            inner = (const(0),) * (view.ndim - n) if len(strides) == n else strides[n:]
            if len(strides) > n and view.ndim > n and view.strides[n].value == 0:
                inner = (const(0),)
            return View(buffer, view.dtype, axes, (*strides[:n], *inner[:view.ndim - n]), const(0))
        return View(view.buffer, view.dtype, axes, view.strides, _moved(view, starts))

    if isinstance(step, Contract):
        batch, m = counts[:-1], counts[-1]
        b = View(step.b.buffer, step.b.dtype, (*batch, step.k, step.n), step.b.strides,
                 _moved(step.b, starts[:-1]))  # its rows are the operand's columns: the batch axes alone move it
        return replace(step, batch=batch, m=m, a=part(step.a, (*batch, m, step.k)), b=b,
                       out=part(step.out, (*batch, m, step.n)),
                       residual=part(step.residual, (*batch, m, step.n)) if step.residual is not None else None)
    axes = (*counts, *step.axes[n:])
    inputs = [NestInput("view", item.dtype, view=part(item.view, axes)) if item.view is not None else item
              for item in step.inputs]
    moved = {i: starts[item.axis] for i, item in enumerate(inputs)
             if item.kind == "iota" and item.axis < n and starts[item.axis].value != 0}
    slots = list(range(len(inputs) + len(step.ops)))  # the step's -> ours
    ops: list[NestOp] = []
    if moved:  # an index along a blocked axis counts from the block's start
        first = len(inputs)
        inputs += [NestInput("scalar", "i64", operand=start) for start in moved.values()]
        ops += [NestOp("add", "i64", "i64", (i, first + k)) for k, i in enumerate(moved)]
        slots[first:] = [slot + 2 * len(moved) for slot in slots[first:]]
        for k, i in enumerate(moved):
            slots[i] = first + len(moved) + k
    ops += [NestOp(op.op, op.dtype, op.operand_dtype, tuple(slots[arg] for arg in op.args), position=op.position)
            for op in step.ops]
    outs = [NestOut(slots[out.slot], out.reduce, part(out.view, axes), out.reduced, position=out.position)
            for out in step.outs]
    return Nest(axes, inputs, ops, outs, step.position)
