"""What the frontend can learn of a call's arguments, kept when the call is over: containers and objects without their data.

A program is compiled for the layers and functions that its first call held. When a call brings others, the function is
compiled again for all that were seen so far, so that one program (and one bundle) serves them. Arguments are gone by then, and
keeping them would keep a model's weights alive. A prototype keeps their structure: containers and objects of the same
classes, functions, names and numbers; `UNKNOWN` stands for arrays and for whatever cannot be copied without running code.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Sequence
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import numpy as np

from ...bindings import underlying
from .held import UNKNOWN

MAX_PARTS = 4096  # of all arguments of one call
_KEPT = (int, float, complex, str, bytes, type(None), type, ModuleType, FunctionType, BuiltinFunctionType, np.ufunc,
         type(np.sum), np.dtype, enum.Enum)


def prototypes(live: Sequence[Any]) -> tuple[Any, ...]:
    """A prototype of each argument. They share what the arguments share."""
    known: dict[int, Any] = {}
    return tuple([_prototype(value, known) for value in live])


def _prototype(value: Any, known: dict[int, Any]) -> Any:
    if isinstance(value, _KEPT) or underlying(value) is not value:
        return value if not isinstance(value, MethodType) else UNKNOWN
    found = known.get(id(value), known)
    if found is not known:
        return found
    if isinstance(value, (np.ndarray, np.generic)) or len(known) >= MAX_PARTS:
        return UNKNOWN
    known[id(value)] = UNKNOWN  # while it is made: of tuples that hold themselves
    made = known[id(value)] = _copy(value, known)
    return made


def _copy(value: Any, known: dict[int, Any]) -> Any:
    cls = type(value)
    if getattr(cls, "__del__", None) is not None:
        return UNKNOWN
    if isinstance(value, functools.partial):
        parts = [_prototype(part, known) for part in value.args]
        return functools.partial(value.func, *parts, **{k: _prototype(v, known) for k, v in value.keywords.items()})
    made: Any
    if isinstance(value, tuple):
        made = tuple.__new__(cls, [_prototype(part, known) for part in tuple.__iter__(value)])
    elif isinstance(value, list):
        made = known[id(value)] = list.__new__(cls)
        list.extend(made, [_prototype(part, known) for part in list.__iter__(value)])
    elif isinstance(value, dict):
        made = known[id(value)] = {}
        for key, part in dict.items(value):
            made[key] = _prototype(part, known)
        return made
    else:
        try:
            made = known[id(value)] = object.__new__(cls)
        except TypeError:  # its memory is laid out by C code
            return UNKNOWN
    _copy_attributes(value, made, known)
    return made


def _copy_attributes(value: Any, made: Any, known: dict[int, Any]) -> None:
    """What an object keeps in its dictionary and slots, read and written without code of its class."""
    try:
        kept, copied = object.__getattribute__(value, "__dict__"), object.__getattribute__(made, "__dict__")
    except AttributeError:
        kept = copied = {}
    for name, part in list(kept.items()):
        copied[name] = _prototype(part, known)
    for base in type(value).__mro__:
        for slot in vars(base).values():
            if isinstance(slot, MemberDescriptorType) and base.__module__ != "builtins":
                try:
                    part = slot.__get__(value)
                except AttributeError:
                    continue
                slot.__set__(made, _prototype(part, known))
