"""What the editor of a `buckets.yaml` changed since planning wrote it, so that planning again leaves it alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..vm.errors import PrebakeError
from .buckets import Candidate, Group
from .groups import FunctionPlan
from .schema import Bucket, BucketsFile, FunctionBuckets, Recordings, extent_text


def bucket_key(bucket: Bucket, symbols: Mapping[str, Sequence[str]]) -> str:
    """What tells a bucket from others, whatever its symbols are called: `0 {x.shape[0]: [1, 32], x.shape[1]: 128}`."""
    return _key(bucket.signature, {name: extent_text(span) for name, span in bucket.extents.items()}, symbols)


def candidate_key(groups: Sequence[Group], candidate: Candidate, functions: Mapping[str, FunctionPlan]) -> str:
    """The key of the bucket that a candidate would become."""
    group = groups[candidate.group]
    return bucket_key(Bucket(candidate.box, group.signature), functions[group.function].symbols)


def shown(key: str, symbols: Mapping[str, Sequence[str]]) -> str:
    """A key as the file writes buckets, with short names."""
    names = {symbol: name for name, tied in symbols.items() for symbol in tied}
    number, extents = _parts(key)
    words = [f"{names.get(s, s)}: {text}" for s, text in extents.items()] + ([f"signature: {number}"] if number else [])
    return "{" + ", ".join(words) + "}"


def _key(number: int, extents: Mapping[str, str], symbols: Mapping[str, Sequence[str]]) -> str:
    named = sorted((symbols[name][0] if symbols.get(name) else name, text) for name, text in extents.items())
    return f"{number} {{" + ", ".join(f"{symbol}: {text}" for symbol, text in named) + "}"


def _parts(key: str) -> tuple[int, dict[str, str]]:
    """Signature number and extents of a key; also of one with short names, as earlier versions wrote them."""
    number, _, rest = key.partition(" ")
    return int(number), dict(_EXTENT.findall(rest))


_EXTENT = re.compile(r"([^{},\s][^{},]*): (\[[^\]]*\]|-?\d+)")


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


def dropped_buckets(earlier: BucketsFile, old: FunctionBuckets, function: FunctionPlan) -> tuple[str, ...]:
    """Buckets that planning wrote once and that are gone from the file, by key: the editor does not want them."""
    side = _side(earlier, old)
    if side is None:
        return ()
    present = {bucket_key(b, old.symbols) for b in old.buckets}
    numbers = _renumber(side, function)
    gone = {_key(*_parts(key), old.symbols) for key in (*side.planned, *side.dropped)} - present
    return tuple(sorted(_key(numbers[number], extents, {}) for number, extents in map(_parts, gone) if number in numbers))


def bucket_comments(earlier: BucketsFile | None, old: FunctionBuckets,
                    function: FunctionPlan) -> dict[str, tuple[tuple[str, ...], str]]:
    """Key -> the reader's comments above and behind a bucket of the earlier file."""
    numbers = _renumber(_side(earlier, old) if earlier is not None else None, function)
    return {bucket_key(replace(b, signature=numbers.get(b.signature, b.signature)), old.symbols): (b.comments, b.tail)
            for b in old.buckets}


def kept_buckets(functions: Mapping[str, FunctionPlan], groups: Sequence[Group], before: Mapping[str, FunctionBuckets],
          earlier: BucketsFile | None) -> tuple[list[Candidate], dict[str, list[Bucket]]]:
    """Buckets marked `keep`, or edited since planning wrote them; as candidates (for the limits) and as they stand."""
    candidates: list[Candidate] = []
    buckets: dict[str, list[Bucket]] = {}
    for name, old in before.items():
        if name not in functions or earlier is None:
            continue
        side = _side(earlier, old)
        written = {_key(*_parts(key), old.symbols) for key in side.planned} if side else set()
        numbers = _renumber(side, functions[name])
        known = known_symbols(old, functions[name])
        for bucket in old.buckets:
            if not bucket.keep and bucket_key(bucket, old.symbols) in written:
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
