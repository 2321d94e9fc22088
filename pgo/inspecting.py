"""What `prebake dis` and `prebake explain` look at: functions by name, arguments by description."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from ..vm.errors import ConfigError
from ..vm.lang.bytecode import Program
from ..vm.plan.signature import DTYPE_NAMES
from ..vm.run.explain import Explanation
from .freshness import project_roots
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


def explain(what: str, arguments: Sequence[str], bundle: str | None = None) -> Explanation:
    """`fn.explain(...)` of a function for arguments given as NAME=VALUE (see `parse_argument`).

    bundle: a folder that is loaded first; without it, bundles beside the function's package are looked for alone.
    Raises BundleError for one that does not fit.
    """
    if bundle is not None:
        from ..vm.run.bundle import load_bundle

        loaded = load_bundle(bundle)
        if loaded.error is not None:
            raise loaded.error
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
    found: Explanation = function.explain(**values)
    return found


def parse_argument(text: str) -> tuple[str, object]:
    """('x', array) for `x=float32[32,784]` (values are of no interest), ('n', 3) for `n=3` or any Python literal.

    `self=models.risk:MODEL` gives the object that a module holds.
    """
    name, mark, value = text.partition("=")
    if not mark or not name.isidentifier():
        raise ConfigError(f"'{text}' is not NAME=VALUE", key="--arg", hint="x=float32[32,784] or n=3")
    if _OBJECT.fullmatch(value.strip()):
        return name, object_at(value.strip())
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
    value = object_at(what)
    if isinstance(value, FunctionType):
        from ..vm.run.dispatch import jit

        return jit(value)
    if not hasattr(value, "bytecode"):
        raise ConfigError(f"'{what}' is {type(value).__name__}, not a function", file=what.rpartition(":")[0])
    return value


def object_at(what: str) -> Any:
    """What FILE.py:QUALNAME or MODULE:QUALNAME names."""
    place, _, qualname = what.rpartition(":")
    if not place or not qualname:
        raise ConfigError(f"'{what}' names no function", key="MODULE:FUNCTION", hint="MODULE:FUNCTION or FILE.py:FUNCTION")
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
    sys.path += [str(root) for root in project_roots(os.getcwd()) if root.is_dir() and str(root) not in sys.path]
    return _imported(lambda: importlib.import_module(name), f"module '{name}'",
                     "run it where Python finds the module, or give FILE.py:FUNCTION")


def _import_file(path: Path) -> Any:
    """The module of a file, by its dotted name where the file lies in a package, so that relative imports work."""
    if not path.is_file():
        raise ConfigError("there is no such Python file", file=str(path))
    place = path.resolve()
    parts = [] if place.stem == "__init__" else [place.stem]
    folder = place.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    sys.path.insert(0, str(folder))
    hint = "give MODULE:FUNCTION, where Python finds the module"
    if len(parts) > 1 or place.stem == "__init__":
        return _imported(lambda: importlib.import_module(".".join(parts)), f"'{path}'", hint)

    def load() -> Any:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise ImportError("no loader")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        return module

    return _imported(load, f"'{path}'", hint)


def _imported(load: Callable[[], Any], what: str, hint: str) -> Any:
    """The module that `load` makes. Raises ConfigError for whatever the user's module raises, with its place."""
    try:
        return load()
    except (Exception, SystemExit) as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        where = "" if isinstance(error, (SyntaxError, SystemExit)) or at.filename.startswith("<") \
            else f", raised at {at.filename}:{at.lineno}"
        raise ConfigError(f"{what} cannot be imported ({type(error).__name__}: {error}{where})", key="MODULE:FUNCTION",
                          hint=hint) from error
