"""CPU levels: what each is compiled with, which one this host can run, and the stencil library made for it.

Levels are the x86-64 micro-architecture levels; "generic" is whatever the compiler assumes by itself, and the only one
on other architectures. "v4_on_v3" is for development, on hosts without AVX-512: the code of v4, its vectors, tiles and packs,
compiled for v3. It is built, and used, where PREBAKE_CPU names it, and nowhere else.
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


# What NumPy tells since 2.4. Before that AVX2 stands for them: no CPU has it without them.
_TOLD_LATE = frozenset({"BMI", "BMI2", "LZCNT", "MOVBE"})
_V2_FEATURES = ("SSSE3", "SSE41", "SSE42", "POPCNT")
_V3_FEATURES = (*_V2_FEATURES, "AVX2", "FMA3", "F16C", *sorted(_TOLD_LATE))
# Best first.
LEVELS: dict[str, Level] = {level.name: level for level in (
    Level("v4", "x86-64-v4", 512, ("-march=x86-64-v4", "-mprefer-vector-width=512"),
          ("AVX512F", "AVX512CD", "AVX512BW", "AVX512DQ", "AVX512VL", *_V3_FEATURES)),
    Level("v4_on_v3", "x86-64-v4_on_v3", 512, ("-march=x86-64-v3", "-DPB_VECTOR_BYTES=64", "-Wno-psabi"), _V3_FEATURES),
    Level("v3", "x86-64-v3", 256, ("-march=x86-64-v3",), _V3_FEATURES),
    Level("v2", "x86-64-v2", 128, ("-march=x86-64-v2",), _V2_FEATURES),
    Level("generic", "generic", 128, (), ()),
)}
_ENVIRONMENT = "PREBAKE_CPU"
_libraries: dict[str, ModuleType] = {}


def is_x86() -> bool:
    """Whether this machine is an x86-64."""
    return platform.machine().lower() in ("x86_64", "amd64")


def _named() -> str:
    """The short name in PREBAKE_CPU, or ''."""
    return os.environ.get(_ENVIRONMENT, "").removeprefix("x86-64-")


def built_levels() -> tuple[Level, ...]:
    """The levels that a build for this machine's architecture makes, best first."""
    if not is_x86():
        return (LEVELS["generic"],)
    return tuple(level for level in LEVELS.values() if level.name != "v4_on_v3" or _named() == level.name)


def can_run(level: Level) -> bool:
    """Whether this host and its operating system have what a level's code uses; NumPy asked them."""
    from numpy._core._multiarray_umath import __cpu_features__ as features

    return all(features.get(feature, feature in _TOLD_LATE) for feature in level.features)


def runnable_levels() -> tuple[Level, ...]:
    """The levels that this host can run, best first, "generic" always among them.

    The environment variable PREBAKE_CPU caps them ("v3", or the longer "x86-64-v3"). Raises ValueError when it names no
    level.
    """
    names, cap = list(LEVELS), _named()
    if cap and cap not in LEVELS:
        raise ValueError(f"{_ENVIRONMENT}={os.environ[_ENVIRONMENT]!r} names no CPU level; one of {', '.join(sorted(LEVELS))}")
    allowed = names[names.index(cap):] if cap else names
    return tuple(level for level in built_levels() if level.name in allowed and can_run(level))


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
