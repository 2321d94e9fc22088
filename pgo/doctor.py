"""`prebake doctor`: what this machine has of what prebake needs (run time) and can use (build time)."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from ..vm.errors import ConfigError, PrebakeError


@dataclass(frozen=True)
class Finding:
    """One line. optional: nothing is broken without it."""

    name: str
    ok: bool
    text: str
    optional: bool = False

    def __str__(self) -> str:
        return f"{'ok  ' if self.ok else '--  ' if self.optional else 'FAIL'} {self.name:<14} {self.text}"


def examine() -> list[Finding]:
    """All findings, run time first."""
    return [_guarded(*item) for item in _CHECKS]


def _guarded(name: str, check: Callable[[], str], optional: bool, cure: str) -> Finding:
    try:
        return Finding(name, True, check(), optional)
    except Exception as error:  # whatever is broken here is what the reader wants to know
        first = (str(error).splitlines() or [""])[0]
        if isinstance(error, PrebakeError):  # of a setting, say: nothing is broken that could be installed again
            cure = getattr(error, "hint", "")
        else:
            first = f"{type(error).__name__}: {first}"
        return Finding(name, False, first + (f"; {cure}" if cure else ""), optional)


def _python() -> str:
    return (f"{platform.python_implementation()} {platform.python_version()}, {platform.machine()}, "
            f"{os.cpu_count()} CPUs")


def _numpy() -> str:
    import numpy

    if int(numpy.__version__.split(".")[0]) < 2:
        raise RuntimeError(f"{numpy.__version__} is older than 2.0")
    return numpy.__version__


def _dispatcher() -> str:
    """A decorated function answers, and who served it."""
    import numpy

    from ..vm.run.dispatch import jit

    probe = jit(_double)
    if not (probe(numpy.arange(3.0)) == numpy.arange(3.0) * 2).all():
        raise RuntimeError("x + x is wrong")
    stats = probe.stats()
    served = next(n for n in ("prebuilt", "jit", "interpreter", "python") if stats[n])
    return f"a small call is served by: {served}"


def _double(x):
    return x + x


def _level() -> str:
    from ..vm.run.bundle import usable_levels

    return ", ".join(usable_levels())


def _compiler() -> str:
    from .toolchain import find_toolchain

    return find_toolchain().version


def _module(name: str) -> Callable[[], str]:
    def version() -> str:
        module = import_module(name)
        return str(getattr(module, "__version__", "installed"))

    return version


def _cache() -> str:
    from .object_cache import cache_folder

    folder = cache_folder()
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        return f"{folder} can be written"


def _environment() -> str:
    from ..vm.flags import FLAGS, faults, read
    from ..vm.options import OPTIONS, suggest

    wrong = []
    for name in sorted(n for n in os.environ if n.startswith("PREBAKE_") and n not in FLAGS):
        wrong.append("; ".join(filter(None, [f"{name} is no variable of prebake's", suggest(name, list(FLAGS))])))
    try:
        OPTIONS["engine"].check(read("PREBAKE_ENGINE"))
    except ConfigError as error:
        wrong.append("; ".join(filter(None, [f"PREBAKE_ENGINE: {error.message}", error.hint])))
    wrong += faults()
    if wrong:
        raise ConfigError("; ".join(wrong))
    return ", ".join(f"{n}={os.environ[n]}" for n in FLAGS if os.environ.get(n)) or "no PREBAKE_ variable is set"


_EXTRA = 'pip install "prebake[build]"'
# name, check, optional, cure
_CHECKS: tuple[tuple[str, Callable[[], str], bool, str], ...] = (
    ("python", _python, False, ""),
    ("numpy", _numpy, False, 'pip install "numpy>=2"'),
    ("cpu level", _level, False, ""),
    ("calls", _dispatcher, False, "the wheel's compiled parts do not fit: install prebake again"),
    ("environment", _environment, False, ""),
    ("compiler", _compiler, True, ""),
    ("cython", _module("Cython"), True, _EXTRA),
    ("setuptools", _module("setuptools"), True, _EXTRA),
    ("pyyaml", _module("yaml"), True, _EXTRA),
    ("tqdm", _module("tqdm"), True, _EXTRA),
    ("cache", _cache, True, "set PREBAKE_CACHE_DIR to a folder that can be written"),
)
