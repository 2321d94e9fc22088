"""Tier-up: plans made in process that are called often are compiled by a C compiler in the background and swapped in.

Asked for with `jit(tier_up=True)`. A plan that served a shape 256 times (`_dispatch.set_hot_calls`) is handed to one thread,
which prints it as a kernel for any extents under the plan's facts, compiles it (through the cache folder) and puts it in the
place of the tape, once its results were compared with the interpreter's at the shapes that were met most, as a build does.
Calls never wait for it. Where that fails, a line in the log says so once, and the tape goes on; a kernel that differs is
warned about. `fn.stats()["tier_up"]` counts the calls of such kernels, `fn.explain` says how far it is.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from functools import partial
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias

from ..errors import InternalError
from ..plan.code import Code
from ..plan.code_json import dispatch_spec
from . import _dispatch
from .collector import paused_collector
from .log import log, log_once, warn

if TYPE_CHECKING:
    from .function import FunctionState

PROVIDER = "pgo.tier"  # in prebake[build]; asked when the first plan is hot: what runs knows nothing of how kernels are built

_VERIFIED_SHAPES = 2  # those that were called most, at which a kernel is compared with the interpreter

_Job: TypeAlias = "tuple[weakref.ref[FunctionState], _dispatch.Entry, Code]"
_jobs: deque[_Job] = deque()
_current: _Job | None = None
_wake = threading.Condition()
_thread: threading.Thread | None = None


def watch(state: FunctionState, entry: _dispatch.Entry, code: Code) -> None:
    """Have an entry compiled once it is hot."""
    entry.hot = partial(_submit, weakref.ref(state), code)
    state.tier_note = "no shape was called often enough to be compiled"


def is_idle() -> bool:
    """Whether nothing waits to be compiled."""
    with _wake:
        return not _jobs and _current is None


def _submit(state: weakref.ref[FunctionState], code: Code, entry: _dispatch.Entry) -> None:
    """Queue a hot entry; called in the middle of a call, so that nothing may be raised here."""
    global _thread
    owner = state()
    if owner is not None:
        owner.tier_note = "a kernel is being compiled in the background"
    with _wake:
        _jobs.append((state, entry, code))
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_work, name="prebake-tier-up", daemon=True)
            try:
                _thread.start()
            except RuntimeError as error:  # no more threads, or the interpreter is about to end
                _jobs.clear()
                log_once(f"tier-up: no thread ({error})")
        _wake.notify()


def _work() -> None:
    global _current
    while True:
        with _wake:
            while not _jobs:
                _wake.wait()
            _current = _jobs.popleft()
        try:
            _compile(*_current)
        finally:
            with _wake:
                _current = None


def _compile(reference: weakref.ref[FunctionState], entry: _dispatch.Entry, code: Code) -> None:
    """Compile one entry and put it in the tape's place, or say why not."""
    state = reference()
    if state is None:
        return
    name, start = state.function.name, perf_counter()
    try:
        provider = import_module(f"{__package__.rpartition('.vm.')[0]}.{PROVIDER}")
        table, kernel = provider.compile_code(code, provider.job(
            name, state.program().to_bytes(), entry.note.signature, code, _shapes(entry), state.settings["precision"]))
        with paused_collector():
            made = _dispatch.Entry(entry.row_tuples, dispatch_spec(code), state.settings["max_shapes"])
            if not made.use_kernels(table, [(kernel, {})]):
                raise LookupError(f"the table lacks {kernel}")
        made.sample, made.note = entry.sample, entry.note
        with state.lock:
            if state.function._swap_planned(entry, made):
                state.retired.append(entry)
                state.tier_note = "a kernel that was compiled in the background"
                log(f"{name}: a kernel compiled in the background took over after {(perf_counter() - start) * 1e3:.0f} ms")
    except Exception as error:
        why = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        state.tier_note = f"tier-up failed, the tape stays ({why})"
        log_once(f"{name}: {state.tier_note}")
        if isinstance(error, InternalError):
            warn(f"prebake: {name}: tier-up failed, the tape stays. Please report this.\n{error}")


def _shapes(entry: _dispatch.Entry) -> list[dict[str, int]]:
    """Extents and strides of the shapes that a plan was called with most, and of the one that it was made for."""
    sample = {name: n for name, n in (entry.sample or {}).items() if not name.endswith(".data")}
    counted, _ = entry.counts()
    often = [extents for extents, *_ in sorted(counted, key=lambda row: -row[1])[:_VERIFIED_SHAPES]]
    found = [{**sample, **dict(zip(entry.symbols, extents, strict=True))} for extents in often]
    return found if sample in found else [*found, sample]


def reset_after_fork() -> None:
    """The thread is not in the child: what it was at goes back into the queue, for the next one that is started."""
    global _wake, _thread, _current
    _wake, _thread = threading.Condition(), None
    if _current is not None:
        _jobs.appendleft(_current)
        _current = None
