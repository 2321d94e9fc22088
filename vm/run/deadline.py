"""A time limit for Python code that this thread runs: how a runaway specialisation ends.

One sleeping watcher thread serves all limits; where a limit passes, it raises `Overdue` inside the thread that is late.
Code that sits in one long C call is interrupted when that call returns.
"""

from __future__ import annotations

import _thread
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
_is_watched = False  # the watcher was started
_looks_at = 0.0  # when it looks next; earlier only when it is told


@contextmanager
def time_limit(limit_ms: float) -> Iterator[None]:
    """Run the block for `limit_ms` milliseconds at most. Raises Overdue inside it when they have passed."""
    limit = _Limit(threading.get_ident(), time.monotonic() + limit_ms / 1e3)
    with _changed:
        _start_watcher()
        _limits.append(limit)
        if limit.when < _looks_at:  # a waking costs the late thread the GIL: limits of one length follow each other without
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
    global _is_watched
    if not _is_watched:
        _is_watched = True
        _thread.start_new_thread(_watch, ())  # `threading.Thread` would wait here until it runs


def _watch() -> None:
    global _looks_at
    with _changed:
        while True:
            now = time.monotonic()
            for limit in [entry for entry in _limits if entry.when <= now]:
                _limits.remove(limit)
                limit.fired = True
                _raise_in(limit.thread, Overdue)
            _looks_at = min((entry.when for entry in _limits), default=now + 3600)
            _changed.wait(_looks_at - now)


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    import ctypes

    value = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), value)


def reset_after_fork() -> None:
    """The watcher does not exist in a child, and the lock may be held by nobody."""
    global _is_watched, _looks_at, _changed
    _is_watched, _looks_at, _changed = False, 0.0, threading.Condition()
    _limits.clear()
