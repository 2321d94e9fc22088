"""The C compiler and Cython: the only place of prebake that starts other programs.

A build needs a GCC or a Clang. Our flags come after those of the environment (CFLAGS, CPPFLAGS, LDFLAGS), so that they
add to ours and never take -O3 or the floating-point rules away. Outputs hold no path and no time.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..vm.errors import ConfigError, InternalError

INCLUDE = Path(__file__).resolve().parent.parent / "templates" / "include"
# The oldest Python whose stable ABI the bundles use; one file serves all later ones.
LIMITED_API = "0x030B0000"
ABI3_SUFFIX = ".abi3.so"

# GCC 12 loses the rounding of (double)(float)x where it packs a few statements into vectors: loops alone are vectorised.
_FLAGS = ("-std=gnu11", "-fPIC", "-fvisibility=hidden", "-pipe", "-w", "-fno-tree-slp-vectorize")


@dataclass(frozen=True)
class Toolchain:
    """A C compiler: its command, its version line, and whether it is Clang."""

    command: tuple[str, ...]
    version: str
    is_clang: bool

    def flags(self, level_flags: Sequence[str], level: str) -> list[str]:
        """Everything but file names: the environment's flags, ours, the level's (-O3 and the rules of arithmetic)."""
        extra = shlex.split(os.environ.get("CPPFLAGS", "")) + shlex.split(os.environ.get("CFLAGS", ""))
        flags = [*extra, *_FLAGS, *level_flags, f'-DPB_LEVEL="{level}"', f"-DPy_LIMITED_API={LIMITED_API}"]
        if not self.is_clang:
            flags.append("-fno-semantic-interposition")
        return flags

    @property
    def kernel_flags(self) -> list[str]:
        """Further flags for kernels: their loops work on several registers side by side, and GCC moves operations that do not
        wait for each other next to each other when it may do so before it allocates registers."""
        return [] if self.is_clang else ["-fschedule-insns", "-fsched-pressure"]

    def compile(self, source: Path, output: Path, flags: Sequence[str], objects: Sequence[Path] | None = None) -> None:
        """Compile a C file and link it with `objects` into a shared object; with None, compile it into an object.

        Raises InternalError with the compiler's own words.
        """
        folder = source.parent
        command = [*self.command, *flags, f"-ffile-prefix-map={folder}=.", "-I", str(INCLUDE),
                   "-I", sysconfig.get_path("include"), source.name, "-o", str(output.resolve())]
        if objects is None:
            command.append("-c")
        else:
            command += [*(str(path) for path in objects), "-shared", "-Wl,--build-id=none", "-Wl,-s",
                        *shlex.split(os.environ.get("LDFLAGS", "")), "-lm"]
        done = _run(command, folder)
        if done.returncode:
            raise InternalError(f"the C compiler failed on generated code\n  command   {shlex.join(command)}\n"
                                f"  says      {_tail(done.stderr)}")


def find_toolchain() -> Toolchain:
    """The compiler that CC names, or the first of gcc, clang, cc. Raises ConfigError where there is none."""
    wanted = os.environ.get("CC", "")
    candidates = [wanted] if wanted else ["gcc", "clang", "cc"]
    for name in candidates:
        command = tuple(shlex.split(name))
        if not command or shutil.which(command[0]) is None:
            continue
        done = _run([*command, "--version"], None)
        if done.returncode == 0 and done.stdout.strip():
            first = done.stdout.splitlines()[0].strip()
            return Toolchain(command, first, "clang" in done.stdout.lower())
    what = f"{wanted!r} cannot be run" if wanted else "none of gcc, clang, cc is on the PATH"
    raise ConfigError(
        f"no C compiler: {what}", key="CC",
        hint="install gcc or clang, or set CC; for a wheel without kernels: `[tool.prebake] pure = true`")


def compile_cython(source: Path) -> Path:
    """The C file that Cython makes of a `.pyx` file, beside it.

    Raises ConfigError where Cython is not installed, InternalError when it refuses the text.
    """
    if not cython_version():
        raise ConfigError("building a bundle needs Cython", key="Cython", hint='pip install "prebake[build]"')
    output = source.with_suffix(".c")
    command = [sys.executable, "-P", "-m", "cython", "-3", "--module-name", source.stem, source.name, "-o", output.name]
    done = _run(command, source.parent)
    if done.returncode or not output.exists():
        raise InternalError(f"Cython {cython_version()} failed on the bundle's module\n"
                            f"  says      {_tail(done.stderr or done.stdout)}")
    return output


def cython_version() -> str:
    """Cython's version, or '' where it is not installed."""
    try:
        from Cython import __version__
    except ImportError:
        return ""
    return str(__version__)


def _search_path() -> str:
    """PYTHONPATH for a process that must find this very prebake, and what this process finds."""
    package = Path(__file__).parent.parent
    first = [str(package.parent)] if (package / "__init__.py").is_file() else []  # not so in a checkout
    return os.pathsep.join([*first, *filter(None, sys.path)])


def run_python(module: str, args: Sequence[str], *, timeout_seconds: float) -> tuple[int, str]:
    """Exit code and output of `python -m module args` in a process of its own (a negative code: a signal)."""
    try:
        done = subprocess.run([sys.executable, "-P", "-m", module, *args], capture_output=True, text=True, check=False,
                              timeout=timeout_seconds, env={**os.environ, "PYTHONPATH": _search_path()})
    except subprocess.TimeoutExpired:
        return 124, f"no answer within {timeout_seconds:.0f} seconds"
    return done.returncode, done.stdout + done.stderr


def machine() -> str:
    """The architecture that is built for: 'x86_64', 'aarch64', ..."""
    return platform.machine().lower()


def _run(command: Sequence[str], folder: Path | None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "LC_ALL": "C", "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "315532800")}
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=env)
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))


def _tail(text: str, lines: int = 12) -> str:
    kept = text.strip().splitlines()
    return "\n            ".join(kept[:lines]) or "nothing"
