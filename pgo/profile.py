"""Profiles: read, merge, compare and show what `vm/run/recorder.py` wrote.

A profile counts calls by joint shape, for each function and signature. Merging adds integers, so it is commutative,
associative and weighted, and equal profiles have equal bytes. Files are read one at a time: a merge of thousands
holds one of them and the sum. `merge_profiles(a, b)` is a fold: on a cluster, any reduction tree gives the same bytes.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..vm.errors import PlanError
from ..vm.plan.signature import Row, Signature
from ..vm.run.fitting import covers
from ..vm.run.recorder import PROFILE_VERSION
from .freshness import load_program


@dataclass
class Counts:
    """What was seen of one joint shape: calls, and of `timed` of them the sum of nanoseconds."""

    calls: int = 0
    total_ns: int = 0
    timed: int = 0

    @property
    def mean_ns(self) -> float | None:
        """Mean time of a call, or None where none was timed."""
        return self.total_ns / self.timed if self.timed else None

    def add(self, other: Counts, weight: int = 1) -> None:
        """Add another's counts, weighted."""
        self.calls += weight * other.calls
        self.total_ns += weight * other.total_ns
        self.timed += weight * other.timed


@dataclass
class SignatureProfile:
    """Calls of one signature. shapes: extents in the order of `symbols` -> counts; other: calls of shapes not kept.

    sample: extents and strides at hand when a plan was made (of several files, the first in canonical order).
    """

    signature: Signature
    symbols: tuple[str, ...]
    shapes: dict[tuple[int, ...], Counts] = field(default_factory=dict)
    other: int = 0
    sample: dict[str, int] = field(default_factory=dict)

    @property
    def calls(self) -> int:
        """All calls, those of shapes not kept included."""
        return sum(c.calls for c in self.shapes.values()) + self.other

    def key(self) -> str:
        """Equal for equal signatures (their rows and symbols, as canonical JSON)."""
        return _canonical([self.signature.to_json(), list(self.symbols)])

    def text(self) -> str:
        """`x: float32[2], w: float32[2] frozen`: what a reader wants of the rows."""
        leaves = [row for row in self.signature.rows if row.kind in ("array", "scalar") or _is_setting(row)]
        shown = [_leaf_text(row) for row in leaves[:6]]
        return ", ".join(shown) + (f", and {len(leaves) - 6} more" if len(leaves) > 6 else "")


_DTYPES = {"i": "int", "u": "uint", "f": "float"}


def _is_setting(row: Row) -> bool:
    """A flag, number or word that this signature is bound to."""
    return row.kind == "static" and isinstance(row.value, (bool, int, float, str))


def _leaf_text(row: Row) -> str:
    if row.kind == "static":
        return f"{row.path}={row.value!r}"
    dtype = f"{_DTYPES[row.dtype[0]]}{row.dtype[1:]}" if row.dtype[1:].isdigit() else row.dtype
    if row.kind == "scalar":
        return f"{row.path}: {row.python or dtype}"
    inside = ", ".join(map(str, row.shape)) if row.shape is not None else ", ".join(":" * row.ndim)
    return f"{row.path}: {dtype}[{inside}]" + (" strided" if row.layout == "S" else "") + (
        " frozen" if row.constant else "")


@dataclass
class FunctionProfile:
    """What was seen of one function; digest and msbc are its program's.

    options: those of its decorator that change code; shapes: its `shapes=`; calls: all of them, whatever served them;
    unplanned: calls without a plan, whose shapes are not known.
    """

    qualname: str
    module: str
    digest: str
    msbc: bytes
    options: dict[str, object] = field(default_factory=dict)
    shapes: dict[str, str] = field(default_factory=dict)
    calls: int = 0
    unplanned: int = 0
    signatures: dict[str, SignatureProfile] = field(default_factory=dict)

    @property
    def planned(self) -> int:
        """Calls whose signature is known."""
        return sum(s.calls for s in self.signatures.values())

    def ordered(self) -> list[SignatureProfile]:
        """Signatures, the most called one first."""
        return [s for _, s in sorted(self.signatures.items(), key=lambda item: (-item[1].calls, item[0]))]


