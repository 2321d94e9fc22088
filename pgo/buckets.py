"""Pure: observed shapes and limits -> the kernels worth building.

A group holds the shapes that one plan serves: one function, one signature, one set of facts, no branch threshold
inside. Its widest candidate fixes only what never varied and spans the rest; since ranged kernels lose almost nothing
on CPUs, that one usually serves every shape. Narrower candidates fix further symbols to one extent each, where a
compiler that knows the extent gains something. Which are worth a kernel is weighted coverage: the expected time saved
is submodular.

Source: greedy choice by saving with lazy re-evaluation (Minoux 1978), within 1 - 1/e of the best choice (Nemhauser,
Wolsey, Fisher 1978). Where one symbol varies, the narrow candidates are disjoint and their savings add up: with the
widest chosen, the rest of the choice is exact.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Protocol

from ..vm.errors import PlanError
from .schema import UNBOUNDED, Bucket

_MOST_LOSS = 1.25  # a widest kernel this much slower than the tape is not worth the planning that it saves
_MOST_TUPLES = 64  # narrow candidates of one set of fixed symbols: the most expensive ones


@dataclass(frozen=True)
class Point:
    """One observed joint shape: extents by short name in the group's order, calls, and the time of one on the tape."""

    extents: tuple[int, ...]
    calls: int
    time_ns: float


@dataclass(frozen=True)
class Group:
    """Shapes that one plan serves. names: short names; cells: (lo, hi) of each, which no bucket may leave.

    holds: whether extents (by short name) keep the plan's facts; elements: of the largest array, by extents;
    cheap: share of a call spent outside products and convolutions, where constants help (0.0 to 1.0).
    """

    function: str
    signature: int
    names: tuple[str, ...]
    cells: tuple[tuple[int, int], ...]
    points: tuple[Point, ...]
    holds: Callable[[Mapping[str, int]], bool] = lambda values: True
    elements: Callable[[Mapping[str, int]], int] = lambda values: 0
    cheap: float = 0.5

    def values(self, point: Point) -> dict[str, int]:
        """The point's extents by short name."""
        return dict(zip(self.names, point.extents, strict=True))


