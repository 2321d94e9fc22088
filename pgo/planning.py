"""`plan`: a profile becomes `buckets.yaml` and what lies beside it; hand edits of an earlier file survive."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..vm.errors import PlanError
from .buckets import (
    Candidate,
    CostModel,
    Group,
    Limits,
    PriorModel,
    Selection,
    by_priority,
    choose_kernels,
    default_kernels,
    propose,
)
from .buckets_text import dump_buckets, read_buckets
from .decisions import decisions
from .edges import branch_edges
from .edits import bucket_comments, bucket_key, candidate_key, dropped_buckets, kept_buckets, known_symbols, shown
from .freshness import load_program, project_roots, source_state
from .groups import FunctionPlan, make_groups
from .naming import name_symbols
from .profile import FunctionProfile, Profile, SignatureProfile, merge_paths, write_atomically
from .schema import Bucket, BucketsFile, FunctionBuckets, Gain, RecordedSignature, Recordings, file_stem, programs_folder

_KEPT_SHAPES = 64  # representative shapes that are written beside the file


class NotMeasured(Exception):
    """Candidates could not be timed; the text says why, and the cost model's prior decides."""


@dataclass(repr=False)
class Planned:
    """What `plan` answers: the file's content, where it was written (None: nowhere), and how the choice came about."""

    config: BucketsFile
    text: str
    recordings: dict[str, Recordings]
    programs: dict[str, bytes]
    functions: dict[str, FunctionPlan]
    groups: list[Group]
    selection: Selection
    calls: int
    path: Path | None = None
    measured: bool = False
    notes: tuple[str, ...] = ()

    @property
    def hit_rate(self) -> float:
        """Share of all recorded calls that the kernels would have served."""
        return self.selection.served_calls / self.calls if self.calls else 0.0

    def __repr__(self) -> str:
        """A line; `summary()` says more."""
        place = f"written to {os.fspath(self.path)!r}" if self.path is not None else "not written"
        return (f"<prebake.Planned {len(self.functions)} functions, {len(self.selection.choices)} kernels, hit rate "
                f"{100 * self.hit_rate:.1f}%, {place}>")

    def __fspath__(self) -> str:
        if self.path is None:
            raise TypeError("these buckets were not written: give plan(...) an output path, or call write(path)")
        return str(self.path)

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the YAML, and beside it the programs and recordings; returns the YAML's path."""
        target = Path(path)
        folder = programs_folder(target)
        for name, data in self.programs.items():
            write_atomically(folder / f"{file_stem(name)}.msbc", data)
            write_atomically(folder / f"{file_stem(name)}.signatures.json", self.recordings[name].to_bytes())
        write_atomically(target, self.text.encode())
        self.path = target
        return target

    def summary(self) -> str:
        """What the command prints: kernels, predicted hit rate, what the next kernel would buy."""
        chosen, total = self.selection, max(self.calls, 1)
        lines = [f"kernels: {len(chosen.choices)}, functions: {len(self.functions)}, recorded calls: {self.calls:,}"]
        for choice in sorted(chosen.choices, key=lambda c: -c.saving_ns):
            group = self.groups[choice.candidate.group]
            wider = f"{choice.over_wider:.2f}x the next wider, " if choice.candidate.fixed else ""
            lines.append(f"  {group.function} {choice.candidate.text()}  {100 * choice.calls / total:.1f}% of calls, "
                         f"{wider}{choice.over_tape:.2f}x the tape")
        lines.append(f"predicted hit rate {100 * self.hit_rate:.1f}%, expected time "
                     f"{100 * chosen.expected_ns / (chosen.tape_ns or 1):.1f}% of the tape's"
                     f" ({'measured here' if self.measured else 'by the cost model, not measured'})")
        if chosen.next_choice is not None:
            extra = chosen.next_choice
            lines.append(f"the next kernel, {self.groups[extra.candidate.group].function} {extra.candidate.text()}, "
                         f"would save another {100 * extra.saving_ns / (chosen.tape_ns or 1):.2f}% of the time")
        else:
            lines.append("no further kernel would gain anything")
        return "\n".join([*lines, *self.notes])


Measure = Callable[["Sequence[FunctionPlan]", Sequence[Group], Sequence[Candidate]], CostModel]


