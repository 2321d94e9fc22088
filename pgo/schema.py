"""`buckets.yaml` in memory: dataclasses, strict reading with line and column, and what lies beside the file.

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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..vm.errors import ConfigError
from ..vm.plan.signature import Signature
from .remarks import Comments, Remark, above_lines, write_remark

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


# --- reading --------------------------------------------------------------------------------------------------------

def read_buckets(path: str | os.PathLike[str]) -> BucketsFile:
    """The file's content, checked. Raises ConfigError with file, line, column, dotted key and a suggestion."""
    where = Path(path)
    try:
        text = where.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read ({getattr(error, 'strerror', None) or error})", file=str(where)) from error
    return parse_buckets(text, where)


def parse_buckets(text: str, path: str | os.PathLike[str] = "buckets.yaml") -> BucketsFile:
    """The content of a text; see `read_buckets`."""
    try:
        import yaml
    except ImportError as error:
        raise ConfigError("reading it needs PyYAML", file=str(path), hint='pip install "prebake[build]"') from error
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise ConfigError(f"not YAML: {getattr(error, 'problem', None) or error}", file=str(path),
                          line=mark.line + 1 if mark else 0, column=mark.column + 1 if mark else 0) from error
    return _Reader(str(path), text).file(root)


class _Reader:
    """Walks PyYAML's nodes, which know their line and column, and builds the dataclasses."""

    def __init__(self, path: str, text: str) -> None:
        import yaml

        self.path = path
        self.comments = Comments(text)
        self._scalar = yaml.SafeLoader("").construct_object

    def fail(self, node: object, key: str, message: str, hint: str = "") -> ConfigError:
        mark = getattr(node, "start_mark", None)
        return ConfigError(message, file=self.path, line=mark.line + 1 if mark else 0,
                           column=mark.column + 1 if mark else 0, key=key, hint=hint)

    def pairs(self, node, key: str, known: Sequence[str] | None = None) -> dict:  # type: ignore[no-untyped-def,type-arg]
        """name -> (key node, value node) of a mapping; unknown and doubled names are refused."""
        if node is None or node.id != "mapping":
            raise self.fail(node, key, f"a mapping is expected here, not {_kind(node)}")
        found: dict = {}
        for name_node, value in node.value:
            name = name_node.value if name_node.id == "scalar" else None
            if not name:
                raise self.fail(name_node, key, f"a name is expected here, not {_kind(name_node)}")
            dotted = f"{key}.{name}" if key else name
            if known is not None and name not in known:
                raise self.fail(name_node, dotted, f"unknown key '{name}'", suggest(name, known))
            if name in found:
                raise self.fail(name_node, dotted, f"'{name}' is given twice")
            found[name] = (name_node, value)
        return found

    def value(self, node, key: str, kinds: tuple[type, ...], what: str) -> object:  # type: ignore[no-untyped-def]
        """A scalar of one of `kinds` (bool is not int here)."""
        if node.id == "scalar":
            try:
                value = self._scalar(node)
            except ValueError as error:
                raise self.fail(node, key, f"{what} is expected here ({error})") from error
            if type(value) in kinds:
                return value
        raise self.fail(node, key, f"{what} is expected here, not {_kind(node)}")

    def file(self, root) -> BucketsFile:  # type: ignore[no-untyped-def]
        top = self.pairs(root, "", ("version", "functions"))
        if "version" not in top:
            raise self.fail(root, "version", "is missing", f"begin the file with `version: {SCHEMA_VERSION}`")
        version = self.value(top["version"][1], "version", (int,), "a whole number")
        if version != SCHEMA_VERSION:
            raise self.fail(top["version"][1], "version", f"version {version} is not known to this prebake",
                            f"it reads version {SCHEMA_VERSION}; plan again, or install the prebake that wrote it")
        first = min((pair[0].start_mark.line for pair in top.values()), default=0)
        own, rest = self.comments.top(first)
        remarks = {name: self.comments.of_key(*pair) for name, pair in top.items()}
        remarks["version"] = Remark((*rest, *remarks["version"].above), remarks["version"].tail)
        functions: list[FunctionBuckets] = []
        if "functions" in top and not _is_empty(top["functions"][1]):
            for name, (name_node, node) in self.pairs(top["functions"][1], "functions").items():
                functions.append(self.function(name, name_node, node))
        remarks["end"] = Remark(self.comments.above(len(self.comments.lines)))
        return BucketsFile(Path(self.path), tuple(functions), int(version), own, remarks)  # type: ignore[call-overload]

    def function(self, qualname: str, name_node, node) -> FunctionBuckets:  # type: ignore[no-untyped-def]
        key = f"functions.{qualname}"
        parts = self.pairs(node, key, ("symbols", "options", "buckets"))
        name_remark = self.comments.of_key(name_node, node)
        remarks = {"": Remark((), name_remark.tail), **{part: self.comments.of_key(*pair) for part, pair in parts.items()}}
        places: dict[str, tuple[int, int]] = {}
        symbols = self.symbols(parts["symbols"][1], f"{key}.symbols", places) if "symbols" in parts else {}
        options = self.options(parts["options"][1], f"{key}.options") if "options" in parts else {}
        buckets: list[Bucket] = []
        if "buckets" in parts and not _is_empty(parts["buckets"][1]):
            listing = parts["buckets"][1]
            if listing.id != "sequence":
                raise self.fail(listing, f"{key}.buckets", f"a list is expected here, not {_kind(listing)}")
            buckets = [self.bucket(item, f"{key}.buckets[{i}]", symbols) for i, item in enumerate(listing.value)]
        return FunctionBuckets(qualname, symbols, options, tuple(buckets), name_remark.above,
                               name_node.start_mark.line + 1, remarks, places)

    def symbols(self, node, key: str,  # type: ignore[no-untyped-def]
                places: dict[str, tuple[int, int]]) -> dict[str, tuple[str, ...]]:
        symbols: dict[str, tuple[str, ...]] = {}
        owner: dict[str, str] = {}
        for name, (name_node, value) in self.pairs(node, key).items():
            if not name.isidentifier() or name in BUCKET_WORDS:
                raise self.fail(name_node, f"{key}.{name}", f"'{name}' cannot be a short name",
                                f"use an identifier other than {', '.join(BUCKET_WORDS)}")
            items = value.value if value.id == "sequence" else [value]
            symbols[name] = tuple(str(self.value(item, f"{key}.{name}", (str,), "a symbol such as \"x.shape[0]\""))
                                  for item in items)
            for symbol, item in zip(symbols[name], items, strict=True):
                if symbol in owner:
                    raise self.fail(item, f"{key}.{name}", f"'{symbol}' is already called '{owner[symbol]}'")
                owner[symbol] = name
                places[symbol] = (item.start_mark.line + 1, item.start_mark.column + 1)
        return symbols

    def options(self, node, key: str) -> dict[str, object]:  # type: ignore[no-untyped-def]
        from ..vm import options as table

        options: dict[str, object] = {}
        for name, (name_node, value) in self.pairs(node, key).items():
            known = option_names()
            if name not in known:
                raise self.fail(name_node, f"{key}.{name}", f"unknown key '{name}'", suggest(name, known))
            plain = self.plain(value, f"{key}.{name}")
            try:
                options[name] = table.OPTIONS[name].check(plain)
            except (ConfigError, TypeError, ValueError) as error:
                raise self.fail(value, f"{key}.{name}", getattr(error, "message", str(error)),
                                getattr(error, "hint", "")) from error
        return options

    def plain(self, node, key: str) -> object:  # type: ignore[no-untyped-def]
        if node.id == "sequence":
            return [self.plain(item, key) for item in node.value]
        return self.value(node, key, (str, int, float, bool, type(None)), "a plain value or a list of them")

    def bucket(self, node, key: str, symbols: Mapping[str, tuple[str, ...]]) -> Bucket:  # type: ignore[no-untyped-def]
        extents: dict[str, tuple[int, int]] = {}
        owner = {symbol: short for short, tied in symbols.items() for symbol in tied if symbol not in symbols}
        words: dict[str, object] = {}
        for name, (name_node, value) in self.pairs(node, key).items():
            dotted = f"{key}.{name}"
            if name == "gain":
                words[name] = self.gain(value, dotted)
            elif name == "keep":
                words[name] = self.value(value, dotted, (bool,), "true or false")
            elif name == "signature":
                words[name] = self.value(value, dotted, (int,), "a whole number")
                if words[name] < 0:  # type: ignore[operator]
                    raise self.fail(value, dotted, "signatures are counted from 0")
            elif name in symbols or name in owner:  # `fn.explain` names symbols in full where it must
                short = owner.get(name, name)
                is_shape = any(symbol.endswith("]") for symbol in symbols[short])  # else: an integer argument
                span = self.extent(value, dotted, 0 if is_shape else 1 - UNBOUNDED)
                if extents.setdefault(short, span) != span:
                    raise self.fail(name_node, dotted, f"'{name}' is the same as '{short}', which is given otherwise")
            else:
                raise self.fail(name_node, dotted, f"'{name}' is no symbol of this function",
                                suggest(name, [*symbols, *BUCKET_WORDS]))
        line = node.start_mark.line
        return Bucket(extents, comments=self.comments.above(line), tail=self.comments.behind(node.end_mark), line=line + 1,
                      **words)  # type: ignore[arg-type]

    def extent(self, node, key: str, least: int = 0) -> tuple[int, int]:  # type: ignore[no-untyped-def]
        if node.id != "sequence":
            lo = hi = self._bound(node, key, least)
        elif len(node.value) != 2:
            raise self.fail(node, key, f"a range has two bounds, not {len(node.value)}",
                            "write [lo, hi], both included")
        else:
            lo, hi = (self._bound(item, key, least) for item in node.value)
            if lo > hi:
                raise self.fail(node, key, f"the range [{lo}, {hi}] is empty", f"write [{hi}, {lo}]")
        if lo >= UNBOUNDED:
            raise self.fail(node, key, "only the upper bound may be inf")
        return lo, hi

    def _bound(self, node, key: str, least: int) -> int:  # type: ignore[no-untyped-def]
        if node.id == "scalar" and node.value in ("inf", ".inf"):
            return UNBOUNDED
        value = self.value(node, key, (int,), "an extent (a whole number, or [lo, hi])")
        if not least <= value < UNBOUNDED:  # type: ignore[operator]
            raise self.fail(node, key, f"{value} is no extent")
        return int(value)  # type: ignore[call-overload]

    def gain(self, node, key: str) -> Gain:  # type: ignore[no-untyped-def]
        pairs = self.pairs(node, key, ("wider", "tape"))
        return Gain(**{name: float(self.value(value, f"{key}.{name}", (int, float), "a number"))  # type: ignore[arg-type]
                       for name, (_, value) in pairs.items()})


