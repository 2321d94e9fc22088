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
    "PREBAKE_PACKS": ("", "folder of packs (`prebake pack`) that freeze takes arrays from; off: none, whatever freeze is given"),
    "PREBAKE_CPU": ("", "use kernels of this CPU level at most: x86-64-v2, x86-64-v3, x86-64-v4, generic; v4_on_v3, for "
                    "development: the vectors, tiles and packs of v4 on the instructions of v3"),
    "PREBAKE_CACHE_DIR": ("", "folder of build objects and tier-up kernels; default: the platform's user cache"),
    "PREBAKE_BUILD_JOBS": ("", "compilers that a build runs at the same time; default: the number of CPUs"),
    "PREBAKE_STRICT": ("", "1: a bundle that does not fit raises BundleError instead of warning"),
}


SWITCHES = ("PREBAKE_BUNDLES", "PREBAKE_STRICT")
ON, OFF = ("1", "on", "yes", "true"), ("0", "off", "no", "false")
DUMPS = ("bytecode", "plan", "code", "cython", "times")


def read(name: str) -> str:
    """Value of a variable, its default where it is not set. Raises KeyError for a name outside the table."""
    default = FLAGS[name][0]
    return os.environ.get(name) or default


def is_on(name: str) -> bool:
    """Whether a switch is on: anything but empty, 0, off, no, false."""
    return read(name).lower() not in ("", *OFF)


def words(name: str) -> list[str]:
    """The comma-separated words of a variable."""
    return [word.strip() for word in read(name).split(",") if word.strip()]


def faults() -> list[str]:
    """One line for each variable whose value says nothing: what is allowed, what happens now."""
    found = []
    for name in SWITCHES:
        value = read(name)
        if value and value.lower() not in (*ON, *OFF):
            found.append(_fault(name, value, value.lower(), (*ON, *OFF), "it counts as on"))
    found += [_fault("PREBAKE_DUMP", word, word, DUMPS, "it is passed over")
              for word in words("PREBAKE_DUMP") if word not in DUMPS]
    interval = read("PREBAKE_PROFILE_INTERVAL")
    try:
        float(interval)
    except ValueError:
        found.append(_fault("PREBAKE_PROFILE_INTERVAL", interval, "", ("a number of seconds",), "it counts as 10"))
    return found


def _fault(name: str, value: str, word: str, allowed: tuple[str, ...], effect: str) -> str:
    from .options import suggest

    hint = suggest(word, allowed)
    return f"{name}={value}: allowed are {', '.join(allowed)}; {effect}" + (f"; {hint}" if hint else "")
