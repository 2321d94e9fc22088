"""Measured gains: candidate kernels are built into a scratch bundle and timed against the tape on synthetic arguments.

Both are timed at the level that they share, `bind` and `run` over one frame (pb_abi.h), from a loop in C; what the
dispatcher adds to every call is measured once and counted to each. Rounds are taken in turns and compared round by round,
so that a slow moment of the machine spoils a round and not a comparison; a figure is the median, with the range that it may
lie in (`spread.py`). Rounds are added until that range decides whether a kernel is worth it. Where it does not, nothing is
gained as far as anybody knows: the plan does without the kernel, and a covering kernel that may be as fast as the tape stays.
"""

from __future__ import annotations

import ctypes
import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ..templates.levels import runnable_levels
from ..vm.errors import ConfigError, InternalError, PlanError
from ..vm.plan.code import Code
from ..vm.plan.planner import PlanRefused
from ..vm.run.tape import Tape
from . import toolchain
from .buckets import Candidate, Group, PriorModel
from .buckets_text import dump_buckets
from .drive import Driver, GuardFailed, Trapped, find_kernel, open_capsule
from .groups import FunctionPlan
from .kernels import BuiltFunction, BuiltPlan, plan_kernels
from .planning import NotMeasured, recorded_signature, recordings_of
from .samples import Samples
from .schema import Bucket, BucketsFile, FunctionBuckets, file_stem, programs_folder
from .spread import Spread, compared

_MOST_NARROW = 24  # narrow candidates that are built: those whose calls take most time
_LEAST_SHARE = 0.005  # of all calls' time; below, no gain is worth a kernel
_ROUNDS, _MOST_ROUNDS = 9, 41
_ROUND_NS = 400_000
_GAIN = 1.05  # what is to be decided: `Limits.min_gain`
_MOST_ELEMENTS = 4 << 20  # of one array: larger shapes are not timed

_TIMER = """
#include <stdint.h>
#include <time.h>
typedef int (*entry)(const void *, void *);
static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}
/* nanoseconds of n calls, or -1 when one of them fails */
__attribute__((visibility("default"))) int64_t prebake_time(entry f, const void *plan, void *frame, int64_t n) {
    int64_t start = now();
    for (int64_t i = 0; i < n; i++)
        if (f(plan, frame)) return -1;
    return now() - start;
}
"""


@dataclass
class MeasuredModel:
    """A cost model from measured times.

    ratios: (group, box) -> (logarithm of the elements, share of the tape's time) at each shape that was timed: of a
    widest candidate the middle one, but not above 1 while it may be that; of a narrow one the worst that it may be, beside
    the widest. A candidate that was not timed is taken to gain nothing over the widest of its group.
    spreads: (group, box) -> speed-up at the shape that takes most time, over the tape or over the widest.
    """

    ratios: dict[tuple[int, str], list[tuple[float, float]]] = field(default_factory=dict)
    widest: dict[int, tuple[int, str]] = field(default_factory=dict)
    prior: PriorModel = field(default_factory=PriorModel)
    spreads: dict[tuple[int, str], Spread] = field(default_factory=dict)

    def ratio(self, group: Group, candidate: Candidate, point: Any) -> float:
        """See CostModel."""
        known = self.ratios.get((candidate.group, candidate.text()))
        if known is None:
            known = self.ratios.get(self.widest.get(candidate.group, (-1, "")))
        if known is None:
            return self.prior.ratio(group, replace(candidate, fixed=()), point)
        size = math.log1p(group.elements(group.values(point)))
        return min(known, key=lambda item: abs(item[0] - size))[1]


def measure_candidates(functions: Sequence[FunctionPlan], groups: Sequence[Group],
                       candidates: Sequence[Candidate]) -> MeasuredModel:
    """The measured cost model of the candidates worth building. Raises NotMeasured where they cannot be built."""
    try:
        compiler = toolchain.find_toolchain()
    except ConfigError as error:
        raise NotMeasured(error.message) from error
    chosen = worth_building(groups, candidates)
    model = MeasuredModel(widest={c.group: (c.group, c.text()) for c in chosen if not c.fixed})
    with tempfile.TemporaryDirectory(prefix="prebake-measure-") as name:
        folder = Path(name)
        timer = _build_timer(compiler, folder)
        config, owners = _scratch_config(functions, groups, chosen, folder)
        try:
            from .build import build

            bundle = build(config.path, folder / "bundle", targets=[runnable_levels()[0].name], allow_stale=True,
                           verify=False, quiet=True)
        except (ConfigError, PlanError, InternalError) as error:
            raise NotMeasured(str(error).splitlines()[0]) from error
        built = {f.qualname: plan_kernels(config, f) for f in config.functions}
        library = next(iter(sorted(bundle.glob("*.so"))), None)
        if library is None:
            raise NotMeasured("no kernel was built")
        table, keep = open_capsule(library)
        by_name = {f.profile.qualname: f for f in functions}
        dispatch_ns = _dispatch_ns()
        for number, group in enumerate(groups):
            mine = [(c, index) for c, (_, index) in zip(chosen, owners, strict=True) if c.group == number]
            if mine:
                owner = group.function
                _time_group(model, built[owner], by_name[owner], number, group, mine, table, timer, dispatch_ns)
        del keep
    return model


