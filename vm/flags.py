"""Every environment variable that prebake reads, in one table; `read(name)` gives its value now."""

from __future__ import annotations

import os

# name -> (default, what it does). A variable that is set to the empty string counts as not set.
FLAGS: dict[str, tuple[str, str]] = {
    "PREBAKE_ENGINE": ("auto", "engine of every call: auto, prebuilt, jit, interpreter, python"),
    "PREBAKE_BUNDLES": ("on", "off: no bundle is looked for or used (the rollback switch)"),
    "PREBAKE_LOG": ("", "1: one line on stderr for each compile, fallback and bundle; a path: append there instead"),
    "PREBAKE_DUMP": ("", "comma-separated: bytecode, plan, code, cython, printed on stderr when they are made; "
                         "times of the JIT's steps, printed at exit"),
    "PREBAKE_PROFILE": ("", "path: record shapes from the start of the process, merge them into this file at exit"),
    "PREBAKE_PROFILE_INTERVAL": ("10", "seconds between two writes of a process's own shard"),
    "PREBAKE_CPU": ("", "use kernels of this CPU level at most: x86-64-v2, x86-64-v3, x86-64-v4, generic"),
    "PREBAKE_CACHE_DIR": ("", "folder of build objects and tier-up kernels; default: the platform's user cache"),
    "PREBAKE_BUILD_JOBS": ("", "compilers that a build runs at the same time; default: the number of CPUs"),
    "PREBAKE_STRICT": ("", "1: a bundle that does not fit raises BundleError instead of warning"),
}


def read(name: str) -> str:
    """Value of a variable, its default where it is not set. Raises KeyError for a name outside the table."""
    default = FLAGS[name][0]
    return os.environ.get(name) or default


def is_on(name: str) -> bool:
    """Whether a switch is on: anything but empty, 0, off, no, false."""
    return read(name).lower() not in ("", "0", "off", "no", "false")
