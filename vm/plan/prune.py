"""Steps that need not run: results nobody reads, and what was computed before."""

from __future__ import annotations

from .extents import Expr
from .graph import input_key
from .policy import ShapePolicy
from .steps import Buffer, Contract, ForStep, IfStep, Nest, Plan, ScalarReg, Step, View, WhileStep, walk
from .usage import accesses


def drop_dead(plan: Plan, policy: ShapePolicy) -> str:
    """Remove steps whose results nobody reads, unless they may trap."""
    return f"{drop_dead_steps(plan.steps)} steps"


def drop_dead_steps(steps: list[Step]) -> int:
    """Remove such steps from a tree of regions; returns how many they were."""
    reads: dict[Buffer, int] = {}
    for step in walk(steps):
        for view in accesses(step)[0]:
            reads[view.buffer] = reads.get(view.buffer, 0) + 1
    return _drop_dead(steps, reads)


def _drop_dead(steps: list[Step], reads: dict[Buffer, int]) -> int:
    dropped = 0
    for at in range(len(steps) - 1, -1, -1):
        step = steps[at]
        if isinstance(step, Nest):
            outs = [out for out in step.outs
                    if reads.get(out.view.buffer) or out.view.buffer.kind != "temp" or out.indexes]
            if len(outs) == len(step.outs) or any([op.indexes for op in step.ops]):
                continue
            if outs:
                step.outs = outs
                continue
        elif isinstance(step, Contract):
            if step.out.buffer.kind != "temp" or reads.get(step.out.buffer):
                continue
        else:
            if isinstance(step, (ForStep, WhileStep)):
                dropped += _drop_dead(step.body, reads)
            elif isinstance(step, IfStep):
                dropped += _drop_dead(step.orelse, reads) + _drop_dead(step.then, reads)
            continue
        for view in accesses(step)[0]:
            reads[view.buffer] -= 1
        del steps[at]
        dropped += 1
    return dropped


def share_equal(plan: Plan, policy: ShapePolicy) -> str:
    """Let reductions, and what is computed from them alone, share one temporary where they are equal: the mean that
    `x.var()` computes again. (Elementwise steps that are equal meet in one nest anyway.)"""
    writes: dict[Buffer, int] = {}
    reduces = False
    for step in walk(plan.steps):
        if isinstance(step, Nest):
            for out in step.outs:
                buffer = out.view.buffer
                writes[buffer] = writes.get(buffer, 0) + 1
            reduces = reduces or step.outs[0].reduced != 0
        else:
            for view in accesses(step)[1]:
                writes[view.buffer] = writes.get(view.buffer, 0) + 1
    if not reduces:
        return "0 steps"
    sharer = _Sharer(writes)
    sharer.region(plan.steps)
    return f"{sharer.count} steps"


class _Sharer:
    def __init__(self, writes: dict[Buffer, int]) -> None:
        self.writes = writes
        self.instead: dict[Buffer, Buffer] = {}
        self.small: set[Buffer] = set()  # reductions, and what is computed from them alone
        self.count = 0

    def region(self, steps: list[Step]) -> None:
        """Share within one list of steps; nested lists on their own."""
        known: dict[object, Buffer] = {}
        kept: list[Step] = []
        for step in steps:
            if self.instead:
                for view in accesses(step)[0]:
                    other = self.instead.get(view.buffer)
                    if other is not None:
                        view.buffer = other
            if isinstance(step, Nest):
                key = self._key(step)
                if key is not None:
                    target = step.outs[0].view.buffer
                    self.small.add(target)
                    first = known.setdefault(key, target)
                    if first is not target:
                        self.instead[target] = first
                        self.count += 1
                        continue
            elif isinstance(step, (ForStep, WhileStep)):
                self.region(step.body)
            elif isinstance(step, IfStep):
                self.region(step.then)
                self.region(step.orelse)
            kept.append(step)
        steps[:] = kept

    def _key(self, nest: Nest) -> object:
        """Equal for nests that give equal temporaries; None for one that stays."""
        out = nest.outs[0]
        if len(nest.outs) != 1:
            return None
        if out.reduce == "store":
            for item in nest.inputs:
                if item.view is not None and item.view.buffer not in self.small:
                    return None
        view = out.view
        if view.buffer.kind != "temp" or not self._is_fixed(view) or out.mask >= 0 or out.indexes:
            return None
        if not all([extent.is_entry for extent in nest.axes]):
            return None
        inputs = []
        for item in nest.inputs:
            source = item.view
            if source is not None:
                if self.writes.get(source.buffer, 0) != (source.buffer.kind != "arg") or not source.offset.is_entry:
                    return None
            elif isinstance(item.operand, ScalarReg) or (isinstance(item.operand, Expr) and not item.operand.is_entry):
                return None  # a register may change
            inputs.append(input_key(item))
        ops = []
        for op in nest.ops:
            if op.view is not None:
                return None
            ops.append((op.op, op.dtype, op.operand_dtype, op.args))
        return (nest.axes, tuple(inputs), tuple(ops), out.slot, out.reduce, out.reduced, view.dtype, view.strides,
                view.offset)

    def _is_fixed(self, view: View) -> bool:
        """Whether one step alone writes the buffer."""
        return self.writes.get(view.buffer, 0) == 1
