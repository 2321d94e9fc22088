"""`buckets.yaml` in memory, and what lies beside the file; `buckets_text.py` reads and writes its text.

The file (see docs/buckets.md):

    version: 1
    functions:
      "models.risk:score":
        symbols: {b: "x.shape[0]", d: ["x.shape[1]", "w.shape[0]"]}   # short name -> symbol, or symbols that are equal
        options: {disable_fusions: [row_softmax]}                      # keys of vm/options.py
        buckets:
          - {b: [1, 32], d: 128}                                       # ranged: lo..hi inclusive; exact: one number
          - {b: [33, inf], d: 128, signature: 1, keep: true, gain: {wider: 1.3, tape: 1.6}}

A bucket that does not name a symbol leaves it free. `signature` is an index into the recorded signatures (0 when left
out), `keep: true` makes re-planning leave the bucket alone, `gain` is what planning measured (noted in the bundle).

Beside `NAME.yaml` lies the folder `NAME.msbc/`, committed with it, so that a build imports no user code. For each
function, with STEM = `file_stem(qualname)`:

    STEM.msbc              the program
    STEM.signatures.json   {"version": 1, "function": qualname, "digest": the program's digest,
                            "options": decorated options that change code, "shapes": {parameter: "b d"},
                            "planned": [buckets that planning wrote, by symbol: others are hand edits], "dropped": [...],
                            "signatures": [{"rows": [...], "symbols": [...], "sample": {symbol: extent or stride},
                                            "shapes": [[extents..., calls], ...]}, ...]}

What a build asks of it:

    config = read_buckets("buckets.yaml")
    for function in config.functions:
        program_bytes = config.load_program(function)
        recordings = config.load_recordings(function)              # .digest .options .shapes .signatures
        for bucket in function.buckets:
            recorded = recordings.signatures[bucket.signature]
            plan_recorded(program, recorded.signature, function.sample(bucket, recorded))
            function.bounds(bucket)                                # {"x.shape[0]": (1, 32), ...}; hi may be UNBOUNDED
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..vm.errors import ConfigError
from ..vm.plan.signature import Signature
from .remarks import Remark

SCHEMA_VERSION = 1
UNBOUNDED = 2**62  # `inf` in the file; larger than any extent of a real array
SIDE_VERSION = 1

# Words that a bucket uses for itself, so no short name may be one of them.
BUCKET_WORDS = ("signature", "keep", "gain")


@dataclass(frozen=True)
class Gain:
    """Measured speed-up (2.0 is twice as fast) over the next wider kernel and over the tape; 0.0 where not measured."""

    wider: float = 0.0
    tape: float = 0.0


@dataclass(frozen=True)
class Bucket:
    """The extents one kernel serves: short name -> (lo, hi), both inclusive, exact where they are equal.

    comments: the reader's own lines above it and `tail` behind it, without `#`; kept when the file is written again.
    """

    extents: Mapping[str, tuple[int, int]]
    signature: int = 0
    keep: bool = False
    gain: Gain | None = None
    comments: tuple[str, ...] = ()
    tail: str = ""
    line: int = 0

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether extents (by short name) lie inside; names that `values` lacks are taken as inside."""
        return all(lo <= values.get(name, lo) <= hi for name, (lo, hi) in self.extents.items())

    def covers(self, other: Bucket) -> bool:
        """Whether each call that the other takes is one that this takes, so that behind this it is never reached."""
        if self.signature != other.signature:
            return False
        free = (1 - UNBOUNDED, UNBOUNDED)
        return all(lo <= other.extents.get(name, free)[0] and other.extents.get(name, free)[1] <= hi
                   for name, (lo, hi) in self.extents.items())

    def text(self) -> str:
        """The bucket as it stands in the file, without its words: `{b: [1, 32], d: 128}`."""
        return "{" + ", ".join(f"{name}: {extent_text(span)}" for name, span in self.extents.items()) + "}"


def extent_text(span: tuple[int, int]) -> str:
    """`128`, `[1, 32]` or `[33, inf]`."""
    lo, hi = span
    return str(lo) if lo == hi else f"[{lo}, {'inf' if hi >= UNBOUNDED else hi}]"


