"""CPU levels: what each is compiled with, which one this host can run, and the stencil library made for it.

Levels are the x86-64 micro-architecture levels; "generic" is whatever the compiler assumes by itself, and the only one
on other architectures.
"""

from __future__ import annotations

import os
import platform
from importlib import import_module
from types import ModuleType
from typing import NamedTuple

# Nothing here assumes away NaN, infinities or signed zeros; FMA only where the source asks for it.
COMMON_FLAGS: tuple[str, ...] = (
    "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing",
)


class Level(NamedTuple):
    """One CPU level. name: short ("v3"); target: as in bundles and `pb_library.level`; register_bits: vector registers;
    features: NumPy's names of what the host must have."""

    name: str
    target: str
    register_bits: int
    march: tuple[str, ...]
    features: tuple[str, ...]

    @property
    def flags(self) -> tuple[str, ...]:
        """Compiler flags of the level, the common ones included."""
        return COMMON_FLAGS + self.march


# Best first.
LEVELS: dict[str, Level] = {level.name: level for level in (
    Level("v4", "x86-64-v4", 512, ("-march=x86-64-v4", "-mprefer-vector-width=512"),
          ("AVX512F", "AVX512CD", "AVX512BW", "AVX512DQ", "AVX512VL", "AVX2", "FMA3", "F16C")),
    Level("v3", "x86-64-v3", 256, ("-march=x86-64-v3",), ("AVX2", "FMA3", "F16C")),
    Level("v2", "x86-64-v2", 128, ("-march=x86-64-v2",), ("SSSE3", "SSE41", "SSE42", "POPCNT")),
    Level("generic", "generic", 128, (), ()),
)}
_ENVIRONMENT = "PREBAKE_CPU"
_libraries: dict[str, ModuleType] = {}


def is_x86() -> bool:
    """Whether this machine is an x86-64."""
    return platform.machine().lower() in ("x86_64", "amd64")


def built_levels() -> tuple[Level, ...]:
    """The levels that a build for this machine's architecture makes, best first."""
    return tuple(LEVELS.values()) if is_x86() else (LEVELS["generic"],)


def runnable_levels() -> tuple[Level, ...]:
    """The levels that this host can run, best first, "generic" always among them.

    The environment variable PREBAKE_CPU caps them ("v3", or the longer "x86-64-v3"). Raises ValueError when it names no
    level.
    """
    from numpy._core._multiarray_umath import __cpu_features__ as features  # type: ignore[import-not-found]

    levels = [level for level in built_levels() if all(features.get(f, False) for f in level.features)]
    cap = os.environ.get(_ENVIRONMENT, "")
    if cap:
        names = [level.name for level in LEVELS.values()]
        short = cap.removeprefix("x86-64-")
        if short not in LEVELS:
            raise ValueError(f"{_ENVIRONMENT}={cap!r} names no CPU level; one of {', '.join(sorted(names))}")
        allowed = names[names.index(short):]
        levels = [level for level in levels if level.name in allowed]
    return tuple(levels)


def host_level() -> Level:
    """The best level that this host can run, capped by PREBAKE_CPU."""
    return runnable_levels()[0]


def load_stencils(name: str | None = None) -> ModuleType:
    """The stencil library of level `name`, or the best one that the host can run and that was built.

    The module has `table` (capsule "prebake.stencils"), `table_address`, `bind_address`, `run_address` (integers) and
    `level`. It is imported once. Raises ImportError when there is none.
    """
    key = name or ""
    found = _libraries.get(key)
    if found is not None:
        return found
    from .stencils import table_text

    wanted = (LEVELS[name],) if name else runnable_levels()
    errors = []
    for level in wanted:
        try:
            found = import_module(f"._stencils_{level.name}", __package__)
        except ImportError as error:
            errors.append(f"{level.name}: {error}")
            continue
        if found.tables != table_text():
            errors.append(f"{level.name}: built from other sources than these, build again")
            continue
        _libraries[key] = found
        return found
    raise ImportError(f"no stencil library could be loaded ({'; '.join(errors)}); was prebake built?")
