"""What `prebake dis` and `prebake explain` look at: functions by name, arguments by description."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from ..vm.errors import ConfigError
from ..vm.lang.bytecode import Program
from ..vm.plan.signature import DTYPE_NAMES
from .schema import suggest

NUMPY_DTYPE_NAMES = sorted({dtype.name for dtype in DTYPE_NAMES} | {"complex64", "complex128"})
_OBJECT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_ARRAY = re.compile(r"([a-z]+[0-9]*)\[([0-9,\s]*)\]")


def disassemble(what: str) -> str:
    """The text form of FILE.msbc, FILE.py:FUNCTION or MODULE:FUNCTION. Raises ConfigError for what is not there."""
    if what.endswith(".py"):
        raise ConfigError("which of its functions?", file=what, hint=f"{what}:FUNCTION")
    if ":" not in what or what.endswith(".msbc"):
        try:
            data = Path(what).read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot be read ({error.strerror})", file=what,
                              hint="give FILE.msbc, FILE.py:FUNCTION or MODULE:FUNCTION") from error
        return Program.from_bytes(data).disassemble()
    return decorated(what).bytecode.disassemble()


def explain(what: str, arguments: Sequence[str]) -> object:
    """`fn.explain(...)` of a function for arguments given as NAME=VALUE (see `parse_argument`)."""
    function = decorated(what)
    values = dict(parse_argument(text) for text in arguments)
    names = [parameter.name for parameter in function.bytecode.params]
    unknown = sorted(set(values) - set(names))
    if unknown:
        raise ConfigError(f"'{what}' has no parameter '{unknown[0]}'", key="--arg", hint=suggest(unknown[0], names))
    missing = [p.name for p in function.bytecode.params if p.default < 0 and p.name not in values]
    if missing:
        raise ConfigError(f"nothing was given for {', '.join(missing)}", key="--arg",
                          hint=f"--arg '{missing[0]}=float32[32,784]', or {missing[0]}=MODULE:NAME for an object")
    return function.explain(**values)


def parse_argument(text: str) -> tuple[str, object]:
    """('x', array) for `x=float32[32,784]` (values are of no interest), ('n', 3) for `n=3` or any Python literal.

    `self=models.risk:MODEL` gives the object that a module holds.
    """
    name, mark, value = text.partition("=")
    if not mark or not name.isidentifier():
        raise ConfigError(f"'{text}' is not NAME=VALUE", key="--arg", hint="x=float32[32,784] or n=3")
    if _OBJECT.fullmatch(value.strip()):
        return name, _object_at(value.strip())
    match = _ARRAY.fullmatch(value.strip())
    if match is None:
        try:
            return name, ast.literal_eval(value.strip())
        except (ValueError, SyntaxError) as error:
            raise ConfigError(f"'{value}' is no array such as float32[32,784], no MODULE:NAME and no Python literal",
                              key=f"--arg {name}") from error
    try:
        dtype = np.dtype(match[1])
    except TypeError as error:
        raise ConfigError(f"there is no dtype '{match[1]}'", key=f"--arg {name}",
                          hint=suggest(match[1], NUMPY_DTYPE_NAMES)) from error
    shape = tuple(int(part) for part in match[2].split(",") if part.strip())
    return name, np.ones(shape, dtype)


def decorated(what: str) -> Any:
    """The decorated function at FILE.py:QUALNAME or MODULE:QUALNAME; a plain function is decorated on the spot."""
    value = _object_at(what)
    if isinstance(value, FunctionType):
        from ..vm.run.dispatch import jit

        return jit(value)
    if not hasattr(value, "bytecode"):
        raise ConfigError(f"'{what}' is {type(value).__name__}, not a function", file=what.rpartition(":")[0])
    return value


def _object_at(what: str) -> Any:
    """What FILE.py:QUALNAME or MODULE:QUALNAME names."""
    place, _, qualname = what.rpartition(":")
    module = _import_file(Path(place)) if place.endswith(".py") else _import_module(place)
    value: Any = module
    for part in qualname.split("."):
        if not hasattr(value, part):
            raise ConfigError(f"'{place}' has no '{qualname}'", file=place,
                              hint=suggest(part, [n for n in dir(value) if not n.startswith("_")]))
        value = getattr(value, part)
    return value


def _import_module(name: str) -> Any:
    if os.getcwd() not in sys.path:  # as `python -m` does
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"module '{name}' cannot be imported ({error})", key="MODULE:FUNCTION",
                          hint="run it where Python finds the module, or give FILE.py:FUNCTION") from error


def _import_file(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise ConfigError("there is no such Python file", file=str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))
    spec.loader.exec_module(module)
    return module
