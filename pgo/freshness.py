"""Whether a recorded program is still what its source says: digests of source text, nothing is imported."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class SourceState:
    """What became of a program's sources. stale: one line for each function whose text says something else now.

    missing: one line for each function whose module is not to be found, so that nothing can be said of it.
    """

    stale: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def source_state(program: Program, roots: Iterable[str | os.PathLike[str]] = ()) -> SourceState:
    """Compares each function of the program with its source; see `find_source` for where that is looked for."""
    roots = tuple(roots)
    stale, missing = [], []
    for function in program.functions:
        name = f"{function.module}:{function.qualname}"
        path = find_source(function, roots)
        if path is None:
            missing.append(f"source of {name} ({function.file}) not found, freshness not checked")
            continue
        try:
            digests = digests_in(path, function)
        except (OSError, SyntaxError, ValueError) as error:
            stale.append(f"{name} cannot be read from {path} ({error})")
            continue
        if function.digest not in digests:
            now = f"now {digests[-1][:16]}" if digests else "no longer there"
            stale.append(f"{name} in {path} (was {function.digest[:16]}, {now})")
    return SourceState(tuple(stale), tuple(missing))


def digests_in(path: Path, function: SourceFunction) -> tuple[str, ...]:
    """Digests of the definitions of a function in a file. Raises OSError, SyntaxError, ValueError for one unreadable."""
    return function_digests(path.read_text(encoding="utf-8"), function.qualname)


def find_source(function: SourceFunction, roots: Iterable[str | os.PathLike[str]] = ()) -> Path | None:
    """The absolute file of a module, without importing it or its packages; its base name must be the recorded one.

    The folders `roots` come first: a project's own sources win over a copy that is installed here. Then where Python
    looks (sys.path, editable installs), then the project of the working folder.
    """
    if function.module == "__main__":  # a script whose name is no module's
        places = (os.path.join(os.path.abspath(root), function.file) for root in (*roots, os.getcwd()))
        return next((Path(place) for place in places if os.path.isfile(place)), None)
    top, *inner = function.module.split(".")
    for spec in _top_specs(top, [os.path.abspath(root) for root in roots]):
        at: ModuleSpec | None = spec
        name = top
        for part in inner:
            if at is None or at.submodule_search_locations is None:
                at = None
                break
            name = f"{name}.{part}"
            at = PathFinder.find_spec(name, list(at.submodule_search_locations))
        if at is not None and at.origin and at.has_location and os.path.basename(at.origin) == function.file:
            return Path(at.origin).absolute()
    return None


def _top_specs(top: str, roots: Sequence[str]) -> Iterator[ModuleSpec | None]:
    """Where the top-level package or module may be, best first."""
    yield from (PathFinder.find_spec(top, [root]) for root in dict.fromkeys(roots))
    with contextlib.suppress(ImportError, ValueError, AttributeError):
        yield importlib.util.find_spec(top)
    yield from (PathFinder.find_spec(top, [str(root)]) for root in project_roots(os.getcwd()))


def project_roots(folder: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Folders that a project's modules are imported from: the folder itself and what its layout says.

    That is `src/`, and `package-dir` and `packages.find.where` of setuptools, of the folder and of the nearest one
    above it that holds a pyproject.toml.
    """
    start = Path(folder).resolve()
    project = next((place for place in (start, *start.parents) if (place / "pyproject.toml").is_file()), start)
    found: list[Path] = []
    for place in dict.fromkeys((start, project)):
        found += [place, place / "src"]
    return tuple(dict.fromkeys([*found, *(project / name for name in _layout(project / "pyproject.toml"))]))


def _layout(pyproject: Path) -> list[str]:
    """The folders that a pyproject.toml's `[tool.setuptools]` names as parents of packages."""
    import tomllib

    try:
        table = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["setuptools"]
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError):
        return []
    named: list[object] = []
    if isinstance(table, dict):
        parents = table.get("package-dir")
        named += [parents.get("")] if isinstance(parents, dict) else []
        packages = table.get("packages")
        found = packages.get("find") if isinstance(packages, dict) else None
        where = found.get("where") if isinstance(found, dict) else None
        named += where if isinstance(where, list) else []
    return [name for name in named if isinstance(name, str)]
