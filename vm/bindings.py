"""Bindings: what names outside a function stood for when it was compiled, and whether they still do.

A function, dtype, type or ufunc that a name leads to is compiled in; so is a helper's default. None of that shows in the
sources that a program was made from: a third file may import `act` from elsewhere, a dtype may come from the environment.
So each is recorded as (scope, module, path, meaning), the meaning a text that is equal in all processes, and compared
again where the program or its kernels are used. Scopes: 'global', 'closure', 'member' (of a class, path 'Class.name'),
'self' (a member that was called on self), 'default' (of a parameter, path 'function(name)').

Imported where bundles are found: nothing but NumPy and the standard library's smallest modules.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

SCOPES = ("global", "closure", "member", "self", "default")
Row = tuple[str, str, str, str]
ABSENT = object()  # what a name that is not defined stands for


def meaning_of(value: Any) -> str:
    """What a static object stands for, equal in every process that means the same."""
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, np.dtype):
        return f"dtype {value}"
    if isinstance(value, np.ufunc):
        return f"numpy.{value.__name__}"
    if isinstance(value, (np.finfo, np.iinfo)):
        return f"numpy.{type(value).__name__} {value.dtype}"
    if isinstance(value, (staticmethod, classmethod)):
        return f"{type(value).__name__} {meaning_of(value.__func__)}"
    plain = value if isinstance(value, type) else getattr(value, "__wrapped__", value)
    name = getattr(plain, "__qualname__", None)
    if name is None:
        return f"value {value!r}"
    module = _module_name(plain)
    return f"numpy.{name}" if module.partition(".")[0] == "numpy" else f"{module}:{name}"


def _module_name(value: Any) -> str:
    """The module of a function or class, a script's stem in place of `__main__`."""
    name = getattr(value, "__module__", None) or ""
    if name == "__main__":
        code = getattr(value, "__code__", None)
        path = code.co_filename if code is not None else getattr(sys.modules["__main__"], "__file__", None) or ""
        stem = os.path.splitext(os.path.basename(path))[0]
        return stem if stem.isidentifier() else "__main__"
    return str(name)


def find(fn: FunctionType, scope: str, module: str, path: str) -> tuple[Any, str, Any]:
    """(dictionary, cell or class that keeps the name, or None; the name; what it stands for now).

    fn: the program's own function. Raises LookupError where the place is not within reach (a module that is not loaded),
    AttributeError where the name is gone.
    """
    if scope == "closure":
        cell = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))[path]
        return cell, path, cell.cell_contents
    if module in (_module_name(fn), fn.__module__):
        names = fn.__globals__
    elif module in sys.modules:
        names = sys.modules[module].__dict__
    else:
        raise LookupError(module)
    path, _, parameter = path.partition("(")
    first, *rest = path.split(".")
    if first not in names:
        raise AttributeError(path)
    if scope == "global":
        return names, path, names[path]
    found: Any = names[first]
    if scope in ("member", "self"):
        for part in rest[:-1]:
            found = getattr(found, part)
        return found, rest[-1], member_of(found, rest[-1])
    for part in rest:
        found = getattr(found, part)
    return None, parameter, default_of(getattr(found, "__wrapped__", found), parameter.rstrip(")"))


def member_of(cls: type, name: str) -> Any:
    """A class's member as it stands in the class that defines it. Raises AttributeError where there is none."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    raise AttributeError(name)


def default_of(fn: FunctionType, name: str) -> object:
    """The default of a parameter. Raises AttributeError where it has none."""
    if name in (fn.__kwdefaults__ or {}):
        return fn.__kwdefaults__[name]  # type: ignore[index]
    code, defaults = fn.__code__, fn.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(defaults):code.co_argcount]
    if name not in names:
        raise AttributeError(name)
    return defaults[names.index(name)]


def first_change(fn: FunctionType, rows: Iterable[Row]) -> tuple[str, str, str] | None:
    """(name, what it stood for, what it stands for now) of the first binding that changed.

    What is out of reach is not judged: a module that is not loaded, a class inside a function.
    """
    for scope, module, path, meaning in rows:
        try:
            now = meaning_of(find(fn, scope, module, path)[2])
        except LookupError:
            continue
        except (AttributeError, ValueError):
            now = "nothing"
        if now != meaning:
            return f"{module}:{path}", meaning, now
    return None


def watched(fn: FunctionType, rows: Iterable[Row]) -> list[tuple[Any, str, Any]]:
    """(dictionary or cell, name, object) of the names that a call compares again: modules are taken to stay."""
    found = []
    for scope, module, path, _ in rows:
        if scope in ("global", "closure"):
            try:
                home, name, value = find(fn, scope, module, path)
            except (LookupError, AttributeError, ValueError):
                continue
            if not isinstance(value, ModuleType):
                found.append((home, name, value))
    return found


def members(fn: FunctionType, rows: Iterable[Row]) -> list[tuple[type, str, Any]]:
    """(class, name, member) of the class members that a call compares again."""
    found = []
    for scope, module, path, _ in rows:
        if scope == "member":
            try:
                found.append(find(fn, scope, module, path))
            except (LookupError, AttributeError, ValueError):
                continue
    return found


def own_names(fn: FunctionType) -> list[tuple[Any, str, Any]]:
    """`watched` of a function that could not be compiled: globals that its own code mentions, there or `ABSENT`."""
    names = fn.__globals__
    return [(names, name, names.get(name, ABSENT)) for name in fn.__code__.co_names
            if not isinstance(names.get(name), ModuleType)]


def methods(fn: FunctionType, rows: Iterable[Row]) -> list[tuple[str, Any]]:
    """(name, member) of what was compiled in for `self.name(...)`: of the type of a call's first argument, it is the same."""
    owner = fn.__qualname__.rpartition(".")[0]
    found = []
    for scope, module, path, _ in rows:
        if scope == "self" and owner:
            try:
                found.append(find(fn, scope, module, path)[1:])
            except (LookupError, AttributeError, ValueError):
                continue
    return found
