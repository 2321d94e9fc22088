"""Who reads and writes what: one scan over the region tree that the fusing passes share.

Positions are indices into a region's own list of steps; what happens inside a nested region counts at the position of
the step that holds it. Distinct buffers never overlap (typing guards written arguments), so a buffer is the unit of
dependence.
"""

from __future__ import annotations

from collections.abc import Iterable

from .steps import (
    AllocStep,
    Buffer,
    CallStep,
    Contract,
    ForStep,
    IfStep,
    LoadStep,
    Nest,
    Plan,
    ScalarOpStep,
    ScalarReg,
    SetStep,
    Step,
    StoreStep,
    View,
    WhileStep,
)


class Region:
    """A list of steps with its accesses. barriers: positions of control flow and traps; sets: positions that assign a
    scalar register which is assigned elsewhere too; arg_writes: positions that write an argument; volatile: buffers
    that are written more than once, or read before they are written (any other keeps what its one step wrote)."""

    __slots__ = ("arg_writes", "barriers", "depth", "parent", "reads", "sets", "steps", "volatile", "writes")

    def __init__(self, steps: list[Step], parent: Region | None) -> None:
        self.steps, self.parent = steps, parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.reads: dict[Buffer, set[int]] = {}
        self.writes: dict[Buffer, set[int]] = {}
        self.barriers: list[int] = []
        self.sets: list[int] = []
        self.arg_writes: list[int] = []
        self.volatile: set[Buffer] = set()

    def note_write(self, buffer: Buffer, at: int) -> None:
        """The step at a position, which comes after all that were noted, writes the buffer."""
        places = self.writes.get(buffer)
        if places is None:
            self.writes[buffer] = {at}
            if buffer in self.reads or buffer.kind == "arg":
                self.volatile.add(buffer)
        else:
            places.add(at)
            self.volatile.add(buffer)

    def is_written_between(self, buffer: Buffer, first: int, last: int) -> bool:
        """Whether a step strictly between two positions changes what a reader after the first one sees."""
        if buffer not in self.volatile:
            return False
        found = self.writes.get(buffer)
        return found is not None and any(first < at < last for at in found)

    def is_read_between(self, buffer: Buffer, first: int, last: int) -> bool:
        """Whether a step strictly between two positions reads the buffer."""
        for at in self.reads.get(buffer, ()):
            if first < at < last:
                return True
        return False

    def is_set_between(self, first: int, last: int) -> bool:
        """Whether a step strictly between two positions changes a scalar register that had a value before."""
        return bool(self.sets) and any(first < at < last for at in self.sets)

    def drop(self, buffer: Buffer) -> None:
        """Nothing reads or writes the buffer any more."""
        self.reads.pop(buffer, None)
        self.writes.pop(buffer, None)

    def move_accesses(self, reads: Iterable[Buffer], writes: Iterable[Buffer], old: int, new: int) -> None:
        """The step at `old` is at `new` from now on."""
        for table, buffers in ((self.reads, reads), (self.writes, writes)):
            for buffer in buffers:
                at = table.setdefault(buffer, set())
                at.discard(old)
                at.add(new)


