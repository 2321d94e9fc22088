"""PREBAKE_LOG and PREBAKE_DUMP: one line a compile, each fallback once, and dumps on stderr."""

from __future__ import annotations

import sys
import warnings

from .. import flags

_once: set[str] = set()


def is_logging() -> bool:
    """Whether PREBAKE_LOG asks for lines."""
    return flags.is_on("PREBAKE_LOG")


def log(line: str) -> None:
    """Write a line where PREBAKE_LOG says: stderr, or the file that it names."""
    target = flags.read("PREBAKE_LOG")
    if not flags.is_on("PREBAKE_LOG"):
        return
    text = f"prebake: {line}\n"
    if target.lower() in ("1", "on", "yes", "true", "stderr"):
        sys.stderr.write(text)
        return
    try:
        with open(target, "a", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        sys.stderr.write(text)


def log_once(line: str) -> None:
    """`log`, but every text only once in a process."""
    if line not in _once:
        if len(_once) < 10_000:
            _once.add(line)
        log(line)


def warn(text: str) -> None:
    """A RuntimeWarning at the caller's line outside this package."""
    package, level, frame = __name__.partition(".")[0], 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == package:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, RuntimeWarning, stacklevel=level)


def warn_once(text: str) -> None:
    """`warn`, but every text only once in a process."""
    if text not in _once:
        _once.add(text)
        warn(text)


def wants_dump(what: str) -> bool:
    """Whether PREBAKE_DUMP names this stage."""
    return what in flags.words("PREBAKE_DUMP")


def dump(title: str, text: str) -> None:
    """Print a stage's text on stderr."""
    sys.stderr.write(f"--- {title}\n{text.rstrip()}\n")


def stage_times(start: float, marks: list[tuple[str, float]]) -> str:
    """'plan 0.94, lower 0.41, tape 0.32': milliseconds of the stages that ended."""
    starts = [start, *(when for _, when in marks)]
    return ", ".join(f"{name} {(when - before) * 1e3:.2f}" for (name, when), before in zip(marks, starts, strict=False))