def worth_building(groups: Sequence[Group], candidates: Sequence[Candidate]) -> list[Candidate]:
    """All widest candidates, and the narrow ones whose calls take a share of the time that could be worth a kernel."""
    def weight(candidate: Candidate) -> float:
        points = groups[candidate.group].points
        return sum(points[i].calls * points[i].time_ns for i in candidate.members)

    total = sum(p.calls * p.time_ns for g in groups for p in g.points)
    narrow = sorted((c for c in candidates if c.fixed and weight(c) >= _LEAST_SHARE * total), key=lambda c: -weight(c))
    return [c for c in candidates if not c.fixed] + narrow[:_MOST_NARROW]


def _build_timer(compiler: toolchain.Toolchain, folder: Path) -> Any:
    source = folder / "timer.c"
    source.write_text(_TIMER)
    compiler.compile(source, folder / "timer.so", ["-O2", "-fPIC"], objects=())
    function = ctypes.CDLL(str(folder / "timer.so")).prebake_time
    function.restype = ctypes.c_int64
    function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    return function


def _scratch_config(functions: Sequence[FunctionPlan], groups: Sequence[Group], chosen: Sequence[Candidate],
                    folder: Path) -> tuple[BucketsFile, list[tuple[str, int]]]:
    """A buckets.yaml of the candidates, written with its neighbours; and (function, bucket index) of each candidate."""
    path = folder / "measure.yaml"
    buckets: dict[str, list[Bucket]] = {}
    owners = []
    for candidate in chosen:
        group = groups[candidate.group]
        mine = buckets.setdefault(group.function, [])
        owners.append((group.function, len(mine)))
        mine.append(Bucket(candidate.box, group.signature))
    parts = []
    for function in functions:
        name = function.profile.qualname
        if name not in buckets:
            continue
        parts.append(FunctionBuckets(name, function.symbols, dict(function.options), tuple(buckets[name])))
        target = programs_folder(path)
        target.mkdir(exist_ok=True)
        (target / f"{file_stem(name)}.msbc").write_bytes(function.profile.msbc)
        (target / f"{file_stem(name)}.signatures.json").write_bytes(recordings_of(function).to_bytes())
    config = BucketsFile(path, tuple(parts))
    path.write_text(dump_buckets(config), encoding="utf-8")
    return config, owners


def _time_group(model: MeasuredModel, built: BuiltFunction, function: FunctionPlan, number: int, group: Group,
                mine: Sequence[tuple[Candidate, int]], table: Any, timer: Any, dispatch_ns: float) -> None:
    """Add a group's figures to the model; mine: (candidate, index of its bucket).

    At each shape all candidates that hold it are timed side by side, so that they compare shape by shape.
    """
    recorded = recorded_signature(function.signatures[group.signature])
    points = {candidate.text(): _chosen_points(group, candidate) for candidate, _ in mine}
    for i in sorted(set().union(*points.values())):
        values = group.values(group.points[i])
        if group.elements(values) > _MOST_ELEMENTS:
            continue
        extents = dict(recorded.sample) | {s: values[n] for n in group.names for s in function.symbols[n]}
        inside = [(c, built.buckets.buckets[at]) for c, at in mine if i in c.members]
        widest = next((at for at, (c, _) in enumerate(inside) if not c.fixed), None)
        rounds = _time_shape(built, [bucket for _, bucket in inside], extents, table, timer, widest)
        rounds = {at: [t + dispatch_ns for t in times] for at, times in rounds.items()}
        tape = rounds.pop(-1, None)
        if tape is None:
            continue
        size = math.log1p(group.elements(values))
        wide = compared(rounds[widest], tape) if widest in rounds else None
        base = _not_above_one(wide) if wide is not None else 1.0
        for at, times in rounds.items():
            candidate = inside[at][0]
            against = compared(times, tape) if at == widest or wide is None else compared(times, rounds[widest])  # type: ignore[index]
            ratio = base if at == widest else base * against.high
            model.ratios.setdefault((number, candidate.text()), []).append((size, ratio))
            if i == points[candidate.text()][0]:
                model.spreads[number, candidate.text()] = against.inverse()


def _not_above_one(share: Spread) -> float:
    """The middle, unless that is above 1 where 1 is possible: what may be as fast as the tape is not called slower."""
    return share.middle if share.middle <= 1 else max(1.0, share.low)


def _chosen_points(group: Group, candidate: Candidate) -> list[int]:
    """The point that takes most time in all; of the widest also the smallest and the largest."""
    members = candidate.members
    heaviest = max(members, key=lambda i: (group.points[i].calls * group.points[i].time_ns, -i))
    if candidate.fixed:
        return [heaviest]
    by_size = sorted(members, key=lambda i: (group.elements(group.values(group.points[i])), i))
    return list(dict.fromkeys([heaviest, by_size[0], by_size[-1]]))