@dataclass
class Profile:
    """Qualified name -> function; source: the file it was read from, for messages."""

    functions: dict[str, FunctionProfile] = field(default_factory=dict)
    source: str = ""

    @property
    def calls(self) -> int:
        """All calls."""
        return sum(f.calls for f in self.functions.values())

    def to_bytes(self) -> bytes:
        """The file's bytes: equal profiles have equal bytes, however they came about."""
        functions = {}
        for name, function in self.functions.items():
            signatures = []
            for key in sorted(function.signatures):
                part = function.signatures[key]
                signatures.append({
                    "rows": part.signature.to_json(), "symbols": list(part.symbols), "other": part.other,
                    "sample": part.sample,
                    "shapes": [[*extents, c.calls, c.total_ns, c.timed] for extents, c in sorted(part.shapes.items())]})
            functions[name] = {
                "module": function.module, "digest": function.digest, "options": function.options,
                "shapes": function.shapes, "calls": function.calls, "unplanned": function.unplanned,
                "msbc": base64.b64encode(function.msbc).decode("ascii"), "signatures": signatures}
        return (_canonical({"version": PROFILE_VERSION, "functions": functions}) + "\n").encode("ascii")


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


# --- reading --------------------------------------------------------------------------------------------------------

def read_profile(path: str | os.PathLike[str]) -> Profile:
    """The profile of one file, or of an fsspec URL (`s3://...`). Raises PlanError naming the file and what is wrong."""
    text = os.fspath(path)
    try:
        data = _read_bytes(text)
    except OSError as error:
        raise PlanError(f"{text}: the profile cannot be read ({error.strerror or error})") from error
    return parse_profile(data, text)


def _read_bytes(path: str) -> bytes:
    if "://" not in path:
        return Path(path).read_bytes()
    try:
        import fsspec
    except ImportError as error:
        raise PlanError(f"{path}: reading a URL needs fsspec\n  fix       pip install fsspec, and the file system's "
                        "own package (s3fs, gcsfs, adlfs)") from error
    try:
        with fsspec.open(path, "rb") as file:
            return file.read()
    except (ImportError, ValueError) as error:  # no such protocol here, or its package is missing
        raise PlanError(f"{path}: {error}") from error


def parse_profile(data: bytes, source: str = "profile") -> Profile:
    """The profile of some bytes. Raises PlanError, naming `source`, when they are truncated or of another form."""
    try:
        document = json.loads(data)
    except ValueError as error:
        raise PlanError(f"{source}: not a profile: truncated or damaged JSON ({error})\n"
                        "  fix       record it again, or leave it out of the merge") from error
    if not isinstance(document, dict) or not isinstance(document.get("functions"), dict):
        raise PlanError(f"{source}: not a profile: there is no 'functions' in it")
    if document.get("version") != PROFILE_VERSION:
        raise PlanError(f"{source}: profile version {document.get('version')!r} is not known here\n"
                        f"  found     {document.get('version')!r}\n  expected  {PROFILE_VERSION}")
    profile = Profile(source=source)
    for name, item in document["functions"].items():
        try:
            profile.functions[name] = _function(name, item)
        except (KeyError, TypeError, ValueError, AttributeError, binascii.Error) as error:
            raise PlanError(f"{source}: function '{name}' is damaged ({type(error).__name__}: {error})") from error
    return profile


def _function(name: str, item: Mapping[str, Any]) -> FunctionProfile:
    function = FunctionProfile(
        name, str(item["module"]), str(item["digest"]), base64.b64decode(item["msbc"], validate=True),
        dict(item["options"]), dict(item["shapes"]), int(item["calls"]), int(item["unplanned"]))
    for entry in item["signatures"]:
        part = SignatureProfile(Signature.from_json(entry["rows"]), tuple(entry["symbols"]), other=int(entry["other"]),
                                sample={str(k): int(v) for k, v in entry["sample"].items()})
        for numbers in entry["shapes"]:
            if len(numbers) != len(part.symbols) + 3 or any(type(n) is not int or n < 0 for n in numbers[-3:]):
                raise ValueError(f"shape entry {numbers!r} for symbols {list(part.symbols)}")
            counts = part.shapes.setdefault(tuple(map(int, numbers[:-3])), Counts())
            counts.add(Counts(*numbers[-3:]))
        key = part.key()
        if key in function.signatures:
            _add_signature(function.signatures[key], part, 1)
        else:
            function.signatures[key] = part
    return function


def expand_paths(paths: Iterable[str | os.PathLike[str]]) -> Iterator[str]:
    """Profile files: a folder stands for the `*.json` in it, `path` brings what a killed process left in `path.d/`."""
    for item in paths:
        text = os.fspath(item)
        if "://" in text:
            yield text
        elif os.path.isdir(text):
            yield from sorted(str(p) for p in Path(text).glob("*.json"))
        else:
            shards = sorted(str(p) for p in Path(text + ".d").glob("*.json"))
            if os.path.exists(text) or not shards:
                yield text
            yield from shards


# --- merging --------------------------------------------------------------------------------------------------------

