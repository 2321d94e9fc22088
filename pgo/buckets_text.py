"""`buckets.yaml` as text: read strictly, with line and column of what is wrong, and written, the same bytes each time."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..vm.errors import ConfigError
from .remarks import Comments, Remark, above_lines, write_remark
from .schema import (
    BUCKET_WORDS,
    SCHEMA_VERSION,
    UNBOUNDED,
    Bucket,
    BucketsFile,
    FunctionBuckets,
    Gain,
    extent_text,
    option_names,
    suggest,
)

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

    def pairs(self, node, key: str, known: Sequence[str] | None = None) -> dict:
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

    def value(self, node, key: str, kinds: tuple[type, ...], what: str) -> object:
        """A scalar of one of `kinds` (bool is not int here)."""
        if node.id == "scalar":
            try:
                value = self._scalar(node)
            except ValueError as error:
                raise self.fail(node, key, f"{what} is expected here ({error})") from error
            if type(value) in kinds:
                return value
        raise self.fail(node, key, f"{what} is expected here, not {_kind(node)}")

    def file(self, root) -> BucketsFile:
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
        return BucketsFile(Path(self.path), tuple(functions), int(version), own, remarks)

    def function(self, qualname: str, name_node, node) -> FunctionBuckets:
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

    def symbols(self, node, key: str,
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

    def options(self, node, key: str) -> dict[str, object]:
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

    def plain(self, node, key: str) -> object:
        if node.id == "sequence":
            return [self.plain(item, key) for item in node.value]
        return self.value(node, key, (str, int, float, bool, type(None)), "a plain value or a list of them")

    def bucket(self, node, key: str, symbols: Mapping[str, tuple[str, ...]]) -> Bucket:
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

    def extent(self, node, key: str, least: int = 0) -> tuple[int, int]:
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

    def _bound(self, node, key: str, least: int) -> int:
        if node.id == "scalar" and node.value in ("inf", ".inf"):
            return UNBOUNDED
        value = self.value(node, key, (int,), "an extent (a whole number, or [lo, hi])")
        if not least <= value < UNBOUNDED:  # type: ignore[operator]
            raise self.fail(node, key, f"{value} is no extent")
        return int(value)  # type: ignore[call-overload]

    def gain(self, node, key: str) -> Gain:
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
