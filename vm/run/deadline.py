"""A time limit for Python code that this thread runs: how a runaway specialisation ends.

One sleeping watcher thread serves all limits; where a limit passes, it raises `Overdue` inside the thread that is late.
Code that sits in one long C call is interrupted when that call returns.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Overdue(BaseException):
    """The time limit passed. Not an `Exception`: code that handles errors must not swallow it."""


class _Limit:
    __slots__ = ("fired", "thread", "when")

    def __init__(self, thread: int, when: float) -> None:
        self.thread, self.when, self.fired = thread, when, False


_limits: list[_Limit] = []
_changed = threading.Condition()
_watcher: threading.Thread | None = None


@contextmanager
def time_limit(limit_ms: float) -> Iterator[None]:
    """Run the block for `limit_ms` milliseconds at most. Raises Overdue inside it when they have passed."""
    limit = _Limit(threading.get_ident(), time.monotonic() + limit_ms / 1e3)
    with _changed:
        _start_watcher()
        _limits.append(limit)
        if limit is min(_limits, key=lambda entry: entry.when):
            _changed.notify()
    try:
        yield
    finally:
        with _changed:
            if not limit.fired:
                _limits.remove(limit)
            else:
                _raise_in(limit.thread, None)  # in case that it was not delivered yet


def _start_watcher() -> None:
    global _watcher
    if _watcher is None or not _watcher.is_alive():
        _watcher = threading.Thread(target=_watch, name="prebake-deadline", daemon=True)
        _watcher.start()


def _watch() -> None:
    with _changed:
        while True:
            now = time.monotonic()
            for limit in [entry for entry in _limits if entry.when <= now]:
                _limits.remove(limit)
                limit.fired = True
                _raise_in(limit.thread, Overdue)
            _changed.wait(min((entry.when for entry in _limits), default=now + 3600) - now)


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    import ctypes

    value = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), value)


def reset_after_fork() -> None:
    """The watcher does not exist in a child, and the lock may be held by nobody."""
    global _watcher, _changed
    _watcher, _changed = None, threading.Condition()
    _limits.clear()
