"""Qualified names: 'module:qualname', with a script's stem in place of `__main__`."""

from __future__ import annotations

import os
import sys
from typing import Any


def qualified_name(fn: Any) -> str:
    """'module:qualname' of a function, the key of statistics, profiles and bundles."""
    return f"{module_of(fn)}:{fn.__qualname__}"


def module_of(fn: Any) -> str:
    """The module of a function, a script's stem in place of `__main__`."""
    name = fn.__module__
    if name and name != "__main__":
        return str(name)
    from ..lang.source import module_name  # it loads regular expressions

    return module_name(fn)


def main_module_name() -> str:
    """The name that `__main__` goes by in recorded type names: its file's stem."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    stem = os.path.splitext(os.path.basename(path))[0] if isinstance(path, str) else ""
    return stem if stem.isidentifier() else "__main__"


def module_file(module: str, base_name: str) -> str | None:
    """The file of a module whose base name is `base_name`; nothing is imported. None where there is none."""
    loaded = sys.modules.get(module)
    if loaded is None and module == main_module_name():
        loaded = sys.modules.get("__main__")
    path = getattr(loaded, "__file__", None)
    if isinstance(path, str):
        return path if os.path.basename(path) == base_name and os.path.isfile(path) else None
    from importlib.machinery import PathFinder

    places: list[str] | None = None
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        spec = PathFinder.find_spec(name, places)
        if spec is None:
            return None
        places = list(spec.submodule_search_locations or ())
    origin = spec.origin if spec is not None and spec.has_location else None
    return origin if origin is not None and os.path.basename(origin) == base_name else None
