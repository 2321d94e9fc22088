"""`jit`, `engine`, `trace`, `warmup`: what a user calls to compile functions and to choose who serves their calls.

The order of a call: prebuilt kernel, then a plan made in process, then the interpreter; each step down has a reason.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import update_wrapper
from types import FunctionType
from typing import Any

from .. import flags, options
from ..errors import ConfigError, PrebakeError
from . import _dispatch, bundle, deadline, forks, function
from .log import warn

JitFunction = _dispatch.JitFunction


def jit(fn: Any = None, *, shapes: Mapping[str, str] | None = None, options: Mapping[str, object] | None = None,
        fallback: str = "error", threads: int | None = None, tier_up: bool = False) -> Any:
    """The function, compiled at its first call (or when `.bytecode` is read) and served from kernels after that.

    shapes: names and relations of extents, {"x": "b d", "w": "d//2 k"}; every call checks them (ValueError).
    options: see `vm/options.py`. fallback: 'python' runs the original function where it is not supported, instead of
    UnsupportedError. threads: for work inside a kernel; kernels of this version run on one thread and say so. tier_up: where
    a C compiler is present (and prebake[build]), plans made in process that are called often are compiled in the background
    and swapped in. Decorating never fails: a wrong parameter is warned about here and raised by each call (option `strict`
    of the process: ConfigError here); what the function holds is looked at by the first call.
    """
    def decorate(target: Any) -> Any:
        if isinstance(target, JitFunction):
            return target
        if isinstance(target, (staticmethod, classmethod)):
            return type(target)(decorate(target.__func__))
        plain = target
        if not isinstance(plain, FunctionType):
            plain = getattr(target, "__wrapped__", None)
            if not isinstance(plain, FunctionType):
                raise TypeError(f"jit takes a Python function, found {type(target).__name__}")
        state = function.FunctionState(plain, shapes, options, fallback, threads, tier_up)
        if state.stated.error is not None:
            _report_misuse(state.stated.error)
        return update_wrapper(state.function, plain)

    return decorate if fn is None else decorate(fn)


def _report_misuse(error: ConfigError) -> None:
    if options.effective({})["strict"] or flags.is_on("PREBAKE_STRICT"):
        raise error
    warn(f"prebake: {error}\n  effect    every call raises this")


@contextmanager
def engine(name: str) -> Iterator[None]:
    """Calls inside the block, in this thread or task, are served by one engine.

    name: 'python' runs the original functions, 'interpreter' the bytecode, 'jit' plans made in process, 'prebuilt'
    kernels of bundles (PrebakeError on a miss), 'auto' the usual order.
    """
    token = _dispatch.ENGINE_VAR.set(engine_code(name))
    _dispatch.engine_contexts(1)
    try:
        yield
    finally:
        _dispatch.engine_contexts(-1)
        _dispatch.ENGINE_VAR.reset(token)


def engine_code(name: str) -> int:
    """Number of an engine. Raises ConfigError with a suggestion."""
    code = _dispatch.ENGINE_CODES.get(name)
    if code is None:
        raise ConfigError(f"unknown engine {name!r}", key="engine", hint=options.suggest(str(name), options.ENGINES)
                          or "engines are " + ", ".join(options.ENGINES))
    return code


_hook: ContextVar[Callable | None] = ContextVar("prebake_trace", default=None)


@contextmanager
def trace(hook: Callable[[Any, int, list], None] | None = None) -> Iterator[list[tuple[str, int]]]:
    """Calls inside step through the interpreter; hook(program, index, registers) runs before each instruction.

    Yields the list of (function name, instruction index) stepped through; with a hook of the user's own it stays empty.
    """
    steps: list[tuple[str, int]] = []
    token = _hook.set(hook or (lambda program, index, registers: steps.append((program.name, index))))
    try:
        with engine("interpreter"):
            yield steps
    finally:
        _hook.reset(token)


function.trace_hook = _hook.get


def warmup(*functions: Any) -> list[dict[str, Any]]:
    """Map, check and bind the bundles of decorated functions before the first request; all functions without arguments.

    Constant operands that are reached from globals and closures are packed; those among the arguments are at their
    first call. Compiler and planner are loaded too, so that no later call waits for their import. Returns one row for
    each function: name, number of prebuilt plans, packs made, reason where there are no plans.
    """
    rows = []
    for state in [f._state for f in functions] if functions else _all_states():
        state.prepare()
        prebuilt, _ = state.function._entries()
        rows.append({"function": state.function.name, "plans": len(prebuilt),
                     "packs": sum(entry.warm(state.function) for entry in prebuilt),
                     "reason": "" if prebuilt else state.bundle_reason})
    _load_compiler()
    return rows


def _load_compiler() -> None:
    """Import all that a call needs which no kernel serves."""
    from ...templates.levels import load_stencils
    from ..lang import frontend, verifier  # noqa: F401
    from ..plan import code_json, lower, planner, typed  # noqa: F401
    from . import collector, fitting, interpreter, specialise, tape, variants  # noqa: F401

    typed.load_rules()
    with suppress(ImportError):  # without a stencil library calls are interpreted, and say so
        load_stencils()


def ready() -> list[dict[str, Any]]:
    """One row for each bundle of the decorated functions: accepted or why not, level, functions, who was refused.

    Folders of packs that are in use have a row each as well, without functions.
    """
    for state in _all_states():
        with suppress(PrebakeError):  # bundles that do not fit have their row; wrong options show at the call
            state.prepare()
    packs = sys.modules.get(f"{__package__}.packs")  # loaded with the first folder of packs
    return bundle.rows() + (packs.rows() if packs is not None else [])


def _all_states() -> list[Any]:
    return sorted(function.living(), key=lambda state: state.function.name)


def _apply_configuration() -> None:
    settings = options.effective({})
    _dispatch.set_result_pool(settings["result_pool_bytes"])
    _look_again()


def _check_strictly(found: bundle.Bundle) -> None:
    """Nothing where option `strict` is off, or sources and the functions that are here are what a bundle was made from."""
    strict = bundle.is_strict()
    living = [state for state in _all_states() if state.function.name in found.records]
    for state in living:
        if strict or options.effective(state.stated.own)["strict"]:
            state.check_bundle(found)
    if strict:
        for name in sorted(set(found.records) - {state.function.name for state in living}):
            found.check_fresh(name, None)


def _look_again() -> None:
    """Every function looks at options and bundles again at its next call."""
    for state in function.living():
        state.function._unready()


def _after_fork() -> None:
    forks.after_in_child()
    deadline.reset_after_fork()
    tier = sys.modules.get(f"{__package__}.tier")  # loaded with the first plan that may be compiled
    if tier is not None:
        tier.reset_after_fork()
    for state in function.living():
        state.reset_after_fork()


def _start() -> None:
    name = flags.read("PREBAKE_ENGINE")
    if name != "auto":
        try:
            _dispatch.force_engine(engine_code(name))
        except ConfigError as error:  # decorating never fails: the first call raises it
            function.startup_error = ConfigError(error.message, key="PREBAKE_ENGINE", hint=error.hint)
    if flags.read("PREBAKE_CPU"):
        try:
            bundle.usable_levels()
        except ValueError as error:
            function.startup_error = ConfigError(str(error).partition("=")[2], key="PREBAKE_CPU")
    for fault in flags.faults():
        warn(fault)
    options.on_configure(_apply_configuration)
    bundle.before_use(_check_strictly)
    bundle.on_change(_look_again)
    os.register_at_fork(before=forks.before_fork, after_in_parent=forks.after_in_parent, after_in_child=_after_fork)
    if flags.read("PREBAKE_PROFILE"):
        from . import recorder

        recorder.start_from_environment()


_start()
