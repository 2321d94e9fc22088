"""The shapes of a function, cut into groups that one plan serves: what bucket planning works on."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..vm.lang.bytecode import Program
from ..vm.plan.planner import PlanRefused, plan_recorded
from ..vm.plan.signature import Signature
from ..vm.plan.steps import Contract, Plan, walk
from .buckets import Group, Point
from .profile import FunctionProfile, SignatureProfile
from .schema import UNBOUNDED

_MOST_FACTS = 8  # plans tried for one signature; calls that need yet another are left to the JIT
_DEFAULT_NS = 2_000.0


@dataclass
class FunctionPlan:
    """One function on its way to buckets. refused: signature number -> why no plan was made of it."""

    profile: FunctionProfile
    program: Program
    symbols: dict[str, tuple[str, ...]]
    signatures: list[SignatureProfile]
    refused: dict[int, str] = field(default_factory=dict)
    edges: dict[str, list[int]] = field(default_factory=dict)
    options: dict[str, object] = field(default_factory=dict)


def make_groups(function: FunctionPlan) -> list[Group]:
    """The shapes of a function, cut where another plan begins: signature, branch thresholds, facts."""
    groups: list[Group] = []
    for number, signature in enumerate(function.signatures):
        names = tuple(n for n, symbols in function.symbols.items() if any(s in signature.symbols for s in symbols))
        regimes = _Regimes(function, signature, number)
        parts: dict[tuple[object, ...], list[tuple[tuple[int, ...], int]]] = {}
        cells: dict[tuple[object, ...], tuple[tuple[int, int], ...]] = {}
        for extents in sorted(signature.shapes, key=lambda e: (-signature.shapes[e].calls, e)):
            values = dict(zip(signature.symbols, extents, strict=True))
            short = tuple(next(values[s] for s in function.symbols[n] if s in values) for n in names)
            regime = regimes.of(values)
            if regime is None or not all(-UNBOUNDED < v < UNBOUNDED for v in short):  # a bucket cannot name such an integer
                continue
            cell = tuple(_cell(function, n, v) for n, v in zip(names, short, strict=True))
            parts.setdefault((cell, regime), []).append((short, signature.shapes[extents].calls))
            cells[cell, regime] = cell
        mean = _mean_ns(signature)
        for key in sorted(parts, key=repr):
            points = _points(parts[key], signature, function, names, mean)
            groups.append(Group(function.profile.qualname, number, names, cells[key], points,
                                regimes.holds(key[1], function.symbols, names),  # type: ignore[arg-type]
                                _elements(signature.signature, function.symbols), regimes.cheap(key[1])))  # type: ignore[arg-type]
    return groups


def _points(parts: Sequence[tuple[tuple[int, ...], int]], signature: SignatureProfile, function: FunctionPlan,
            names: Sequence[str], mean: float) -> tuple[Point, ...]:
    times: dict[tuple[int, ...], list[int]] = {}
    for extents, counts in signature.shapes.items():
        values = dict(zip(signature.symbols, extents, strict=True))
        short = tuple(next(values[s] for s in function.symbols[n] if s in values) for n in names)
        total = times.setdefault(short, [0, 0])
        total[0] += counts.total_ns
        total[1] += counts.timed
    calls: dict[tuple[int, ...], int] = {}
    for short, count in parts:
        calls[short] = calls.get(short, 0) + count
    return tuple(Point(short, calls[short], times[short][0] / times[short][1] if times[short][1] else mean)
                 for short in sorted(calls))


def _mean_ns(signature: SignatureProfile) -> float:
    timed = sum(c.timed for c in signature.shapes.values())
    return sum(c.total_ns for c in signature.shapes.values()) / timed if timed else _DEFAULT_NS


def _cell(function: FunctionPlan, name: str, value: int) -> tuple[int, int]:
    edges = sorted({e for s in function.symbols[name] for e in function.edges.get(s, ())})
    at = bisect_right(edges, value)
    least = 0 if any(s.endswith("]") for s in function.symbols[name]) else 1 - UNBOUNDED  # an integer argument
    return (edges[at - 1] if at else least, edges[at] - 1 if at < len(edges) else UNBOUNDED)


def _elements(signature: Signature, symbols: Mapping[str, Sequence[str]]) -> Callable[[Mapping[str, int]], int]:
    short = {symbol: name for name, tied in symbols.items() for symbol in tied}
    arrays = [[short.get(f"{row.path}.shape[{axis}]", "") for axis in range(row.ndim)]
              for row in signature.rows if row.kind == "array" and not row.constant]

    def largest(values: Mapping[str, int]) -> int:
        sizes = [1]
        for axes in arrays:
            size = 1
            for name in axes:
                size *= values.get(name, 1)
            sizes.append(size)
        return max(sizes)

    return largest


class _Regimes:
    """Which plan serves which extents, found by planning for the commonest shape that no plan so far takes."""

    def __init__(self, function: FunctionPlan, signature: SignatureProfile, number: int) -> None:
        self.function, self.signature, self.number = function, signature, number
        self.base = dict(signature.sample)
        self.plans: list[Plan] = []

    def of(self, values: Mapping[str, int]) -> int | None:
        """Number of the plan that these extents get, or None where none is made."""
        full = {**self.base, **values}
        for i, made in enumerate(self.plans):
            if self._keeps(made, full):
                return i
        if len(self.plans) >= _MOST_FACTS or self.number in self.function.refused:
            return None
        try:
            made = plan_recorded(self.function.program, self.signature.signature, full,
                                 self.function.options.get("disable_fusions", ()),  # type: ignore[arg-type]
                                 self.function.options.get("precision", "float32"))  # type: ignore[arg-type]
        except PlanRefused as error:
            self.function.refused[self.number] = error.reason
            return None
        except Exception as error:  # a fault of the planner must not take the plan of every other function down
            self.function.refused[self.number] = f"the planner failed ({type(error).__name__}: {error}); please report"
            return None
        self.plans.append(made)
        return len(self.plans) - 1

    def _keeps(self, made: Plan, full: Mapping[str, int]) -> bool:
        for fact in made.facts:
            names = {atom.name for atom in fact.expr.atoms if atom.op == "sym"}
            if any(".strides[" in str(n) or str(n).endswith(".data") or n not in full for n in names):
                continue  # about layout, which was recorded once: the kernel's own guard looks at it
            if bool(fact.expr.evaluate(full)) != fact.answer:  # type: ignore[arg-type]
                return False
        return True

    def holds(self, regime: int, symbols: Mapping[str, Sequence[str]],
              names: Sequence[str]) -> Callable[[Mapping[str, int]], bool]:
        """Whether extents by short name keep the facts of a plan."""
        made = self.plans[regime]
        return lambda values: self._keeps(
            made, {**self.base, **{s: values[n] for n in names if n in values for s in symbols[n]}})

    def cheap(self, regime: int) -> float:
        """Guess at the share of a call spent outside products."""
        return 0.15 if any(isinstance(step, Contract) for step in walk(self.plans[regime].steps)) else 1.0
