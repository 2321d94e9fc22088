"""Short names for symbols: `b` for `x.shape[0]`, one name for symbols that were equal in every recorded call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from .profile import FunctionProfile, SignatureProfile
from .schema import BUCKET_WORDS

# How array programs call the axes of their first array, by rank; later names come from the letters.
_AXES = {1: "n", 2: "bd", 3: "bsd", 4: "bchw", 5: "bcthw"}
_LETTERS = "kmnpqrtuvwz"
_MOST_CONSTANTS = 8  # names given to symbols that never varied; the others stay free


# (signature number, a symbol's extents over that signature's shapes), ...
Column: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]


@dataclass
class _Tie:
    """Symbols with one column of extents. paths: the arrays they belong to."""

    column: Column
    symbols: list[str] = field(default_factory=list)
    name: str = ""

    @property
    def is_constant(self) -> bool:
        return len({value for _, values in self.column for value in values}) <= 1

    def has_path(self, symbol: str) -> bool:
        return any(_path(symbol) == _path(other) for other in self.symbols)


def _path(symbol: str) -> str:
    return symbol.rpartition(".shape[")[0] or symbol


def name_symbols(function: FunctionProfile,
                 known: Mapping[str, Sequence[str]] | None = None) -> dict[str, tuple[str, ...]]:
    """Short name -> the symbols it stands for.

    known: names from an earlier file, which win; then those of the function's own `shapes=`; then names by axis.
    Symbols are tied when they were equal in every call and vary, or belong to different arrays. Strides get no name.
    """
    given = {symbol: name for name, symbols in (known or {}).items() for symbol in symbols}
    declared = declared_names(function.shapes)
    ties: list[_Tie] = []
    for symbol, column in _columns(function.ordered()).items():
        name = given.get(symbol) or declared.get(symbol, "")
        for tie in ties:
            if tie.column != column or (name and tie.name and tie.name != name):
                continue
            if tie.is_constant and tie.has_path(symbol) and not (name and tie.name == name):
                continue
            if (symbol in given) != any(s in given for s in tie.symbols) and tie.is_constant:
                continue
            tie.symbols.append(symbol)
            tie.name = tie.name or name
            break
        else:
            ties.append(_Tie(column, [symbol], name))
    return _with_names(ties, function)


def _columns(signatures: Iterable[SignatureProfile]) -> dict[str, Column]:
    """Symbol -> its column, in order of first appearance."""
    columns: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
    for number, signature in enumerate(signatures):
        rows = sorted(signature.shapes)
        for axis, symbol in enumerate(signature.symbols):
            if ".strides[" not in symbol and not symbol.endswith(".data"):
                columns.setdefault(symbol, []).append((number, tuple(row[axis] for row in rows)))
    return {symbol: tuple(column) for symbol, column in columns.items()}


def declared_names(shapes: Mapping[str, str]) -> dict[str, str]:
    """Symbol -> name, of `shapes={"x": "b d"}`; axes that are expressions, numbers or `...` have none."""
    names: dict[str, str] = {}
    for parameter, text in shapes.items():
        for axis, token in enumerate(text.split()):
            if "..." in token or token.startswith("*"):
                break  # axes behind it are counted from the end: their rank is not known here
            if token.isidentifier() and token not in BUCKET_WORDS and token != "_":
                names[f"{parameter}.shape[{axis}]"] = token
    return names


def _with_names(ties: list[_Tie], function: FunctionProfile) -> dict[str, tuple[str, ...]]:
    used = {tie.name for tie in ties if tie.name} | set(BUCKET_WORDS)
    for tie in ties:  # an integer argument has a name already: it comes before the letters of axes
        own = tie.symbols[0]
        if not tie.name and own.isidentifier() and own not in used:
            tie.name = own
            used.add(own)
    found: dict[str, tuple[str, ...]] = {}
    constants = 0
    ranks = _ranks(function)
    first_array = next((_path(s) for tie in ties for s in tie.symbols if ".shape[" in s), "")
    for tie in ties:
        if not tie.name:
            if tie.is_constant:
                constants += 1
                if constants > _MOST_CONSTANTS:
                    continue
            tie.name = _fresh(tie.symbols[0], first_array, ranks, used)
            used.add(tie.name)
        name = tie.name
        if name in found:  # a name whose symbols are not equal any more: the first keeps it
            name = _fresh(tie.symbols[0], first_array, ranks, used)
            used.add(name)
        found[name] = tuple(tie.symbols)
    return found


def _ranks(function: FunctionProfile) -> dict[str, int]:
    return {row.path: row.ndim for signature in function.ordered() for row in signature.signature.rows
            if row.kind == "array"}


def _fresh(symbol: str, first_array: str, ranks: Mapping[str, int], used: set[str]) -> str:
    path, mark, rest = symbol.rpartition(".shape[")
    wishes: list[str] = []
    if not mark:
        wishes.append("".join(c if c.isalnum() else "_" for c in symbol.rpartition(".")[2]))
    elif path == first_array:
        letters = _AXES.get(ranks.get(path, 0), "")
        axis = int(rest.rstrip("]"))
        wishes += letters[axis:axis + 1]
    wishes += _LETTERS
    for wish in wishes:
        if wish and wish.isidentifier() and wish not in used:
            return wish
    number = 0
    while f"s{number}" in used:
        number += 1
    return f"s{number}"