def plan(profile: object, output: str | os.PathLike[str] | None = None, *, max_kernels: int | None = None,
         limits: Limits | None = None, measure: Measure | None = None, allow_stale: bool = False) -> Planned:
    """Choose the kernels worth building and, with an output path, write `buckets.yaml` and its folder.

    profile: a path, several of them (merged), or a Profile. measure: times candidates (see pgo/measure.py); without it
    the cost model's prior decides and no gains are stated. Raises PlanError for an empty profile, for one of another
    program, and for limits that cannot hold.
    """
    seen = _read(profile)
    limits = limits or Limits()
    if max_kernels is not None:
        limits = replace(limits, max_kernels=max_kernels)
    elif limits.max_kernels is None:
        limits = replace(limits, max_kernels=default_kernels(len(seen.functions)))
    earlier = read_buckets(output) if output is not None and Path(output).exists() else None
    before = {f.qualname: f for f in earlier.functions} if earlier else {}
    roots = None if allow_stale else project_roots(Path(output).parent if output is not None else ".")
    functions = {name: _prepare(seen.functions[name], before.get(name), roots) for name in sorted(seen.functions)}
    groups = [g for f in functions.values() for g in make_groups(f)]
    dropped = {name: dropped_buckets(earlier, before[name], function) for name, function in functions.items()
               if name in before} if earlier else {}
    kept, edited = kept_buckets(functions, groups, before, earlier)
    candidates = [c for c in propose(groups)
                  if candidate_key(groups, c, functions) not in dropped.get(groups[c.group].function, ())]
    model, why = None, ""
    if measure is not None and candidates:
        try:
            model = measure(list(functions.values()), groups, candidates)
        except NotMeasured as error:
            why = f"not measured: {error}"
    selection = choose_kernels(groups, candidates, model or PriorModel(), limits, kept)
    spreads = getattr(model, "spreads", {})
    decided = {name: decisions(name, groups, candidates, selection, limits, spreads) for name in functions}
    return _assemble(seen, functions, groups, selection, edited, before, earlier, dropped, output, decided,
                     measured=model is not None, why=why)


def _read(profile: object) -> Profile:
    if isinstance(profile, Profile):
        seen = profile
    elif isinstance(profile, (str, os.PathLike)):
        seen = merge_paths([profile])
    elif isinstance(profile, Iterable):
        seen = merge_paths(profile)
    else:
        raise TypeError(f"a profile is a path, a list of paths or a Profile, not {type(profile).__name__}")
    if not any(f.calls for f in seen.functions.values()):
        raise PlanError(f"{seen.source or 'the profile'}: no call was recorded\n  fix       run the warm-up under "
                        "`prebake profile -o profile.json -- COMMAND`, or with PREBAKE_PROFILE set")
    return seen


def _prepare(seen: FunctionProfile, before: FunctionBuckets | None, roots: Sequence[Path] | None) -> FunctionPlan:
    """The function with its program checked; roots: where sources are looked for too (None: staleness is allowed)."""
    program = load_program(seen.msbc, seen.digest, f"function '{seen.qualname}' of the profile")
    stale = () if roots is None else source_state(program, roots).stale
    if stale:
        raise PlanError(f"the profile is of another program: '{seen.qualname}' has changed since it was recorded\n"
                        + "\n".join(f"  changed   {line}" for line in stale)
                        + "\n  fix       record the profile again, or pass --allow-stale")
    made = FunctionPlan(seen, program, name_symbols(seen, before.symbols if before else None), seen.ordered())
    made.edges = branch_edges(program)
    made.options = {**seen.options, **(before.options if before else {})}
    return made


# --- assembling -------------------------------------------------------------------------------------------------------

