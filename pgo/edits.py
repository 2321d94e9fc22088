"""What the editor of a `buckets.yaml` changed since planning wrote it, so that planning again leaves it alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..vm.errors import PrebakeError
from .buckets import Candidate, Group
from .groups import FunctionPlan
from .schema import Bucket, BucketsFile, FunctionBuckets, Recordings


def bucket_key(bucket: Bucket) -> str:
    return f"{bucket.signature} {bucket.text()}"


def candidate_key(groups: Sequence[Group], candidate: Candidate) -> str:
    return f"{groups[candidate.group].signature} {candidate.text()}"


def _side(earlier: BucketsFile, function: FunctionBuckets) -> Recordings | None:
    """What lies beside the earlier file. Raises ConfigError for symbols and signatures that it does not know."""
    try:
        found = earlier.load_recordings(replace(function, symbols={}, buckets=()))
    except PrebakeError:
        return None  # the folder was lost: every bucket of the file counts as the editor's own
    earlier.load_recordings(function)
    return found


def known_symbols(old: FunctionBuckets, function: FunctionPlan) -> dict[str, tuple[str, ...]]:
    """The earlier file's names, of those symbols that the new profile has too."""
    recorded = {symbol for s in function.signatures for symbol in (*s.symbols, *s.sample)}
    kept = {name: tuple(s for s in symbols if s in recorded) for name, symbols in old.symbols.items()}
    return {name: symbols for name, symbols in kept.items() if symbols}


def dropped_buckets(earlier: BucketsFile, function: FunctionBuckets) -> tuple[str, ...]:
    """Buckets that planning wrote once and that are gone from the file: the editor does not want them."""
    side = _side(earlier, function)
    if side is None:
        return ()
    present = {bucket_key(b) for b in function.buckets}
    return tuple(sorted((set(side.planned) | set(side.dropped)) - present))


def kept_buckets(functions: Mapping[str, FunctionPlan], groups: Sequence[Group], before: Mapping[str, FunctionBuckets],
          earlier: BucketsFile | None) -> tuple[list[Candidate], dict[str, list[Bucket]]]:
    """Buckets marked `keep`, or edited since planning wrote them; as candidates (for the limits) and as they stand."""
    candidates: list[Candidate] = []
    buckets: dict[str, list[Bucket]] = {}
    for name, old in before.items():
        if name not in functions or earlier is None:
            continue
        side = _side(earlier, old)
        written = set(side.planned) if side else set()
        numbers = _renumber(side, functions[name])
        known = known_symbols(old, functions[name])
        for bucket in old.buckets:
            if not bucket.keep and bucket_key(bucket) in written:
                continue
            if any(n not in known for n in bucket.extents):
                continue  # of a signature that is not recorded any more: nothing could keep its limits
            bucket = replace(bucket, keep=True, signature=numbers.get(bucket.signature, 0), gain=None)
            buckets.setdefault(name, []).append(bucket)
            mine = [i for i, g in enumerate(groups) if g.function == name and g.signature == bucket.signature]
            best = max(mine, key=lambda i: sum(p.calls for p in groups[i].points if bucket.holds(groups[i].values(p))),
                       default=None)
            if best is not None:
                group = groups[best]
                inside = tuple(i for i, p in enumerate(group.points) if bucket.holds(group.values(p)))
                fixed = tuple(n for n, (lo, hi) in bucket.extents.items() if lo == hi)
                candidates.append(Candidate(best, dict(bucket.extents), inside, fixed))
    return candidates, buckets


def _renumber(side: Recordings | None, function: FunctionPlan) -> dict[int, int]:
    """Signature numbers of the earlier file -> numbers now (they are sorted by calls, which change)."""
    now = {repr(s.signature.to_json()): i for i, s in enumerate(function.signatures)}
    found = {i: now.get(repr(s.signature.to_json()), i) for i, s in enumerate(side.signatures)} if side else {}
    return {i: number for i, number in found.items() if number < len(function.signatures)}