def _kind(node: object) -> str:
    if node is None:
        return "nothing"
    kind = getattr(node, "id", "")
    return {"mapping": "a mapping", "sequence": "a list"}.get(kind) or f"'{getattr(node, 'value', '')}'"


def _is_empty(node: object) -> bool:
    return getattr(node, "id", "") == "scalar" and getattr(node, "value", "") in ("", "~", "null")


def option_names() -> list[str]:
    """Options that may stand in the file, sorted; the table is vm/options.py."""
    from ..vm import options as table

    return sorted(name for name, option in table.OPTIONS.items() if not option.shared)


# --- writing --------------------------------------------------------------------------------------------------------

_LONGEST = 110  # characters of a line; longer mappings stand one item a line


def dump_buckets(config: BucketsFile, notes: Mapping[str, Sequence[str]] | None = None) -> str:
    """The file's text, deterministic. notes: qualified name (or "") -> lines that prebake says itself, marked `#:`."""
    notes = notes or {}
    lines = above_lines(config.comments) + [f"#: {note}" for note in notes.get("", ())]
    lines += write_remark(f"version: {config.version}", config.remarks.get("version"))
    lines += write_remark("functions:" if config.functions else "functions: {}", config.remarks.get("functions"))
    for function in config.functions:
        lines += [f"  #: {note}" for note in notes.get(function.qualname, ())]
        lines += above_lines(function.comments, "  ")
        lines += write_remark(f"  {_quoted(function.qualname)}:", function.remarks.get(""))
        if function.symbols:
            items = [f"{name}: {_quoted(symbols[0]) if len(symbols) == 1 else _flow(list(symbols))}"
                     for name, symbols in function.symbols.items()]
            line = "    symbols: {" + ", ".join(items) + "}"
            below = [] if len(line) <= _LONGEST else [f"      {item}" for item in items]
            lines += [*write_remark("    symbols:" if below else line, function.remarks.get("symbols")), *below]
        if function.options:
            lines += write_remark("    options: " + _flow(dict(function.options)), function.remarks.get("options"))
        lines += write_remark("    buckets:" if function.buckets else "    buckets: []", function.remarks.get("buckets"))
        for bucket in function.buckets:
            lines += write_remark("      - " + _bucket_text(bucket), Remark(bucket.comments, bucket.tail))
    lines += above_lines(config.remarks["end"].above) if "end" in config.remarks else []
    return "\n".join(lines) + "\n"


def _bucket_text(bucket: Bucket) -> str:
    items = [f"{name}: {extent_text(span)}" for name, span in bucket.extents.items()]
    if bucket.signature:
        items.append(f"signature: {bucket.signature}")
    if bucket.keep:
        items.append("keep: true")
    if bucket.gain is not None:
        parts = [f"{name}: {value:.2f}" for name, value in (("wider", bucket.gain.wider), ("tape", bucket.gain.tape))
                 if value]
        items.append("gain: {" + ", ".join(parts) + "}")
    return "{" + ", ".join(items) + "}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _flow(value: object) -> str:
    """A plain value in YAML's flow style (every JSON scalar is one of YAML's)."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_flow(item)}" for name, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, (set, frozenset)):
        return _flow(sorted(value))
    if isinstance(value, str) and "_" in value and value.isidentifier():
        return value  # no word that YAML reads as something else has an underscore
    return json.dumps(value, ensure_ascii=False)