def merge_profiles(first: Profile, second: Profile, weight: int = 1) -> Profile:
    """The sum of two profiles, the second counted `weight` times; neither is changed.

    Raises PlanError where the same name means another program (its digest differs).
    """
    total = Profile(source=first.source or second.source)
    add_profile(total, first)
    add_profile(total, second, weight)
    return total


def merge_paths(paths: Iterable[str | os.PathLike[str]], weights: Sequence[int] | None = None) -> Profile:
    """The sum of profile files (folders and fsspec URLs too), read one at a time. See `merge_profiles`."""
    total = Profile()
    given = list(paths)
    if weights is not None and len(weights) != len(given):
        raise PlanError(f"{len(weights)} weights for {len(given)} profiles")
    for i, item in enumerate(given):
        for path in expand_paths([item]):
            add_profile(total, read_profile(path), weights[i] if weights else 1)
    return total


def add_profile(total: Profile, part: Profile, weight: int = 1) -> None:
    """Add a profile into `total`. Raises PlanError where the same name means another program."""
    if weight < 0:
        raise PlanError(f"a weight is a whole number from 0, not {weight}")
    for name, function in part.functions.items():
        known = total.functions.get(name)
        if known is None:
            known = total.functions[name] = FunctionProfile(name, function.module, function.digest, function.msbc,
                                                            dict(function.options), dict(function.shapes))
            if not total.source:
                total.source = part.source
        elif known.digest != function.digest and not _goes_with(known, function):
            raise PlanError(
                f"'{name}' is another program in {part.source or 'the second profile'}\n"
                f"  found     digest {function.digest[:16]}\n  expected  digest {known.digest[:16]} (as in "
                f"{total.source or 'the first profile'})\n"
                "  effect    nothing was merged: shapes of one version say nothing sure about another\n"
                "  fix       merge profiles of one version of the source; record again after a change. Where the "
                "processes called other layers or functions, record one that calls them all")
        known.calls += weight * function.calls
        known.unplanned += weight * function.unplanned
        for key, signature in function.signatures.items():
            mine = known.signatures.get(key)
            if mine is None:
                mine = known.signatures[key] = SignatureProfile(signature.signature, signature.symbols)
            _add_signature(mine, signature, weight)


def _goes_with(known: FunctionProfile, other: FunctionProfile) -> bool:
    """Whether one of two programs of a function was made for the objects that the other one calls, too; `known` keeps it."""
    try:
        ours, theirs = (load_program(f.msbc, f.digest, f"function '{f.qualname}' of the profile") for f in (known, other))
    except PlanError:
        return False
    if covers(theirs, ours):
        known.digest, known.msbc = other.digest, other.msbc
        return True
    return covers(ours, theirs)


def _add_signature(total: SignatureProfile, part: SignatureProfile, weight: int) -> None:
    total.other += weight * part.other
    if part.sample:  # the least, not the last: the order of files must not matter
        total.sample = min(total.sample or part.sample, part.sample, key=_canonical)
    for extents, counts in part.shapes.items():
        total.shapes.setdefault(extents, Counts()).add(counts, weight)


# --- comparing ------------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Difference:
    """How one function's calls differ between two profiles. overlap: shared probability mass, 0.0 to 1.0."""

    qualname: str
    calls: tuple[int, int]
    overlap: float
    note: str = ""
    changed: tuple[tuple[str, float, float], ...] = ()  # (shape, share before, share after), largest change first


def compare_profiles(first: Profile, second: Profile) -> list[Difference]:
    """Differences function by function, by name. Source: overlap as in `llvm-profdata overlap`, sum of min(p, q)."""
    found = []
    for name in sorted(first.functions.keys() | second.functions.keys()):
        a, b = first.functions.get(name), second.functions.get(name)
        calls = (a.calls if a else 0, b.calls if b else 0)
        if a is None or b is None:
            found.append(Difference(name, calls, 0.0, "only in the second" if a is None else "only in the first"))
            continue
        if a.digest != b.digest:
            found.append(Difference(name, calls, 0.0, "another program (digests differ)"))
            continue
        constant = {key: constant_symbols(*(f.signatures[key] for f in (a, b) if key in f.signatures))
                    for key in a.signatures.keys() | b.signatures.keys()}
        p, q = _shares(a, constant), _shares(b, constant)
        overlap = sum(min(p.get(k, 0.0), q.get(k, 0.0)) for k in sorted(p.keys() | q.keys()))
        moved = sorted(p.keys() | q.keys(), key=lambda k: (-abs(p.get(k, 0.0) - q.get(k, 0.0)), k))
        changed = tuple((k[1], p.get(k, 0.0), q.get(k, 0.0)) for k in moved if p.get(k) != q.get(k))
        found.append(Difference(name, calls, overlap, "", changed))
    return found


