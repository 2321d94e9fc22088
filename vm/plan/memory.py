"""`assign_slots`: which temporaries share memory, from their lifetimes over the region tree.

Temporaries live in one arena per call. Each gets a slot; members of a slot are never alive together, except where a
nest's output takes the place of an input that dies there (equal element for element). A slot is as large as its
largest member, which is known when a shape is bound; slots lie one after the other, 64-byte aligned.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...templates.records import fresh, record
from .extents import Atom, Evaluator, Expr, is_equal, is_less_equal
from .steps import ITEM_BYTES, Buffer, CallStep, Contract, ForStep, IfStep, LoadStep, Nest, Plan, Step, StoreStep, View, WhileStep

ALIGN_BYTES = 64


@record
class Life:
    """Where a temporary is used: positions in program order, first and last inclusive."""

    buffer: Buffer
    first: int
    last: int
    regions: tuple[int, ...]  # loops around the first access, outermost first
    is_filled_first: bool  # the first access writes all of it
    donor: Buffer | None = None  # dies where this one is born, and may lend its place


@record
class Slots:
    """slot_of: a number for each temporary. sizes: the members' sizes in bytes, each slot's distinct ones."""

    slot_of: dict[Buffer, int] = fresh(factory=dict)
    sizes: list[list[Expr]] = fresh(factory=list)


def assign_slots(plan: Plan) -> Slots:
    """A slot for each temporary of the plan."""
    lives = find_lifetimes(plan.steps)
    order = sorted(lives.values(), key=lambda life: life.first)
    slots = Slots()
    hints = _Hints(plan.sample)
    busy: list[tuple[int, int]] = []  # (last position, slot)
    free: list[int] = []
    grown: list[int] = []  # bytes of each slot for the extents at hand
    occupant: dict[int, Life] = {}
    for life in order:
        size = life.buffer.size_bytes
        assert size is not None, "a temporary has a size"
        still = []
        for last, slot in busy:
            if last < life.first:
                free.append(slot)
            else:
                still.append((last, slot))
        busy = still
        slot = _donated(life, lives, slots, occupant)
        if slot >= 0:
            busy.remove((occupant[slot].last, slot))
        else:
            slot = _best_fit(size, free, slots.sizes, grown, hints) if free else -1
            if slot >= 0:
                free.remove(slot)
            else:
                slot = len(slots.sizes)
                slots.sizes.append([])
                grown.append(0)
        slots.slot_of[life.buffer] = slot
        if size not in slots.sizes[slot]:
            slots.sizes[slot].append(size)
            grown[slot] = max(grown[slot], hints.size(size))
        occupant[slot] = life
        busy.append((life.last, slot))
    return slots


def _donated(life: Life, lives: Mapping[Buffer, Life], slots: Slots, occupant: Mapping[int, Life]) -> int:
    if life.donor is None:
        return -1
    donor = lives.get(life.donor)
    if donor is None or donor.last != life.first:
        return -1
    slot = slots.slot_of[donor.buffer]
    return slot if occupant[slot] is donor else -1


def _best_fit(size: Expr, free: list[int], sizes: list[list[Expr]], grown: list[int], hints: _Hints) -> int:
    """A free slot of this very size, else one that does not grow much for the extents at hand; -1 for none."""
    best, best_waste = -1, 0.0
    for slot in free:
        if size in sizes[slot]:
            return slot
    want = hints.size(size)
    for slot in free:
        have = grown[slot]
        # waste: bytes that the slot would grow by (counted double) or leave unused
        waste = 2.0 * (want - have) if want > have else float(have - want)
        if waste <= want * 2 and (best < 0 or waste < best_waste):
            best, best_waste = slot, waste
    return best


class _Hints:
    """Sizes for the extents at hand; unknown symbols count as 64."""

    def __init__(self, sample: Mapping[str, int]) -> None:
        self._sample = sample
        self._sizes: dict[Expr, int] = {}
        self._evaluate = Evaluator(self._look)

    def size(self, expr: Expr) -> int:
        found = self._sizes.get(expr)
        if found is None:
            try:
                found = self._evaluate(expr)
            except (ArithmeticError, ValueError):
                found = 4096
            self._sizes[expr] = found
        return found

    def _look(self, atom: Atom) -> int:
        return self._sample.get(atom.name, 64) if isinstance(atom.name, str) else 64


def find_lifetimes(steps: list[Step]) -> dict[Buffer, Life]:
    """Lifetime of each temporary, loops taken into account."""
    scan = _Scan()
    scan.region(steps, ())
    return scan.finish()


class _Scan:
    def __init__(self) -> None:
        self.position = 0
        self.lives: dict[Buffer, Life] = {}
        self.loops: list[tuple[int, int]] = []  # first and last position of each loop
        self.outside: dict[Buffer, int] = {}  # number of loops around every access so far (common prefix of regions)
        self.conditional: list[int] = []  # for each If region open: depth of loops around it

    def region(self, steps: list[Step], loops: tuple[int, ...]) -> None:
        for step in steps:
            self.position += 1
            if isinstance(step, Nest):
                self._nest(step, loops)
            elif isinstance(step, Contract):
                self._touch(step.a, loops, False)
                self._touch(step.b, loops, False)
                if step.bias is not None:
                    self._touch(step.bias, loops, False)
                if step.residual is not None:
                    self._touch(step.residual, loops, False)
                self._touch(step.out, loops, True)
            elif isinstance(step, CallStep):
                for view in step.views():
                    self._touch(view, loops, False)
            elif isinstance(step, LoadStep):
                self._touch(step.view, loops, False)
            elif isinstance(step, StoreStep):
                self._touch(step.view, loops, True)
            elif isinstance(step, (ForStep, WhileStep)):
                number = len(self.loops)
                self.loops.append((self.position, 0))
                self.region(step.body, (*loops, number))
                self.position += 1
                self.loops[number] = (self.loops[number][0], self.position)
            elif isinstance(step, IfStep):
                self.conditional.append(len(loops))
                self.region(step.then, loops)
                self.position += 1
                self.region(step.orelse, loops)
                self.conditional.pop()
                self.position += 1

    def _nest(self, nest: Nest, loops: tuple[int, ...]) -> None:
        for item in nest.inputs:
            if item.view is not None:
                self._touch(item.view, loops, False)
        for op in nest.ops:
            if op.view is not None:
                self._touch(op.view, loops, False)
        for out in nest.outs:
            fills = out.mask < 0 and not out.indexes
            life = self._touch(out.view, loops, fills, out.reduced)
            if life is not None and fills and out.reduce == "store":
                life.donor = _find_donor(nest, out.view)

    def _touch(self, view: View, loops: tuple[int, ...], writes: bool, reduced: int = 0) -> Life | None:
        """Note an access; returns the life that it begins, if it does."""
        buffer = view.buffer
        if buffer.kind != "temp":
            return None
        life = self.lives.get(buffer)
        if life is None:
            is_sure = not self.conditional or self.conditional[-1] < len(loops)
            fills = buffer.is_trip_local or (writes and is_sure and fills_buffer(view, reduced))
            life = self.lives[buffer] = Life(buffer, self.position, self.position, loops, fills)
            self.outside[buffer] = len(loops)
            return life
        life.last = self.position
        shared = self.outside[buffer]
        regions = life.regions
        if shared > len(loops) or regions[:shared] != loops[:shared]:
            depth = 0
            for a, b in zip(regions[:shared], loops, strict=False):
                if a != b:
                    break
                depth += 1
            self.outside[buffer] = depth
        return None

    def finish(self) -> dict[Buffer, Life]:
        for buffer, life in self.lives.items():
            # Loops that hold some accesses but not all: the value crosses trips. Loops that hold all: it is fresh in
            # each trip when the first access, right in that loop's body, writes all of it.
            regions = life.regions
            keep = self.outside[buffer]
            if keep and not (life.is_filled_first and len(regions) == keep):
                keep = 0
            if len(regions) > keep:
                start, end = self.loops[regions[keep]]
                life.first, life.last = min(life.first, start), max(life.last, end)
                life.donor = None
            for first, last in self.loops:
                if first <= life.last <= last and not first <= life.first <= last:
                    life.last = last
        return self.lives


def fills_buffer(view: View, reduced: int = 0) -> bool:
    """Whether a write through the view reaches every byte of its buffer, by normal form."""
    size = view.buffer.size_bytes
    if size is None or view.offset.terms or view.offset.const:
        return False
    need = None
    for axis, extent in enumerate(view.shape):
        if not reduced >> axis & 1:
            need = extent if need is None else need * extent
    item = ITEM_BYTES[view.dtype]
    total = size if need is None else need * item
    return is_equal(total, size) is True if need is not None else is_equal(size, item) is True


def _find_donor(nest: Nest, out: View) -> Buffer | None:
    """An input whose place the output may take: every access of the nest to it is equal to the output's elements."""
    candidates: dict[Buffer, bool] = {}
    for item in nest.inputs:
        view = item.view
        if view is None or view.buffer.kind != "temp":
            continue
        fits = (ITEM_BYTES[view.dtype] == ITEM_BYTES[out.dtype] and view.offset is out.offset
                and view.strides == out.strides)
        candidates[view.buffer] = candidates.get(view.buffer, True) and fits
    for op in nest.ops:
        if op.view is not None:
            candidates.pop(op.view.buffer, None)
    for other in nest.outs:
        candidates.pop(other.view.buffer, None)
    for buffer, fits in candidates.items():
        if fits and buffer.size_bytes is not None and out.buffer.size_bytes is not None and (
                buffer.size_bytes is out.buffer.size_bytes
                or is_less_equal(out.buffer.size_bytes, buffer.size_bytes)):
            return buffer
    return None
