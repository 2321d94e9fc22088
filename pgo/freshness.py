"""Whether a recorded program is still what its source says: digests of source text, nothing is imported."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from ..vm.errors import PlanError, VerifyError
from ..vm.lang.bytecode import Program, SourceFunction
from ..vm.lang.source import function_digests


def load_program(data: bytes, digest: str, what: str) -> Program:
    """The verified program of some bytes. Raises PlanError when they are damaged or not the program of `digest`."""
    try:
        program = Program.from_bytes(data)
    except VerifyError as error:
        raise PlanError(f"{what}: its program is damaged\n  {error.faults[0] if error.faults else error}") from error
    if program.digest != digest:
        raise PlanError(f"{what}: its program is not the one that was counted\n  found     digest {program.digest}\n"
                        f"  expected  digest {digest}\n  effect    its shapes belong to another program\n"
                        "  fix       record the profile again")
    return program


def stale_sources(program: Program, roots: Iterable[str | os.PathLike[str]] = ()) -> list[str]:
    """One line for each function of the program whose source text says something else now.

    Sources are looked for as Python would (sys.path, editable installs), then below `roots` and the working folder.
    A module that is not to be found says nothing: profiles are planned on machines without the source too.
    """
    found = []
    for function in program.functions:
        path = find_source(function, roots)
        if path is None:
            continue
        try:
            digests = function_digests(path.read_text(encoding="utf-8"), function.qualname)
        except (OSError, SyntaxError, ValueError) as error:
            found.append(f"{function.module}:{function.qualname} cannot be read from {path.name} ({error})")
            continue
        if function.digest not in digests:
            now = f"now {digests[-1][:16]}" if digests else "no longer there"
            found.append(f"{function.module}:{function.qualname} in {path.name} (was {function.digest[:16]}, {now})")
    return found


def find_source(function: SourceFunction, roots: Iterable[str | os.PathLike[str]] = ()) -> Path | None:
    """The file of a module, without importing it or its packages; its base name must be the recorded one."""
    top, *inner = function.module.split(".")
    specs: list[ModuleSpec | None] = []
    try:
        specs.append(importlib.util.find_spec(top) if top != "__main__" else None)
    except (ImportError, ValueError, AttributeError):
        specs.append(None)
    places = [os.fspath(root) for root in roots] + [os.getcwd()]
    specs += [PathFinder.find_spec(top, [place]) for place in dict.fromkeys(places)]
    for spec in specs:
        at = spec
        name = top
        for part in inner:
            if at is None or at.submodule_search_locations is None:
                at = None
                break
            name = f"{name}.{part}"
            at = PathFinder.find_spec(name, list(at.submodule_search_locations))
        if at is not None and at.origin and at.has_location and os.path.basename(at.origin) == function.file:
            return Path(at.origin)
    return None