class Usage:
    """Accesses of a whole plan. regions: children before parents."""

    def __init__(self, plan: Plan) -> None:
        self.regions: list[Region] = []
        self.home: dict[Buffer, Region] = {}  # innermost region that holds every access
        self.n_writes: dict[Buffer, int] = {}
        self._assigned: dict[ScalarReg, list[tuple[Region, int]]] = {}
        self._scan(plan.steps, None)
        several = [buffer for buffer, n in self.n_writes.items() if n > 1]
        for region in self.regions if several else ():
            region.volatile.update([buffer for buffer in several if buffer in region.writes])
        for places in self._assigned.values():
            if len(places) > 1:
                for region, at in places:
                    up: Region | None = region
                    if at not in region.sets:
                        region.sets.append(at)
                    while up is not None and up.parent is not None:
                        at = next(i for i, step in enumerate(up.parent.steps) if _holds(step, up.steps))
                        if at not in up.parent.sets:
                            up.parent.sets.append(at)
                        up = up.parent

    def is_local(self, buffer: Buffer, region: Region) -> bool:
        """Whether every access lies in the region (or below it) and no result needs the buffer."""
        return self.home.get(buffer) is region and buffer.kind == "temp"

    def is_written_once(self, buffer: Buffer) -> bool:
        """Whether one step alone writes the buffer, which belongs to the plan."""
        return buffer.kind != "arg" and self.n_writes.get(buffer, 0) == 1

    def _scan(self, steps: list[Step], parent: Region | None) -> Region:
        region = Region(steps, parent)
        reads, n_writes, homes, assigned = region.reads, self.n_writes, self.home, self._assigned
        for at, step in enumerate(steps):
            if isinstance(step, _ACCESSING):
                read, written = accesses(step)
                for view in read:
                    buffer = view.buffer
                    places = reads.get(buffer)
                    if places is None:
                        reads[buffer] = {at}
                    else:
                        places.add(at)
                    home = homes.setdefault(buffer, region)
                    if home is not region:
                        homes[buffer] = _common(home, region)
                for view in written:
                    buffer = view.buffer
                    n_writes[buffer] = n_writes.get(buffer, 0) + 1
                    region.note_write(buffer, at)
                    home = homes.setdefault(buffer, region)
                    if home is not region:
                        homes[buffer] = _common(home, region)
                    if buffer.kind == "arg":
                        region.arg_writes.append(at)
                if isinstance(step, Nest):
                    if may_trap(step):
                        region.barriers.append(at)
                elif isinstance(step, LoadStep):
                    assigned.setdefault(step.dst, []).append((region, at))
                elif isinstance(step, CallStep):  # it may raise: what was written before it stays so
                    region.barriers.append(at)
                    for result in step.results:
                        for reg in result.registers():
                            assigned.setdefault(reg, []).append((region, at))
            elif isinstance(step, (ScalarOpStep, SetStep)):
                assigned.setdefault(step.dst, []).append((region, at))
            elif isinstance(step, (ForStep, WhileStep, IfStep)):
                region.barriers.append(at)
                bodies = (step.then, step.orelse) if isinstance(step, IfStep) else (step.body,)
                for body in bodies:
                    child = self._scan(body, region)
                    for buffer in child.reads:
                        reads.setdefault(buffer, set()).add(at)
                    for buffer in child.writes:
                        region.note_write(buffer, at)
                    if child.arg_writes:
                        region.arg_writes.append(at)
            elif not isinstance(step, AllocStep) or step.is_scratch:
                region.barriers.append(at)
        self.regions.append(region)
        return region


_ACCESSING = (Nest, Contract, LoadStep, StoreStep, CallStep)  # what works on memory itself


def _common(a: Region, b: Region) -> Region:
    while a is not b:
        if a.depth >= b.depth:
            assert a.parent is not None
            a = a.parent
        else:
            assert b.parent is not None
            b = b.parent
    return a


def _holds(step: Step, body: list[Step]) -> bool:
    if isinstance(step, (ForStep, WhileStep)):
        return step.body is body
    return isinstance(step, IfStep) and (step.then is body or step.orelse is body)


def accesses(step: Step) -> tuple[list[View], list[View]]:
    """Views that a step reads and writes itself (nested regions left out)."""
    if isinstance(step, Nest):
        reads = []
        for item in step.inputs:
            if item.view is not None:
                reads.append(item.view)
        for op in step.ops:
            if op.view is not None:
                reads.append(op.view)
        outs = step.outs
        return reads, [outs[0].view] if len(outs) == 1 else [out.view for out in outs]
    if isinstance(step, Contract):
        reads = [step.a, step.b]
        if step.bias is not None:
            reads.append(step.bias)
        if step.residual is not None:
            reads.append(step.residual)
        return reads, [step.out]
    if isinstance(step, CallStep):
        return step.views(), [*step.views(written=True), *step.made()]
    if isinstance(step, LoadStep):
        return [step.view], []
    if isinstance(step, StoreStep):
        return [], [step.view]
    return [], []


def may_trap(nest: Nest) -> bool:
    """Whether an index may be out of range."""
    for op in nest.ops:
        if op.indexes:
            return True
    for out in nest.outs:
        if out.indexes:
            return True
    return False