@dataclass(frozen=True)
class RecordedSignature:
    """A signature as a profile saw it: rows, the symbols in order, and representative shapes with their counts.

    sample: extents and strides at hand when the profile was recorded.
    """

    signature: Signature
    symbols: tuple[str, ...]
    shapes: tuple[tuple[tuple[int, ...], int], ...]
    sample: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """The dictionary that `from_json` reads."""
        return {"rows": self.signature.to_json(), "symbols": list(self.symbols), "sample": dict(self.sample),
                "shapes": [[*extents, count] for extents, count in self.shapes]}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> RecordedSignature:
        """The recorded signature of a dictionary. Raises ValueError on anything that `to_json` did not write."""
        try:
            symbols = tuple(str(s) for s in data["symbols"])  # type: ignore[attr-defined]
            shapes = []
            for item in data["shapes"]:  # type: ignore[attr-defined]
                *extents, count = (int(v) for v in item)
                if len(extents) != len(symbols):
                    raise ValueError(f"a shape has {len(extents)} extents for {len(symbols)} symbols")
                shapes.append((tuple(extents), count))
            sample = {str(k): int(v) for k, v in data["sample"].items()}  # type: ignore[attr-defined]
            return cls(Signature.from_json(data["rows"]), symbols, tuple(shapes), sample)  # type: ignore[arg-type]
        except (KeyError, TypeError) as error:
            raise ValueError(f"recorded signature: {error}") from error


@dataclass(frozen=True)
class Recordings:
    """`STEM.signatures.json`: what a profile said of one function, beside its buckets.

    planned: the buckets that planning wrote, `0 {x.shape[0]: [1, 32]}` by signature and symbols; dropped: those that were
    removed by hand.
    """

    function: str
    digest: str
    signatures: tuple[RecordedSignature, ...]
    options: Mapping[str, object] = field(default_factory=dict)
    shapes: Mapping[str, str] = field(default_factory=dict)
    planned: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """The file's bytes, one signature a line so that a difference is readable."""
        head = {"version": SIDE_VERSION, "function": self.function, "digest": self.digest,
                "options": dict(self.options), "shapes": dict(self.shapes), "planned": list(self.planned),
                "dropped": list(self.dropped)}
        parts = [json.dumps(s.to_json(), sort_keys=True, separators=(",", ":")) for s in self.signatures]
        return (json.dumps(head, sort_keys=True)[:-1] + ', "signatures": [\n' + ",\n".join(parts) + "\n]}\n").encode()

    @classmethod
    def from_bytes(cls, data: bytes, qualname: str) -> Recordings:
        """The recordings in these bytes. Raises ValueError when they are damaged or another function's."""
        try:
            item = json.loads(data)
            if item["version"] != SIDE_VERSION or item["function"] != qualname:
                raise ValueError(f"version {item['version']} of {item['function']!r}, not version {SIDE_VERSION} "
                                 f"of {qualname!r}")
            return cls(qualname, str(item["digest"]), tuple(map(RecordedSignature.from_json, item["signatures"])),
                       dict(item["options"]), dict(item["shapes"]), tuple(item["planned"]), tuple(item["dropped"]))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class FunctionBuckets:
    """One function's part of the file. symbols: short name -> symbols it stands for (equal in every recorded call).

    comments: the reader's own above it; remarks: those of its name ("") and of its entries.
    places: symbol -> line and column where the file names it.
    """

    qualname: str
    symbols: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    buckets: tuple[Bucket, ...] = ()
    comments: tuple[str, ...] = ()
    line: int = 0
    remarks: Mapping[str, Remark] = field(default_factory=dict)
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict, compare=False)

    def bounds(self, bucket: Bucket) -> dict[str, tuple[int, int]]:
        """Symbol ("x.shape[0]") -> (lo, hi) for every symbol that the bucket limits."""
        return {symbol: span for name, span in bucket.extents.items() for symbol in self.symbols[name]}

    def unreachable(self) -> list[tuple[Bucket, Bucket]]:
        """(bucket, an earlier one that takes all of its calls), in the file's order."""
        found = []
        for i, bucket in enumerate(self.buckets):
            earlier = next((b for b in self.buckets[:i] if b.covers(bucket)), None)
            if earlier is not None:
                found.append((bucket, earlier))
        return found

    def sample(self, bucket: Bucket, recorded: RecordedSignature) -> dict[str, int]:
        """Extents inside the bucket for every symbol of the signature: the commonest recorded shape that lies in it.

        Where none does (a bucket written by hand), the commonest shape of all with the bucket's limits applied.
        """
        bounds = self.bounds(bucket)
        ranked = sorted(recorded.shapes, key=lambda shape: (-shape[1], shape[0]))
        values = dict(recorded.sample)
        for extents, _ in ranked:
            values.update(zip(recorded.symbols, extents, strict=True))
            if all(lo <= values.get(symbol, lo) <= hi for symbol, (lo, hi) in bounds.items()):
                return values
        if ranked:
            values.update(zip(recorded.symbols, ranked[0][0], strict=True))
        for symbol, (lo, hi) in bounds.items():
            if symbol in values:
                values[symbol] = min(max(values[symbol], lo), hi)
        return values


