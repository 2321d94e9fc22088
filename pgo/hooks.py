"""The setuptools plugin: a project whose pyproject.toml names its buckets carries the bundle in every kind of install.

    [build-system]
    requires = ["setuptools", "prebake[build]"]

    [tool.prebake]
    buckets = "buckets.yaml"        # or a list of files
    pure = false                    # true: programs and plans without kernels; needs no compiler
    targets = ["x86-64-v3"]         # CPU levels; all of this machine's when left out
    jobs = 2                        # compilers at the same time; the environment's PREBAKE_BUILD_JOBS comes first
    allow-stale = false

`NAME.yaml` becomes `<package>/__prebake__/NAME/` for each top-level package whose functions it lists. The entry point
is called for every project that is built where prebake is installed; without the table it does nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..vm import flags
from ..vm.errors import ConfigError, PrebakeError
from ..vm.options import suggest

if TYPE_CHECKING:
    from setuptools import Distribution

FOLDER = "__prebake__"
_KEYS: dict[str, tuple[type, ...]] = {"buckets": (str, list), "pure": (bool,), "targets": (list,), "jobs": (int,),
                                      "allow-stale": (bool,)}


@dataclass(frozen=True)
class ProjectOptions:
    """`[tool.prebake]` of a project."""

    root: Path
    buckets: tuple[Path, ...]
    pure: bool = False
    targets: tuple[str, ...] | None = None
    jobs: int | None = None
    allow_stale: bool = False


def read_options(root: Path) -> ProjectOptions | None:
    """The options in `root/pyproject.toml`, or None without `[tool.prebake]`. Raises ConfigError naming the key."""
    import tomllib

    path = root / "pyproject.toml"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("prebake")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return None  # no table that could be ours; setuptools itself says what is wrong with the file
    if table is None:
        return None
    return parse_options(table, root)


def parse_options(table: object, root: Path) -> ProjectOptions:
    """The options in a table. Raises ConfigError for unknown keys, wrong values and files that are not there."""
    if not isinstance(table, Mapping):
        raise _fault("tool.prebake", "a table is expected here")
    for key, value in table.items():
        if key not in _KEYS:
            raise _fault(f"tool.prebake.{key}", f"unknown key '{key}'", suggest(key, list(_KEYS)) or
                         f"known here: {', '.join(_KEYS)}")
        if not isinstance(value, _KEYS[key]) or (isinstance(value, bool) and bool not in _KEYS[key]):
            wanted = " or ".join(t.__name__ for t in _KEYS[key])
            raise _fault(f"tool.prebake.{key}", f"found {value!r}, expected {wanted}")
    if "buckets" not in table:
        raise _fault("tool.prebake.buckets", "is missing", 'name the file: buckets = "buckets.yaml"')
    names = [table["buckets"]] if isinstance(table["buckets"], str) else table["buckets"]
    paths = []
    for name in names:
        if not isinstance(name, str) or Path(name).is_absolute() or ".." in Path(name).parts:
            raise _fault("tool.prebake.buckets", f"found {name!r}, expected a path inside the project")
        if not (root / name).is_file():
            raise _fault("tool.prebake.buckets", f"there is no file '{name}'",
                         f"prebake plan PROFILE -o {name}, and commit it")
        paths.append(Path(name))
    stems = [path.stem for path in paths]
    for stem in stems:
        if stems.count(stem) > 1:
            raise _fault("tool.prebake.buckets", f"two files are called '{stem}': their bundles would be one folder")
    targets = table.get("targets")
    if targets is not None and not all(isinstance(t, str) for t in targets):
        raise _fault("tool.prebake.targets", f"found {targets!r}, expected names of CPU levels")
    if table.get("jobs", 1) < 1:
        raise _fault("tool.prebake.jobs", f"found {table['jobs']}, expected 1 or more")
    return ProjectOptions(root, tuple(paths), table.get("pure", False), tuple(targets) if targets is not None else None,
                          table.get("jobs"), table.get("allow-stale", False))


def _fault(key: str, message: str, hint: str = "") -> ConfigError:
    return ConfigError(message, file="pyproject.toml", key=key, hint=hint)


def finalize_distribution_options(dist: Distribution) -> None:
    """Entry point of setuptools: add the command `build_prebake` to a project that asks for it."""
    if getattr(dist, "_prebake_options", None) is not None:
        return
    try:
        options = read_options(Path(os.getcwd()))
    except PrebakeError as error:
        raise setup_error(error) from error
    if options is None:
        return
    dist._prebake_options = options  # type: ignore[attr-defined]
    from . import hook_commands

    hook_commands.install(dist)


def source_files(options: ProjectOptions) -> list[str]:
    """What an sdist must hold: the YAML files and the folders beside them, relative to the project."""
    from .schema import programs_folder

    found: list[str] = []
    for path in options.buckets:
        found.append(path.as_posix())
        folder = programs_folder(options.root / path)
        found += sorted(p.relative_to(options.root).as_posix() for p in folder.rglob("*") if p.is_file())
    return found


def build_bundles(options: ProjectOptions, place_of: Any, roots: list[str], progress: bool = False) -> list[Path]:
    """Build every bundle; place_of(top-level name) is the folder that gets `__prebake__/NAME`. Returns the folders.

    Raises an error of setuptools with the reason.
    """
    from .buckets_text import read_buckets
    from .build import build, top_level

    made = []
    try:
        for path in options.buckets:
            config = read_buckets(options.root / path)
            for package in sorted({top_level(f.qualname) for f in config.functions}):
                place = Path(place_of(package)) / FOLDER / path.stem
                jobs = None if flags.read("PREBAKE_BUILD_JOBS") else options.jobs
                made.append(build(options.root / path, place, targets=options.targets, jobs=jobs, pure=options.pure,
                                  allow_stale=options.allow_stale, progress=progress, roots=roots, package=package))
    except PrebakeError as error:
        raise setup_error(error) from error
    return made


def setup_error(error: PrebakeError) -> Exception:
    """The error as setuptools prints it: without a traceback."""
    from setuptools.errors import SetupError

    return SetupError(f"prebake: {error}")