def _assemble(seen: Profile, functions: dict[str, FunctionPlan], groups: list[Group], selection: Selection,
              kept: Mapping[str, list[Bucket]], before: Mapping[str, FunctionBuckets], earlier: BucketsFile | None,
              dropped: Mapping[str, tuple[str, ...]], output: str | os.PathLike[str] | None, decided: Mapping[str, list[str]], *,
              measured: bool, why: str) -> Planned:
    n_kept = sum(map(len, kept.values()))
    fresh = by_priority(c for c in selection.choices if not _is_kept(groups, c.candidate, kept, functions))
    recordings: dict[str, Recordings] = {}
    parts: list[FunctionBuckets] = []
    yaml_notes: dict[str, list[str]] = {"": [
        "written by `prebake plan`; edit as you like: what you change is kept when it is planned again",
        "kernels are tried in this order; a range is run-time extents, both ends included"]}
    notes = [why] if why else []
    for name, function in functions.items():
        old = before.get(name, FunctionBuckets(name))
        comments = bucket_comments(earlier, old, function)
        planned = []
        for choice in fresh:
            group = groups[choice.candidate.group]
            if group.function != name:
                continue
            gain = Gain(round(choice.over_wider, 2) if choice.candidate.fixed else 0.0,
                        round(choice.over_tape, 2)) if measured else None
            bucket = Bucket(choice.candidate.box, group.signature, gain=gain)
            above, tail = comments.get(bucket_key(bucket, function.symbols), ((), ""))
            planned.append(replace(bucket, comments=above, tail=tail))
        buckets = _in_order(kept.get(name, ()), planned)
        used = {n for b in buckets for n in b.extents} | set(old.symbols)
        symbols = {n: s for n, s in function.symbols.items() if n in used}
        symbols |= {n: s for n, s in known_symbols(old, function).items() if n not in symbols}
        parts.append(FunctionBuckets(name, symbols, function.options, buckets, old.comments,
                                     remarks=old.remarks))
        yaml_notes[name] = _function_notes(function, groups, selection) + decided[name]
        notes += [f"{name}: {line}" for line in decided[name] if line.startswith("no kernel covers")]
        for number, reason in sorted(function.refused.items()):
            notes.append(f"{name} ({function.signatures[number].text()}): left to the interpreter: {reason}")
        if function.profile.unplanned:
            notes.append(f"{name}: {function.profile.unplanned:,} calls are in no plan, so no kernel covers them: the "
                         "interpreter or the original function ran, or a program for objects of which the recorded one has no "
                         "code (another class of self, too many functions that objects hold); fn.explain(...) of such a call "
                         "tells")
        if dropped.get(name):
            notes.append(f"{name}: not planned again, since they were removed by hand: "
                         + ", ".join(shown(key, function.symbols) for key in dropped[name]))
        recordings[name] = replace(recordings_of(function),
                                   planned=tuple(bucket_key(b, function.symbols) for b in planned), dropped=dropped.get(name, ()))
    for name, old in before.items():
        if name not in functions:
            parts.append(old)
            notes.append(f"{name}: not in the profile, left as it was")
    if n_kept:
        notes.append(f"{n_kept} buckets edited by hand were kept as they are")
    path = Path(output) if output is not None else Path("buckets.yaml")
    config = BucketsFile(path, tuple(sorted(parts, key=lambda f: f.qualname)),
                         comments=earlier.comments if earlier else (), remarks=earlier.remarks if earlier else {})
    planned_file = Planned(config, dump_buckets(config, yaml_notes), recordings,
                           {n: f.profile.msbc for n, f in functions.items()}, functions, groups, selection, seen.calls,
                           measured=measured, notes=tuple(notes))
    if output is not None:
        planned_file.write(output)
    return planned_file


def _in_order(kept: Sequence[Bucket], planned: Sequence[Bucket]) -> tuple[Bucket, ...]:
    """Kept buckets first, in their own order, but behind the planned ones that they would hide."""
    found: list[Bucket] = []
    left = list(planned)
    for bucket in kept:
        found += [p for p in left if bucket.covers(p)]
        left = [p for p in left if not bucket.covers(p)]
        found.append(bucket)
    return (*found, *left)


def _is_kept(groups: Sequence[Group], candidate: Candidate, kept: Mapping[str, list[Bucket]],
             functions: Mapping[str, FunctionPlan]) -> bool:
    mine = kept.get(groups[candidate.group].function, ())
    key = candidate_key(groups, candidate, functions)
    return any(bucket_key(bucket, functions[groups[candidate.group].function].symbols) == key for bucket in mine)


def _function_notes(function: FunctionPlan, groups: Sequence[Group], selection: Selection) -> list[str]:
    name = function.profile.qualname
    notes = [f"{function.profile.calls:,} calls recorded"]
    extra = selection.next_choice
    if extra is not None and groups[extra.candidate.group].function == name:
        notes.append(f"the next kernel would be {extra.candidate.text()}")
    edges = sorted(f"{n} at {e}" for n, s in function.symbols.items() for symbol in s
                   for e in function.edges.get(symbol, ()))
    if edges:
        notes.append("branches change: " + ", ".join(dict.fromkeys(edges)))
    return notes


def recordings_of(function: FunctionPlan) -> Recordings:
    """What the profile said of a function, in the form that lies beside the YAML."""
    seen = function.profile
    return Recordings(seen.qualname, seen.digest, tuple(map(recorded_signature, function.signatures)), seen.options,
                      seen.shapes)


def recorded_signature(signature: SignatureProfile) -> RecordedSignature:
    """The signature with its commonest shapes, and the least and greatest along each symbol."""
    ranked = sorted(signature.shapes, key=lambda e: (-signature.shapes[e].calls, e))
    chosen = set(ranked[:_KEPT_SHAPES])
    for axis in range(len(signature.symbols)):
        for pick in (min, max):
            if ranked:
                chosen.add(pick(ranked, key=lambda e: (e[axis], e)))
    shapes = tuple((e, signature.shapes[e].calls) for e in ranked if e in chosen)
    return RecordedSignature(signature.signature, signature.symbols, shapes, signature.sample)
