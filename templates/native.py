"""The text of a planner's module as it is compiled: records written out as classes with an `__init__` of their own.

`setup.py` has mypyc compile what runs for every plan into one shared library, where `PREBAKE_BUILD_PLANNER=1` asks for it
(docs/architecture.md says what that costs); the Python modules stay beside it and do the same, at less than half the speed.
mypyc stores the fields of a class in C, and calls its `__init__` from C, where both stand in the class' text; `@record` makes
them while a module is imported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

# modules of vm/plan that stay Python: what few plans need, and what is replaced while it runs
INTERPRETED = frozenset(("__init__", "check", "code_json", "dtype_words", "planner", "planner_errors", "show"))
INTERPRETED_PREFIXES = ("callout", "complex_", "rules_", "unsigned")
COMPILED_RULES = frozenset(("rules_elementwise", "rules_index", "rules_linear", "rules_operators", "rules_reduce", "rules_view"))


def compiled_modules(names: Iterable[str]) -> list[str]:
    """Those of the planner's modules that are compiled, in order."""
    return sorted([name for name in names if name in COMPILED_RULES or not (
        name in INTERPRETED or name.startswith(INTERPRETED_PREFIXES))])


def write_out_records(text: str) -> str:
    """The module with its records written out. Lines move: those of tracebacks are the written-out module's."""
    lines = text.split("\n")
    for node in reversed(ast.parse(text).body):
        if isinstance(node, ast.ClassDef):
            marks = [mark for mark in node.decorator_list if _is_record(mark)]
            if marks:
                first = marks[0].lineno - 1
                fields = [item for item in node.body if isinstance(item, ast.AnnAssign)]
                last = (fields[-1] if fields else node.body[0]).end_lineno
                assert last is not None
                kept = lines[node.lineno - 1:(fields[0].lineno - 1 if fields else last)]
                lines[first:last] = [*kept, *_methods(node, fields, "eq=True" in ast.unparse(marks[0]))]
    head = "from __future__ import annotations"
    return "\n".join(lines).replace(head, f"{head}; from typing import Any, ClassVar; "
                                          f"from prebake.templates import records as _records", 1)


def _is_record(mark: ast.expr) -> bool:
    return ast.unparse(mark).partition("(")[0] == "record"


def _methods(node: ast.ClassDef, fields: list[ast.AnnAssign], is_compared: bool) -> list[str]:
    """What `record` would add to a class, one line each."""
    own = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
    names = [ast.unparse(field.target) for field in fields]
    kinds = [ast.unparse(field.annotation) for field in fields]
    parameters, sets = ["self"], []
    defaults: list[str] = []
    for field, name, kind in zip(fields, names, kinds, strict=True):
        value = name
        if field.value is None:
            parameters.append(f"{name}: {kind}")
        else:
            default = ast.unparse(field.value)
            if default.startswith("fresh("):
                factory = default.removeprefix("fresh(factory=").removesuffix(")")
                defaults.append(f"{name!r}: _records.Fresh({factory})")
                parameters.append(f"{name}: {kind} | None = None")
                value = f"{factory}() if {name} is None else {name}"
            else:
                defaults.append(f"{name!r}: {default}")
                parameters.append(f"{name}: {kind} = {default}")
        sets.append(f"self.{name}: {kind} = {value}")
    described = ", ".join([f"{name!r}: {kind!r}" for name, kind in zip(names, kinds, strict=True)])
    out = [f"__match_args__: ClassVar[tuple[str, ...]] = ({''.join([f'{name!r}, ' for name in names])}); "
           f"__dataclass_fields__: ClassVar[Any] = _records.Fields({{{described}}}, {{{', '.join(defaults)}}})"]
    if "__init__" not in own:
        out.append(f"def __init__({', '.join(parameters)}) -> None: {'; '.join(sets) or 'pass'}")
    if "__repr__" not in own:
        out.append("def __repr__(self) -> str: return _records.text_of(self)")
    mine, theirs = ("".join([f"{owner}.{name}, " for name in names]) for owner in ("self", "other"))
    out.append(f"def __reduce__(self) -> Any: return {node.name}, ({mine})")
    if is_compared:
        out.append(f"def __eq__(self, other: object) -> bool: return isinstance(other, {node.name}) and ({mine}) == ({theirs})")
        out.append(f"def __hash__(self) -> int: return hash(({mine}))")
    return [f"    {line}" for line in out]
