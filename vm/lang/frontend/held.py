"""What an expression may stand for, judged by the live objects of the call that the program is made for.

A model's layers are objects: which function `self.fc1(x)` or `layer.act(x)` calls shows in no source. The frontend looks at
the objects that the arguments and captured names hold now and follows the source from there: attributes, items, targets of
assignments and loops, arguments of helpers. Whatever it finds are candidates only: the program tests them at each call.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import islice
from types import ModuleType
from typing import Any

import numpy as np

from ...bindings import ABSENT
from .emitter import Emitter
from .scope import Frame


class Mark:
    """What stands in the place of an object that is not known."""


MAX_HELD = 512      # objects that one expression is followed to
UNKNOWN: Any = Mark()  # in place of an item that nothing is known of
NOTHING: Any = object()  # in place of the items of what has none: of an empty list, say, that holds layers another time
_NO_CONTAINERS = (np.ndarray, np.generic, int, float, complex, str, bytes, Mark)  # of layers, at no time
_COMPUTED = frozenset((ast.BinOp, ast.Compare, ast.UnaryOp))  # numbers and arrays
_VIEWS = ("items", "values", "keys")


class Sources:
    """Where the names of a function's tree get their values: name -> [(target, expression, whether it is iterated)]."""

    __slots__ = ("names",)

    def __init__(self, tree: ast.AST) -> None:
        self.names: dict[str, list[tuple[ast.expr, ast.expr, bool]]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._add(target, node.value, False)
            elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
                if node.value is not None:
                    self._add(node.target, node.value, False)
            elif isinstance(node, (ast.For, ast.comprehension)):
                self._add(node.target, node.iter, True)

    def _add(self, target: ast.expr, value: ast.expr, is_iterated: bool) -> None:
        for part in ast.walk(target):
            if isinstance(part, ast.Name):
                self.names.setdefault(part.id, []).append((target, value, is_iterated))


class Held(Emitter):
    """Follows expressions to live objects; names come from the next layers."""

    live: Mapping[str, object]  # the arguments of the call that the program is made for, by parameter

    def static(self, node: ast.expr) -> Any:
        """What an expression names when it is compiled."""
        raise NotImplementedError

    def lookup(self, name: str) -> object:
        """The present value of a non-local name."""
        raise NotImplementedError

    def mangled(self, name: str) -> str:
        """Python's private-name mangling."""
        raise NotImplementedError

    def held(self, node: ast.expr) -> list[Any]:
        """The objects that an expression of the present frame may stand for, as far as they are known."""
        return self.held_or_nothing(node)[0]

    def held_or_nothing(self, node: ast.expr) -> tuple[list[Any], bool]:
        """`held`, and whether the expression may lead into something that is empty, or not there, now."""
        found = self._held(node, self.frame, set())
        if not found:
            return [], False
        return self._distinct(found), any(value is NOTHING for value in found)

    @staticmethod
    def _distinct(found: Iterable[Any]) -> list[Any]:
        known = {id(value): value for value in found if value is not UNKNOWN and value is not NOTHING}
        return list(islice(known.values(), MAX_HELD))

    def _held(self, node: ast.expr, frame: Frame, active: set[tuple[int, str]]) -> list[Any]:
        cls = node.__class__
        if cls is ast.Name:
            return self._held_name(node.id, frame, active)  # type: ignore[attr-defined]
        if cls in _COMPUTED:
            return []
        if isinstance(node, ast.Attribute):
            return [found for base in self._held(node.value, frame, active)
                    if (found := held_attribute(base, self._named(node.attr, frame))) is not UNKNOWN]
        if isinstance(node, ast.Subscript):
            return self._held_items(node, frame, active)
        if isinstance(node, ast.Constant):
            return [node.value]
        if isinstance(node, ast.IfExp):
            return self._held(node.body, frame, active) + self._held(node.orelse, frame, active)
        if isinstance(node, ast.BoolOp):
            return [found for part in node.values for found in self._held(part, frame, active)]
        if isinstance(node, ast.NamedExpr):
            return self._held(node.value, frame, active)
        if isinstance(node, (ast.Tuple, ast.List)):
            parts = [self._distinct(self._held(item, frame, active)) for item in node.elts]
            count = max(map(len, parts), default=0)
            return [tuple([part[min(i, len(part) - 1)] if part else UNKNOWN for part in parts]) for i in range(count)]
        if isinstance(node, ast.Dict):
            pairs = [(key.value, self._held(item, frame, active)) for key, item in zip(node.keys, node.values, strict=True)
                     if isinstance(key, ast.Constant)]
            return [{key: found[0] for key, found in pairs if found}]
        if isinstance(node, ast.Call):
            items = self._iterated(node, frame, active)
            return [tuple(items)] if items else []
        return []

    def _named(self, name: str, frame: Frame) -> str:
        inner, self.frame = self.frame, frame
        try:
            return self.mangled(name)
        finally:
            self.frame = inner

    def _held_name(self, name: str, frame: Frame, active: set[tuple[int, str]]) -> list[Any]:
        at: Frame | None = frame
        while at is not None:
            sources = self._sources(at).names.get(name, ())
            if name in at.arguments or sources or name in at.registers:
                break
            if name in at.statics:
                return [at.statics[name]]
            at = at.parent
        if at is None:
            inner, self.frame = self.frame, frame
            try:
                found = self.lookup(name)
            finally:
                self.frame = inner
            return [found]
        key = (id(at), name)
        if key in active:
            return []
        active = active | {key}
        found_all: list[Any] = []
        given = at.arguments.get(name, ABSENT)
        if isinstance(given, Given):
            found_all += self._held(given.node, given.frame, active)
        elif given is not ABSENT:
            found_all += given
        for target, value, is_iterated in sources:
            values = self._iterated(value, at, active) if is_iterated else self._held(value, at, active)
            for item in values:
                _match(target, item, name, found_all)
            if len(found_all) > MAX_HELD:
                break
        return found_all

    def _sources(self, frame: Frame) -> Sources:
        memo = frame.source.memo
        found = memo.get(("sources", frame.tree))
        if found is None:
            found = memo["sources", frame.tree] = Sources(frame.tree)
        return found

    def _held_items(self, node: ast.Subscript, frame: Frame, active: set[tuple[int, str]]) -> list[Any]:
        bases = self._held(node.value, frame, active)
        keys = None if isinstance(node.slice, ast.Slice) else self._distinct(self._held(node.slice, frame, active))
        if isinstance(node.slice, ast.UnaryOp) and isinstance(node.slice.operand, ast.Constant):
            keys = [-node.slice.operand.value]  # type: ignore[operator]
        found: list[Any] = []
        for base in bases:
            if not isinstance(base, (list, tuple, dict)):
                if not isinstance(base, _NO_CONTAINERS):
                    found.append(NOTHING)
                continue
            if not base:
                found.append(NOTHING)
            if keys is None:
                found.append(base)  # a slice: what it may leave out does not matter
                continue
            for key in keys:
                if isinstance(key, (int, str, bool, float, tuple, Enum)):
                    try:
                        found.append(base[key])  # type: ignore[index]
                    except (LookupError, TypeError):
                        found.append(NOTHING)
            if not keys:
                found += islice(base.values() if isinstance(base, dict) else base, MAX_HELD)
        return found

    def _iterated(self, node: ast.expr, frame: Frame, active: set[tuple[int, str]]) -> list[Any]:
        """The items that iterating over an expression may yield."""
        if isinstance(node, ast.Call) and not any(isinstance(a, ast.Starred) for a in node.args):
            func = node.func
            if isinstance(func, ast.Attribute) and func.attr in _VIEWS and not node.args:
                mappings = [m for m in self._held(func.value, frame, active) if isinstance(m, dict)]
                return [item for m in mappings for item in (islice(getattr(m, func.attr)(), MAX_HELD) if m else (NOTHING,))]
            if func.__class__ is not ast.Name:
                return []
            inner, self.frame = self.frame, frame
            try:
                called = self.static(func)
            finally:
                self.frame = inner
            if called is enumerate and node.args:
                return [(UNKNOWN, item) for item in self._iterated(node.args[0], frame, active)]
            if called in (reversed, list, tuple) and len(node.args) == 1:
                return self._iterated(node.args[0], frame, active)
            if called is zip:
                columns = [self._iterated(arg, frame, active) for arg in node.args]
                count = max(map(len, columns), default=0)
                return [tuple([c[i] if i < len(c) else UNKNOWN for c in columns]) for i in range(count)]
            return []
        if isinstance(node, (ast.Tuple, ast.List)):
            return [found for item in node.elts for found in self._held(item, frame, active)]
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return self._held(node.elt, frame, active)
        found: list[Any] = []
        for value in self._held(node, frame, active):
            if isinstance(value, (list, tuple, dict)) and value:
                found += islice(value, MAX_HELD)
            elif not isinstance(value, _NO_CONTAINERS):
                found.append(NOTHING)
        return found


class Given:
    """An argument of an inlined function: its expression and the frame that it stands in."""

    __slots__ = ("frame", "node")

    def __init__(self, node: ast.expr, frame: Frame) -> None:
        self.node, self.frame = node, frame


def held_attribute(base: Any, name: str) -> Any:
    """The data that an object keeps under a name, `UNKNOWN` where looking could run code or make something new."""
    if isinstance(base, ModuleType):
        return vars(base).get(name, UNKNOWN)
    if base is NOTHING:
        return NOTHING
    kept = getattr(base, "__dict__", None) if not isinstance(base, type) else None
    if type(kept) is dict and name in kept:
        return kept[name]
    for cls in base.__mro__ if isinstance(base, type) else type(base).__mro__:
        if name in vars(cls):
            found = vars(cls)[name]
            kind = type(found)
            if not hasattr(kind, "__get__"):
                return found
            if kind.__module__ in ("builtins", "collections") and kind.__name__ in ("member_descriptor", "_tuplegetter"):
                return getattr(base, name, UNKNOWN)
            return UNKNOWN
    return UNKNOWN


def _match(target: ast.expr, value: Any, name: str, found: list[Any]) -> None:
    """Add what a name gets where a value is assigned to a target."""
    if value is NOTHING:
        found.append(NOTHING)  # of a target that the name stands in
    elif isinstance(target, ast.Name):
        if target.id == name and value is not UNKNOWN:
            found.append(value)
    elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (tuple, list)):
        stars = [i for i, item in enumerate(target.elts) if isinstance(item, ast.Starred)]
        before = stars[0] if stars else len(target.elts)
        after = len(target.elts) - before - 1 if stars else 0
        for item, part in zip(target.elts[:before], value, strict=False):
            _match(item, part, name, found)
        if after and len(value) >= before + after:
            for item, part in zip(target.elts[-after:], value[-after:], strict=True):
                _match(item, part, name, found)
        if stars and len(value) >= before + after:
            _match(target.elts[before].value, value[before:len(value) - after], name, found)  # type: ignore[attr-defined]
