"""Forking while other threads work: a child has the forking thread alone, and whatever others were in the middle of stays so.

So a fork waits until no thread plans or loads a module of ours: a lock of the import system that a thread held then would
never be given back in the child. The wait is bounded: a thread may be waiting for the one that forks.
"""

from __future__ import annotations

import sys
import threading
import time
from types import ModuleType

PATIENCE_S = 1.0
_PACKAGE = __name__.partition(".")[0]
_holders: set[int] = set()  # threads that fork, and have waited with success


def before_fork() -> None:
    """Wait until no other thread plans or imports."""
    if len(sys._current_frames()) == 1:
        return
    end = time.monotonic() + PATIENCE_S
    while any(map(_is_loading, list(sys.modules.items()))) and time.monotonic() < end:
        time.sleep(0.001)
    planner = _planner()
    if planner is not None and planner.planning.acquire(timeout=max(end - time.monotonic(), 0)):
        _holders.add(threading.get_ident())


def after_in_parent() -> None:
    """Let others plan again."""
    planner = _planner()
    if planner is not None and threading.get_ident() in _holders:
        _holders.discard(threading.get_ident())
        planner.planning.release()


def after_in_child() -> None:
    """Whatever lock another thread held is held by nobody; what it left half done is forgotten."""
    planner = _planner()
    if planner is not None:
        planner.restart(is_clean=threading.get_ident() in _holders)
    _holders.clear()


def _is_loading(item: tuple[str, ModuleType]) -> bool:
    name, module = item
    return name.partition(".")[0] == _PACKAGE and getattr(getattr(module, "__spec__", None), "_initializing", False)


def _planner() -> ModuleType | None:
    module = sys.modules.get(f"{_PACKAGE}.vm.plan.planner")
    return module if module is not None and hasattr(module, "restart") else None