def _time_shape(built: BuiltFunction, buckets: Sequence[Bucket], extents: Mapping[str, int], table: Any, timer: Any,
                widest: int | None) -> dict[int, list[float]]:
    """Bucket's number -> nanoseconds of a call at these extents in each round, -1 -> the tape's; without what cannot be repeated.

    widest: the bucket that the others refine.
    """
    contestants: dict[int, _Timed] = {}
    leaves: dict[int, dict[int, Any]] = {}
    for at, bucket in enumerate(buckets):
        for plan in built.plans:
            for kernel in plan.kernels:
                if kernel.bucket is not bucket or at in contestants:
                    continue
                row = find_kernel(table, kernel.kernel.name)
                trial = _Timed(plan.code, table, _address(row.bind), _address(row.run), None, timer)
                values = dict(enumerate(Samples(built.program, plan.signature, extents).values))
                with suppress(GuardFailed, Trapped):
                    trial(values)
                    if trial.nanoseconds >= 0:
                        contestants[at], leaves[at] = trial, values
                        if -1 not in contestants:
                            _add_tape(contestants, leaves, plan, values, table, timer)
    rounds: dict[int, list[float]] = {at: [] for at in contestants}
    while rounds and len(next(iter(rounds.values()))) < _MOST_ROUNDS:
        for at, contestant in contestants.items():
            contestant(leaves[at])
            rounds[at].append(contestant.nanoseconds)
        done = len(next(iter(rounds.values())))
        if any(times[-1] < 0 for times in rounds.values()):
            break
        if done >= _ROUNDS and _is_decided(rounds, widest):
            break
    return {at: times for at, times in rounds.items() if min(times) >= 0}


def _is_decided(rounds: Mapping[int, Sequence[float]], widest: int | None) -> bool:
    """Whether the ranges say of each refinement if it gains enough, and of the widest if it is as fast as the tape."""
    if widest not in rounds or -1 not in rounds:
        return True
    share = compared(rounds[widest], rounds[-1])  # type: ignore[index]
    if share.low < 1 < share.high and share.middle > 1:
        return False
    gains = [compared(times, rounds[widest]).inverse() for at, times in rounds.items() if at not in (-1, widest)]  # type: ignore[index]
    return all(gain.low > _GAIN or gain.high < _GAIN for gain in gains)


def _add_tape(contestants: dict[int, _Timed], leaves: dict[int, dict[int, Any]], plan: BuiltPlan,
              values: dict[int, Any], table: Any, timer: Any) -> None:
    with suppress(PlanRefused, GuardFailed, Trapped):
        tape = Tape(plan.code)
        hidden = tape.n_regs - len(plan.code.types)
        trial = _Timed(replace(plan.code, types=[*plan.code.types, *["i64"] * hidden]), table, tape.bind_address,
                       tape.run_address, tape.plan_address, timer)
        trial.keep = tape
        trial(values)
        if trial.nanoseconds >= 0:
            contestants[-1], leaves[-1] = trial, values


def _dispatch_ns() -> float:
    """What a call costs outside its kernel here: a decorated function on one element, in nanoseconds."""
    import numpy as np

    from ..vm.run.dispatch import jit

    probe, one = jit(_probe), np.ones(1, np.float32)
    best = math.inf
    for _ in range(100):
        began = time.perf_counter_ns()
        for _ in range(50):
            probe(one)
        best = min(best, (time.perf_counter_ns() - began) / 50)
    return min(best, 1_000.0)  # more than that, and the interpreter answered


def _probe(x):
    return -x


def _address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


class _Timed(Driver):
    """A driver whose `run` is repeated: `nanoseconds` is what one `bind` and one `run` take (-1: it stopped)."""

    def __init__(self, code: Code, table: Any, bind: int, run: int, plan: int | None, timer: Any) -> None:
        super().__init__(code, table, SimpleNamespace(bind=self._bind, run=self._run))  # type: ignore[arg-type]
        self.bind_address, self.run_address, self.plan, self.timer = bind, run, plan, timer
        self.keep: object = None
        self.repeat = 0
        self.nanoseconds = -1.0

    def _bind(self, _plan: None, frame: Any) -> int:
        from .drive import ENTRY

        return ENTRY(self.bind_address)(self.plan, frame)

    def _run(self, _plan: None, frame: Any) -> int:
        from .drive import ENTRY

        failed = ENTRY(self.run_address)(self.plan, frame)
        if failed:
            return failed
        if not self.repeat:
            once = self.timer(self.run_address, self.plan, frame, 3)
            self.repeat = max(1, min(20_000, int(_ROUND_NS / max(once / 3, 50))))
        taken = self.timer(self.run_address, self.plan, frame, self.repeat)
        binding = self.timer(self.bind_address, self.plan, frame, self.repeat)
        self.nanoseconds = -1.0 if taken < 0 or binding < 0 else (taken + binding) / self.repeat
        return 0
