"""The garbage collector rests while a function is compiled or a plan is made: it would walk over the whole model's objects in
the middle of a call.

A plan is tens of thousands of small objects; their allocation alone makes the collector run some thirty times, and now and
then over everything that the process holds, which is what the slowest percentile of first calls consists of. What a plan
leaves behind is collected later, once.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_paused = 0  # how many threads want it to rest
_was_enabled = False


@contextmanager
def paused_collector() -> Iterator[None]:
    """No automatic collection inside the block, in any thread; afterwards all is as it was before the first such block."""
    global _paused, _was_enabled
    with _lock:
        if not _paused:
            _was_enabled = gc.isenabled()
            gc.disable()
        _paused += 1
    try:
        yield
    finally:
        with _lock:
            _paused -= 1
            if not _paused and _was_enabled:
                gc.enable()


def _reset_after_fork() -> None:
    """The threads that wanted it to rest do not exist in a child, and the lock may be held by nobody."""
    global _lock, _paused
    _lock = Lock()
    if _paused:
        _paused = 0
        if _was_enabled:
            gc.enable()


os.register_at_fork(after_in_child=_reset_after_fork)