@dataclass(frozen=True)
class Limits:
    """What a bundle may cost. bytes and seconds are of all kernels at one CPU level.

    max_kernels None: `default_kernels` of the number of functions, so that each of many functions has a place.
    min_gain: share of its own calls' time that a kernel must save (0.05: noise of a measurement is less); min_share:
    share of all calls' time that one must save which only makes faster what a wider one serves already.
    """

    max_kernels: int | None = None
    max_bytes: int = 4 << 20
    max_build_s: float = 120.0
    min_gain: float = 0.05
    min_share: float = 0.002
    kernel_bytes: int = 6_000
    kernel_build_s: float = 0.12

    def kernels(self) -> int:
        """How many kernels all limits together allow."""
        allowed = min(self.max_bytes // self.kernel_bytes, int(self.max_build_s / self.kernel_build_s))
        return allowed if self.max_kernels is None else min(self.max_kernels, allowed)


def default_kernels(functions: int) -> int:
    """How many kernels at most when nothing is said: 32, or four for each function."""
    return max(32, 4 * functions)


@dataclass(frozen=True)
class Candidate:
    """A kernel that could be built: its box over one group, and which of the group's points lie in it."""

    group: int
    box: Mapping[str, tuple[int, int]]
    members: tuple[int, ...]
    fixed: tuple[str, ...] = ()  # symbols that vary in the group and are exact here; empty for the widest

    def text(self) -> str:
        """The box as it stands in the file."""
        return Bucket(self.box).text()


class CostModel(Protocol):
    """Time of a call relative to the tape (1.0)."""

    def ratio(self, group: Group, candidate: Candidate, point: Point) -> float:
        """Expected time of `point` in the candidate's kernel, as a share of the tape's."""


class PriorModel:
    """What to expect before anything was measured.

    A bundle's kernel saves a fifth of a tape's time whatever its ranges; knowing extents helps only cheap chains over
    small arrays (constants add 0-2% to products). Measuring replaces these figures.
    """

    ranged = 0.80
    exact = 0.16
    small_elements = 1024

    def ratio(self, group: Group, candidate: Candidate, point: Point) -> float:
        """See CostModel."""
        varying = sum(1 for lo, hi in candidate.box.values() if lo != hi) + len(candidate.fixed)
        known = len(candidate.fixed) / varying if varying else 0.0
        small = self.small_elements / (self.small_elements + group.elements(group.values(point)))
        return self.ranged - self.exact * known * small * group.cheap


@dataclass(frozen=True)
class Choice:
    """A chosen kernel: gains are speed-ups over its points (1.25 is a quarter faster), as the model expects them."""

    candidate: Candidate
    saving_ns: float  # of all recorded calls together
    over_wider: float
    over_tape: float
    calls: int  # recorded calls inside the box


@dataclass(frozen=True)
class Selection:
    """What `choose_kernels` answers. tape_ns, expected_ns: of all points; curve: (saving, newly served calls) in order.

    next_choice: what one kernel more would buy (None: nothing worth it).
    """

    choices: tuple[Choice, ...]
    next_choice: Choice | None
    tape_ns: float
    expected_ns: float
    served_calls: int
    calls: int
    curve: tuple[tuple[float, int], ...] = field(default=())


# --- candidates -----------------------------------------------------------------------------------------------------

def propose(groups: Sequence[Group]) -> list[Candidate]:
    """Candidates of all groups: for each, the widest box, then boxes with some symbols exact; no empty ones."""
    found: list[Candidate] = []
    for index, group in enumerate(groups):
        if group.points:
            widest = _widest(index, group)
            found += [widest, *_narrow(widest, group)]
    return found


def _together(group: Group) -> list[tuple[str, ...]]:
    """The group's varying names; those that are equal at every point come together (a fact may tie them)."""
    columns: dict[tuple[int, ...], list[str]] = {}
    for axis, name in enumerate(group.names):
        column = tuple(p.extents[axis] for p in group.points)
        if len(set(column)) > 1:
            columns.setdefault(column, []).append(name)
    return [tuple(names) for names in columns.values()]


def _widest(index: int, group: Group) -> Candidate:
    box: dict[str, tuple[int, int]] = {}
    for axis, name in enumerate(group.names):
        seen = {p.extents[axis] for p in group.points}
        box[name] = (min(seen), max(seen))
    for names in _together(group):
        span = _widen(group, box, names)
        box |= dict.fromkeys(names, span)
    return Candidate(index, box, tuple(range(len(group.points))))


def _widen(group: Group, box: Mapping[str, tuple[int, int]], names: Sequence[str]) -> tuple[int, int]:
    """A range rounded outwards: down to 1, up to a power of two, or as far as the plan's facts hold.

    Traffic of tomorrow reaches a little further than today's sample, and a wider range costs a ranged kernel nothing.
    """
    lo, hi = box[names[0]]
    cells = [group.cells[group.names.index(name)] for name in names]
    corners = [{n: span[side] for n, span in box.items()} for side in (0, 1)]

    def holds(value: int) -> bool:
        return all(group.holds({**c, **dict.fromkeys(names, value)}) for c in corners)

    return (_reach(lo, max(min(lo, 1), *(c[0] for c in cells)), holds),
            _reach(hi, min(1 << (hi - 1).bit_length(), *(c[1] for c in cells)), holds))


def _reach(start: int, target: int, holds: Callable[[int], bool]) -> int:
    """The value nearest to `target`, from `start`, up to which a predicate holds that changes once at the most."""
    if holds(target):
        return target
    inside, outside = start, target
    while abs(outside - inside) > 1:
        middle = (inside + outside) // 2
        if holds(middle):
            inside = middle
        else:
            outside = middle
    return inside


def _narrow(widest: Candidate, group: Group) -> list[Candidate]:
    """Boxes with one to all of the varying symbols fixed; the others keep the widest range, which costs nothing."""
    varying = _together(group)
    found: list[Candidate] = []
    for size in range(1, len(varying) + 1 if len(varying) <= 3 else 2):
        for chosen in combinations(varying, size):
            axes = [group.names.index(names[0]) for names in chosen]
            members: dict[tuple[int, ...], list[int]] = {}
            for i, point in enumerate(group.points):
                members.setdefault(tuple(point.extents[a] for a in axes), []).append(i)
            heavy = {key: sum(_weight(group.points[i]) for i in inside) for key, inside in members.items()}
            ranked = sorted(members.items(), key=lambda item: (-heavy[item[0]], item[0]))
            for key, inside in ranked[:_MOST_TUPLES]:
                fixed = {name: (v, v) for names, v in zip(chosen, key, strict=True) for name in names}
                box = {name: fixed.get(name, span) for name, span in widest.box.items()}
                found.append(Candidate(widest.group, box, tuple(inside), tuple(fixed)))
    return found


def _weight(point: Point) -> float:
    return point.calls * point.time_ns


# --- choosing -------------------------------------------------------------------------------------------------------

def choose_kernels(groups: Sequence[Group], candidates: Iterable[Candidate], model: CostModel, limits: Limits,
                   kept: Sequence[Candidate] = ()) -> Selection:
    """The kernels that save most expected time under the limits; kept ones come first and count against them.

    A kernel that refines a wider one is taken only if it saves `min_gain` of the time of its own calls.
    Raises PlanError when the limits allow no kernel at all.
    """
    if limits.kernels() < 1:
        count = "any number of" if limits.max_kernels is None else limits.max_kernels
        raise PlanError(f"the limits allow no kernel: {count} kernels, {limits.max_bytes:,} bytes, "
                        f"{limits.max_build_s:g} s of building")
    every = list(candidates)
    narrow = [c for c in every if c.fixed]
    widest = [c for c in every if not c.fixed]
    freely = _Greedy(groups, model, limits).run([kept], every)
    covering = _Greedy(groups, model, limits).run([kept, widest], narrow)
    # the widest kernels also serve what no profile has seen: give them up only for a real gain
    return freely if freely.expected_ns * (1 + limits.min_gain) < covering.expected_ns else covering


class _Greedy:
    """One run of the greedy choice: cost is what each point takes with the kernels so far."""

    def __init__(self, groups: Sequence[Group], model: CostModel, limits: Limits) -> None:
        self.groups, self.model, self.limits = groups, model, limits
        self.cost = [[p.time_ns for p in g.points] for g in groups]
        self.served = [[False] * len(g.points) for g in groups]
        self.tape_ns = sum(p.calls * p.time_ns for g in groups for p in g.points)
        self.choices: list[Choice] = []
        self.curve: list[tuple[float, int]] = []

    def run(self, first: Sequence[Sequence[Candidate]], rest: Iterable[Candidate]) -> Selection:
        """Take all of first[0], then the best of each further list, then of the rest."""
        for candidate in first[0]:
            self.take(self.rate(candidate))
        left_out = [choice for candidates in (*first[1:], rest) if (choice := self.take_best(candidates)) is not None]
        next_choice = max(left_out, key=lambda choice: choice.saving_ns, default=None)
        points = [(p, cost, flag) for g, costs, flags in zip(self.groups, self.cost, self.served, strict=True)
                  for p, cost, flag in zip(g.points, costs, flags, strict=True)]
        return Selection(tuple(self.choices), next_choice, self.tape_ns, sum(p.calls * cost for p, cost, _ in points),
                         sum(p.calls for p, _, flag in points if flag), sum(p.calls for p, _, _ in points),
                         tuple(self.curve))

    def take_best(self, candidates: Iterable[Candidate]) -> Choice | None:
        """Take what saves most until nothing is worth it (None) or the limit is reached (the one that is left out)."""
        heap: list[tuple[float, int, int, Choice]] = []
        for order, candidate in enumerate(candidates):
            choice = self.rate(candidate)
            heapq.heappush(heap, (-choice.saving_ns, order, len(self.choices), choice))
        while heap:
            _, order, age, choice = heapq.heappop(heap)
            if age != len(self.choices):  # something was chosen since: rate it anew
                choice = self.rate(choice.candidate)
                heapq.heappush(heap, (-choice.saving_ns, order, len(self.choices), choice))
            elif self.is_worth_it(choice):
                if len(self.choices) >= self.limits.kernels():
                    return choice
                self.take(choice)
        return None

    def is_worth_it(self, choice: Choice) -> bool:
        """Whether a kernel gains enough for its own calls and, if it only refines a wider one, for all calls.

        The widest kernel of a group always gains: without it the first call of every process plans for milliseconds.
        It is left out only where it was measured to be slower than the tape by more than any noise.
        """
        if not choice.candidate.fixed:
            return choice.over_wider >= 1 / _MOST_LOSS
        if choice.saving_ns <= 0 or choice.over_wider < 1 + self.limits.min_gain:
            return False
        return choice.saving_ns >= self.limits.min_share * self.tape_ns

    def rate(self, candidate: Candidate) -> Choice:
        """What a candidate would save now."""
        group, cost = self.groups[candidate.group], self.cost[candidate.group]
        before = after = tape = 0.0
        calls = 0
        for i in candidate.members:
            point = group.points[i]
            before += point.calls * cost[i]
            ours = point.time_ns * self.model.ratio(group, candidate, point)
            after += point.calls * (min(ours, cost[i]) if candidate.fixed else ours)
            tape += point.calls * point.time_ns
            calls += point.calls
        return Choice(candidate, before - after, before / after if after else 1.0, tape / after if after else 1.0,
                      calls)

    def take(self, choice: Choice) -> None:
        """Choose a kernel: its points cost less from now on."""
        at = choice.candidate.group
        group, fresh = self.groups[at], 0
        for i in choice.candidate.members:
            point = group.points[i]
            new = point.time_ns * self.model.ratio(group, choice.candidate, point)
            self.cost[at][i] = min(new, self.cost[at][i])
            fresh += 0 if self.served[at][i] else point.calls
            self.served[at][i] = True
        self.choices.append(choice)
        self.curve.append((choice.saving_ns, fresh))


def by_priority(choices: Iterable[Choice]) -> list[Choice]:
    """Narrow kernels before wide ones (dispatch takes the first that holds), then by extents."""
    def volume(box: Mapping[str, tuple[int, int]]) -> float:
        size = 1.0
        for lo, hi in box.values():
            size *= min(hi, UNBOUNDED) - lo + 1
        return size

    return sorted(choices, key=lambda c: (-len(c.candidate.fixed), volume(c.candidate.box),
                                          sorted(c.candidate.box.items())))