@dataclass(frozen=True)
class BucketsFile:
    """The whole file. path: where it was read from (its folder `NAME.msbc/` lies beside it).

    comments: the reader's own at its top; remarks: those of `version`, `functions` and, above nothing, its "end".
    """

    path: Path
    functions: tuple[FunctionBuckets, ...] = ()
    version: int = SCHEMA_VERSION
    comments: tuple[str, ...] = ()
    remarks: Mapping[str, Remark] = field(default_factory=dict)

    @property
    def programs_folder(self) -> Path:
        """The folder of programs and signatures beside the file."""
        return programs_folder(self.path)

    def load_program(self, function: FunctionBuckets) -> bytes:
        """The bytes of a function's program, not yet verified. Raises ConfigError when the file is not there."""
        return self._beside(function, ".msbc")

    def load_recordings(self, function: FunctionBuckets) -> Recordings:
        """What the profile said of a function. Raises ConfigError when the file is missing, broken or another's.

        So does a symbol, a signature or a bucket of the YAML that no recorded call could fit.
        """
        data = self._beside(function, ".signatures.json")
        try:
            found = Recordings.from_bytes(data, function.qualname)
        except ValueError as error:
            name = file_stem(function.qualname) + ".signatures.json"
            raise ConfigError(f"damaged, or of another function ({error})", file=str(self.programs_folder / name),
                              hint=f"run `prebake plan PROFILE -o {self.path.name}` again") from error
        for i, bucket in enumerate(function.buckets):
            if bucket.signature >= len(found.signatures):
                raise ConfigError(f"there are {len(found.signatures)} recorded signatures, counted from 0",
                                  file=str(self.path), line=bucket.line,
                                  key=f"functions.{function.qualname}.buckets[{i}].signature")
        self._check_symbols(function, found)
        return found

    def _check_symbols(self, function: FunctionBuckets, found: Recordings) -> None:
        """Raises ConfigError for a symbol that no signature has: its limits would be left out, its bucket widened."""
        key = f"functions.{function.qualname}"
        known = [{*recorded.symbols, *recorded.sample} for recorded in found.signatures]
        every = set().union(*known)
        for name, symbols in function.symbols.items():
            for symbol in symbols:
                if symbol not in every:
                    line, column = function.places.get(symbol, (function.line, 0))
                    raise ConfigError(f"'{symbol}' is no symbol of the recorded signatures", file=str(self.path),
                                      line=line, column=column, key=f"{key}.symbols.{name}",
                                      hint=suggest(symbol, {s for s in every if ".strides[" not in s}))
        for i, bucket in enumerate(function.buckets):
            for name in bucket.extents:
                if known[bucket.signature].isdisjoint(function.symbols.get(name, ())):
                    raise ConfigError(f"recorded signature {bucket.signature} has no '{function.symbols[name][0]}'",
                                      file=str(self.path), line=bucket.line, key=f"{key}.buckets[{i}].{name}",
                                      hint="leave it out of this bucket, or name the signature that has it")

    def _beside(self, function: FunctionBuckets, suffix: str) -> bytes:
        path = self.programs_folder / (file_stem(function.qualname) + suffix)
        try:
            return path.read_bytes()
        except OSError as error:
            close = difflib.get_close_matches(function.qualname, self._recorded_names(), n=1, cutoff=0.7)
            if close and close[0] != function.qualname:
                raise ConfigError(f"nothing was recorded of '{function.qualname}'", file=str(self.path), line=function.line,
                                  key=f"functions.{function.qualname}", hint=f"did you mean '{close[0]}'?") from error
            raise ConfigError(
                f"{path.name} is not in {path.parent.name}/ beside the file ({error.strerror})", file=str(self.path),
                line=function.line, key=f"functions.{function.qualname}",
                hint=f"run `prebake plan PROFILE -o {self.path.name}`, and commit {path.parent.name}/ too") from error

    def _recorded_names(self) -> list[str]:
        """Qualified names of the functions that lie beside the file."""
        found = []
        for path in sorted(self.programs_folder.glob("*.signatures.json")):
            try:
                found.append(str(json.loads(path.read_bytes())["function"]))
            except (OSError, ValueError, KeyError, TypeError):
                continue  # damaged: named when it is its turn
        return found


def programs_folder(yaml_path: str | os.PathLike[str]) -> Path:
    """`NAME.msbc/` beside `NAME.yaml`."""
    return Path(yaml_path).with_suffix(".msbc")


def file_stem(qualname: str) -> str:
    """A file name for a qualified name, different for different ones: `models.risk:score` -> `models.risk-score`."""
    keep = "._"
    return "".join(c if c.isascii() and (c.isalnum() or c in keep) else "-" if c == ":" else f"%{ord(c):02x}"
                   for c in qualname)


def suggest(word: str, known: Iterable[str]) -> str:
    """`did you mean 'x'?`, or the list of what is known."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f"did you mean '{close[0]}'?" if close else f"known here: {', '.join(names) or 'nothing'}"


def option_names() -> list[str]:
    """Options that may stand in the file, sorted; the table is vm/options.py."""
    from ..vm import options as table

    return sorted(name for name, option in table.OPTIONS.items() if not option.shared)