def overlap_of(differences: Sequence[Difference]) -> float:
    """Overlap over all functions, each weighted by its share of the calls in both."""
    weights = [sum(d.calls) for d in differences]
    total = sum(weights)
    return sum(w * d.overlap for w, d in zip(weights, differences, strict=True)) / total if total else 0.0


def _shares(function: FunctionProfile, constant: Mapping[str, Collection[str]]) -> dict[tuple[str, str], float]:
    total = function.calls or 1
    shares: dict[tuple[str, str], float] = {}
    for key, signature in function.signatures.items():
        for extents, counts in signature.shapes.items():
            text = shape_text(signature, extents, constant[key])
            shares[key, text] = shares.get((key, text), 0.0) + counts.calls / total  # strides are not in the text
        if signature.other:
            shares[key, "(shapes not kept)"] = signature.other / total
    return shares


# --- showing --------------------------------------------------------------------------------------------------------

def shape_text(signature: SignatureProfile, extents: Sequence[int], constant: Collection[str] = ()) -> str:
    """`x(32, 784) w(784, 10) n=3`: extents gathered by array; strides are left out.

    constant: symbols that are the same on every line. Arrays that hold no others are left out, unless nothing would stay.
    """
    arrays: dict[str, list[str]] = {}
    shown: set[str] = set()
    for symbol, extent in zip(signature.symbols, extents, strict=True):
        path, mark, _ = symbol.rpartition(".shape[")
        if mark:
            arrays.setdefault(path, []).append(str(extent))
        elif ".strides[" not in symbol:
            path = f"{symbol}={extent}"
            arrays.setdefault(path, [])
        if symbol not in constant:
            shown.add(path)
    wanted = [path for path in arrays if path in shown] or list(arrays)
    return " ".join(f"{path}({', '.join(arrays[path])})" if arrays[path] else path for path in wanted)


def constant_symbols(*signatures: SignatureProfile) -> dict[str, int]:
    """Symbol -> extent, of those that are the same in every shape of some profiles of one signature."""
    rows = [extents for signature in signatures for extents in signature.shapes]
    return {symbol: column[0] for symbol, *column in zip(signatures[0].symbols, *rows, strict=True)
            if column and len(set(column)) == 1}


def _always(signature: SignatureProfile, constant: Collection[str]) -> str:
    """The arrays and numbers that `shape_text` leaves out, as it writes them; '' for none."""
    paths = {s: s.rpartition(".shape[")[0] or s for s in signature.symbols if ".strides[" not in s}
    varying = {path for symbol, path in paths.items() if symbol not in constant}
    if not varying or varying == set(paths.values()):
        return ""
    return shape_text(signature, next(iter(signature.shapes)), [s for s, path in paths.items() if path in varying])


def show_profile(profile: Profile, top: int = 10) -> str:
    """A text for people: functions, signatures, and the commonest shapes with counts and mean times."""
    lines = []
    for name in sorted(profile.functions):
        function = profile.functions[name]
        lines.append(f"{name}  {function.calls:,} calls, digest {function.digest[:16]}")
        for signature in function.ordered():
            lines.append(f"  ({signature.text()})  {signature.calls:,} calls, {len(signature.shapes):,} shapes")
            constant = constant_symbols(signature)
            always = _always(signature, constant)
            if always:
                lines.append(f"    in every shape: {always}")
            ranked = sorted(signature.shapes.items(), key=lambda item: (-item[1].calls, item[0]))
            for extents, counts in ranked[:top]:
                mean = f"{counts.mean_ns / 1e3:10.1f} us" if counts.mean_ns is not None else " " * 13
                share = 100 * counts.calls / max(signature.calls, 1)
                lines.append(f"    {counts.calls:>10,}  {share:5.1f}% {mean}  {shape_text(signature, extents, constant)}")
            rest = len(ranked) - top
            if rest > 0:
                lines.append(f"    {sum(c.calls for _, c in ranked[top:]):>10,}  in {rest:,} more shapes")
            if signature.other:
                lines.append(f"    {signature.other:>10,}  in rare shapes that the recorder counted but did not keep")
        if function.unplanned:
            lines.append(f"  {function.unplanned:>12,}  without a plan (interpreter or original function)")
    return "\n".join(lines) or "the profile is empty"


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that no reader ever sees half of it (`-` writes to standard output)."""
    if os.fspath(path) == "-":
        sys.stdout.buffer.write(data)
        return
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
