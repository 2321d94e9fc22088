"""What happens to a decorated function outside the fast path: compile, find its bundle, specialise, fall back, account.

`_dispatch.JitFunction` is the callable; it calls `FunctionState` when no plan of its own takes a call. What fits of a bundle is
looked at in `fitting.py`, plans are made in `specialise.py` unless `refusals.py` remembers that there is none, and objects that
the program was not made for have programs of their own (`variants.py`).
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import perf_counter
from typing import Any

from .. import options
from ..bindings import ABSENT, Watch, home_of, no_value, watch_own_names, watch_rows
from ..errors import ConfigError, PrebakeError, UnsupportedError, VerifyError
from . import _dispatch, bundle
from .arguments import Shape, describe_args, shape_of_args
from .collector import paused_collector
from .decoration import Stated
from .log import log_once, wants_dump, warn, warn_once
from .names import qualified_name
from .refusals import Refusals, fingerprint
from .tensors import Arrays, may_hold_tensors

TRAPPED = 6  # a status of _dispatch.Entry
MAX_CALLEES = 16   # calls with other objects whose functions one program is made for
MAX_MISSES = 256   # misses kept one by one for calls that no plan served
_OF_OBJECTS = ("dynamic-call", "unknown-method", "star-args", "call-arguments")  # refusals for what arguments hold
_OF_THE_MOMENT = ("no-value", "cached-property")  # refused plans of this call alone: a captured name may have a value again
_CODE_OPTIONS = tuple(name for name, option in options.OPTIONS.items() if option.in_key)

states: weakref.WeakSet[FunctionState] = weakref.WeakSet()
startup_error: ConfigError | None = None  # a wrong PREBAKE_ENGINE
sessions: list[Any] = []  # open recordings (recorder.Session): they take the counts of functions that go


def living() -> list[FunctionState]:
    """Every decorated function that lives; other threads may decorate more meanwhile."""
    while True:
        try:
            return list(states)
        except RuntimeError:  # the set changed
            continue


class FunctionState:
    """One decorated function: its options, program, bundle, and what could not be planned.

    Its variants are states too, each with a program made for other objects; see `variants.py`.
    """

    def __init__(self, fn: Any, shapes: Mapping[str, str] | None, given: Mapping[str, object] | None, fallback: str,
                 threads: int | None, tier_up: bool, main: FunctionState | None = None) -> None:
        self.fn, self.fallback, self.tier_up = fn, fallback, tier_up
        self.stated: Stated = Stated(fn, shapes, given, fallback, threads, tier_up) if main is None else main.stated
        self.shapes = shapes if self.stated.error is None else None
        self.function = _dispatch.JitFunction(fn, qualified_name(fn), self)
        self.own: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}
        self.bundle: bundle.Bundle | None = None
        self.bundle_reason = "NO_BUNDLE"
        self.lock = threading.RLock()
        self._program: Any = None
        self.unsupported: UnsupportedError | None = None
        self._invalid: VerifyError | None = None
        self._has_captures = False
        self._code = fn.__code__
        self._spaces: dict[str, dict[str, Any]] = {}  # the modules that names are looked up in
        self._inlined = [fn]  # functions whose code the program holds
        self._was_rebound = False
        self._tried = Refusals()  # arguments that it could not be compiled for
        self._made_for: list[tuple] = []  # prototypes of the arguments whose objects the program calls
        self._has_receiver = self._follows_properties = self._is_shipped = False
        self.main = main  # of a variant: whose it is
        self.variants: list[FunctionState] = []  # the last used one first
        self._warned: set[str] = set()  # why calls ran in Python
        self.generation = 0  # plans made so far
        self.refusals = Refusals()
        self.constant_args: dict[int, int] = {}
        self.misses: dict[tuple[Shape, str], int] = {}
        self.settled: dict[tuple[Shape, str], int] = {}  # of calls that plans served before the bundle changed
        self.other_misses = self.turned_away = 0
        self.asked_to_interpret = 0  # calls under engine 'interpreter'
        self.absorbed: tuple[int, ...] = (0, 0, 0, 0, 0)  # of variants that went: calls by engine; asked to interpret
        self.absorbed_calls = 0  # `traffic` of variants that went
        self.retired: list[_dispatch.Entry] = []  # entries that were dropped, for their counts
        self.tier_note = ""  # how far the compiler in the background is
        if main is None:
            states.add(self)

    # --- getting ready

    def prepare(self) -> None:
        """Check options, look for a bundle; called before the first call and when something changed."""
        with self.lock:
            if startup_error is not None:
                raise startup_error
            if self.stated.error is not None:
                raise self.stated.error.with_traceback(None)
            self.own = dict(self.stated.own)
            before = {name: self.settings[name] for name in _CODE_OPTIONS if name in self.settings}
            self.settings = options.effective(self.own)
            if self.settings["threads"] > 1:
                warn_once(f"prebake: {self.function.name}: option threads={self.settings['threads']} has no effect yet, kernels "
                          "of this version run on one thread")
            if self.main is None:
                self._find_bundle()
                for variant in self.variants:
                    variant.function._unready()
            else:
                self.bundle_reason = self.main.bundle_reason if self.main.bundle is None else "GUARD"
            if any(self.settings[name] != value for name, value in before.items()):  # `configure` was called
                self.retired += [e for e in self.function._entries()[1] if e.counts()[0]]
                self.function._drop_planned()
                self.refusals.clear()
            self.function._configure(self.settings["engine"], self.settings["memory_bytes"], self.stated.shape_check)

    def _find_bundle(self) -> None:
        """Take the bundle that fits, and the options of its `buckets.yaml`; none of both otherwise."""
        self._settle_misses()
        strict = self.settings["strict"]
        self.bundle, self.bundle_reason = bundle.find_bundle(self.function.name, self.fn.__code__.co_filename, strict)
        entries: list[_dispatch.Entry] = []
        if self.bundle is not None:
            try:
                entries = self._bundle_entries(self.bundle)
            except bundle.BundleError as error:
                self.bundle.refused[self.function.name] = error.reason
                self.bundle, self.bundle_reason = None, error.reason
                self.settings = options.effective(self.own)
                bundle.report(error, strict)
            else:
                self.bundle_reason = "" if entries else "NO_BUCKET"
        self.function._set_prebuilt(entries)

    def _settle_misses(self) -> None:
        """Misses so far keep the reasons that they had."""
        if self.retired or self.function._entries()[1]:
            from .stats import settle_misses

            settle_misses(self)

    def _bundle_entries(self, found: bundle.Bundle) -> list[_dispatch.Entry]:
        """The plans of a bundle that fits, for which settings, captures and what is watched are set. Raises BundleError."""
        from . import fitting

        name = self.function.name
        self.settings = fitting.fitting_settings(found, name, self.own, self.shapes)
        entries = found.entries(name, self.settings["max_shapes"])
        captures = fitting.recorded_captures(found, name)
        rows = fitting.fitting_bindings(found, name, self.fn, self._other_program())
        if self._program is not None and self._program.digest != found.records[name]["program_digest"]:  # of other objects
            self.retired += [e for e in self.function._entries()[1] if e.counts()[0]]
            self.function._drop_planned()
            self._program = None
        if self._program is None:  # which knows better
            self._made_for, self._is_shipped = [], False
            self._watch(watch_rows(self.fn, rows))
        self._bind_captures(captures)
        return entries

    def check_bundle(self, found: bundle.Bundle) -> None:
        """Nothing where a bundle that is not in use yet fits the function as it is here. Raises BundleError."""
        with self.lock:
            if self.stated.error is None:
                from . import fitting

                name, self.own = self.function.name, dict(self.stated.own)
                found.check_fresh(name, self.fn.__code__.co_filename)
                fitting.fitting_settings(found, name, self.own, self.shapes)
                fitting.fitting_bindings(found, name, self.fn, self._other_program())

    def _other_program(self) -> Callable[[], Any] | None:
        """What gives the program, where it may be another than a bundle's: one is there, or a name was rebound."""
        return self.program if self._was_rebound or self._program is not None else None

    def _watch(self, watch: Watch) -> None:
        """Have each call look whether what was compiled in is still the same."""
        self._spaces = watch.spaces
        self._inlined = [self.fn, *(row[0] for row in watch.functions)]
        self.function._set_watch(watch.names, watch.members, watch.functions)

    def rebound(self, args: tuple) -> object:
        """The result of a call that finds a name rebound: a cell that ran again, a class that overrides a method."""
        if self.fn.__code__ is not self._code:  # the arguments were spread over the old code's parameters
            with self.lock:
                self._code = self.fn.__code__
                self.compile_again()
                self.function._read_code()
            return self.fn(*args)
        from .variants import serving

        return serving(self, args).function._serve(args)

    def variant(self) -> FunctionState:
        """A state below this one, which has no program yet; `variants.py` says what for."""
        return FunctionState(self.fn, *self.stated.given, self)

    def compile_again(self) -> None:
        """Forget the program and what was made of it, but for the counts."""
        self.retired += [e for entries in self.function._entries() for e in entries if e.counts()[0]]
        if self.variants:
            from .variants import absorb

            for variant in self.variants:
                absorb(self, variant)
        del self.retired[:-256]
        self._program = self.unsupported = self._invalid = None
        self._tried.clear()
        self._made_for = []
        self._was_rebound = True
        self._is_shipped = False
        self.variants = []
        self.refusals.clear()
        self._watch(Watch())
        self.function._clear()
        self.generation += 1

    def program(self, receiver: object = ABSENT, live: tuple = ()) -> Any:
        """The function's Program, compiled at the first time. Raises UnsupportedError, or VerifyError (no way out).

        receiver: of a variant, the first argument of the call that it is made for. live: the arguments of that call: what
        was refused for the objects in others is tried again for arguments of another kind.
        """
        if self._program is not None:
            return self._program
        with self.lock:
            if live and self.unsupported is not None and self.unsupported.kind in _OF_OBJECTS \
                    and not self._tried.holds(*_kinds_of(live)):
                self.unsupported = None
            error = self.unsupported or self._invalid
            if error is None and self._program is None:
                try:
                    self._program = self._compile(receiver, live)
                except (UnsupportedError, VerifyError) as refusal:
                    error = refusal
                    if live:
                        self._tried.add(*_kinds_of(live))
            if error is not None:  # about the user's source, which it names: frames of the compiler tell nobody anything
                raise error.with_traceback(None) from None
            return self._program

    @paused_collector()
    def _compile(self, receiver: object, live: tuple) -> Any:
        start = perf_counter()
        from ..lang.frontend import compile_function

        program: Any
        watch = Watch()
        grown = self._program
        earlier = self._made_for if grown is not None else []
        captures = grown.captures if grown is not None else ()
        self._has_receiver = receiver is not ABSENT
        try:
            program = compile_function(self.fn, receiver=receiver, watch=watch, live=live, earlier=earlier, captures=captures,
                                       properties=self._follows_properties)
        except UnsupportedError as error:
            if grown is not None:
                raise
            is_shipped = error.kind == "no-source" or (self.bundle is not None and not live and error.kind in _OF_OBJECTS)
            program = self._shipped_program() if is_shipped and self.main is None else None
            if program is None:
                self.unsupported = error
                watch_own_names(self.fn, watch)
                self._watch(watch)
                raise
            program.__dict__["calls_objects"] = error.kind != "no-source"
            self._is_shipped = True
            watch = watch_rows(self.fn, [(b.scope, b.module, b.path, b.meaning) for b in program.bindings])
        if live and self.main is None and self.bundle is not None and grown is None and not self._is_shipped:
            from .fitting import is_of_other_objects

            shipped = self._shipped_program()  # of the objects that were recorded: its kernels and plans share captures
            if shipped is not None and shipped.digest != program.digest and \
                    is_of_other_objects(shipped, program, self._was_rebound):
                program = shipped
                program.__dict__["calls_objects"] = self._is_shipped = True
                watch = watch_rows(self.fn, [(b.scope, b.module, b.path, b.meaning) for b in program.bindings])
        try:
            program.verify()
        except VerifyError as error:  # an endless loop, say: kernels could not be interrupted
            if grown is None:
                self._invalid = error
            raise
        if live and program.__dict__.get("calls_objects") and not self._is_shipped:
            from ..lang.frontend.prototypes import prototypes

            self._made_for = [*earlier, prototypes(live)]
        log_once(f"{self.function.name}: bytecode of {len(program.code)} instructions in "
                 f"{(perf_counter() - start) * 1e3:.2f} ms")
        if wants_dump("bytecode"):
            from .log import dump

            dump(f"bytecode of {self.function.name}", program.disassemble())
        self._watch(watch)
        self._bind_captures([(c.scope, c.module, c.name) for c in program.captures])
        return program

    def grow(self, args: tuple, properties: bool = False) -> bool:
        """Compile the program again for the objects in these arguments as well as for those that it was made for; False where
        that is not possible. Captures keep their numbers; plans that were made before it are made anew.

        properties: with those of objects compiled in, which no plan reads.
        """
        if self._is_shipped:
            return False
        if properties and not self._follows_properties:
            self._follows_properties = True
        elif not self._made_for or len(self._made_for) >= MAX_CALLEES:
            return False
        try:
            program = self._compile(args[0] if self._has_receiver else ABSENT, args)
        except (UnsupportedError, VerifyError):
            return False
        self._program = program
        self.retired += [e for e in self.function._entries()[1] if e.counts()[0]]
        self.function._drop_planned()
        self.refusals.clear()
        self.generation += 1
        return True

    def no_value(self, home: object, name: str) -> Exception:
        """What Python raises where a captured name has no value now."""
        return no_value(self._inlined, home, name)

    def _shipped_program(self) -> Any:
        from .fitting import shipped_program

        return shipped_program(self.function.name, self.fn)

    def _bind_captures(self, captures: list[tuple[str, str, str]]) -> None:
        """Tell the function where its captured names are read."""
        if self._has_captures and not captures:
            return
        homes = [home_of(self.fn, scope, module, name, self._spaces) for scope, module, name in captures]
        self.function._set_captures(homes, [name for _, _, name in captures])
        self._has_captures = True

    def get_ready(self) -> None:
        """`prepare` for a call, which counts as turned away where it raises."""
        try:
            self.prepare()
        except PrebakeError as error:
            self.turn_away(error)
            raise

    def turn_away(self, error: PrebakeError) -> PrebakeError:
        """The error, counted: a call that ends before any engine serves it."""
        (self.main or self).turned_away += 1
        return error

    # --- calls that no plan took

    def miss(self, args: tuple, engine: int, why: int) -> object:
        """The result of a call that no present plan takes; why: the furthest that a prebuilt plan got."""
        reason = self.reason_of(why)
        if may_hold_tensors(args):
            try:
                arrays = Arrays(args, self.fn.__code__)
            except UnsupportedError as error:
                if self.fallback != "python":
                    self.turn_away(error)
                    raise
                return self._run_python(args, error)
            if arrays.is_other:
                return arrays.restore(self.function._serve(arrays.args))
        if self.main is None and self._program is None:
            from .variants import serving

            found = serving(self, args)
            if found is not self:
                return found.function._serve(args)
        if engine == _dispatch.ENGINE_CODES["prebuilt"]:
            from .explain import miss_text

            raise self.turn_away(PrebakeError(
                f"{self.function.name}: no prebuilt kernel takes this call ({reason}), and the engine "
                f"is 'prebuilt'\n  arguments {describe_args(args)}{miss_text(self, args)}"))
        if engine == _dispatch.ENGINE_CODES["interpreter"]:
            return self.interpret(args, engine, why)
        try:
            self.program()
        except PrebakeError as error:
            if self.fallback != "python" or not isinstance(error, UnsupportedError):
                self.turn_away(error)
                raise
            return self.run_original(args)
        if self.variants:
            from .variants import planned_variant

            variant = planned_variant(self, args)
            if variant is not None:
                return variant.function._serve(args)
        exact, kind = fingerprint(args)
        if not self.refusals.holds(exact, kind):
            generation = self.generation
            with self.lock:
                missed = why if engine == 0 else -1
                if generation != self.generation:  # another thread planned meanwhile
                    for entry in self.function._entries()[1]:
                        status, result = self.function._try(entry, args, missed, False)
                        if status == 0:
                            return result
                        if status == TRAPPED:
                            return self.trapped(result, args, entry.writes)
                made, note = self.specialise(args, reason if engine == 0 else "")
                if made is None and note.startswith("property: ") and self.grow(args, properties=True):
                    made, note = self.specialise(args, reason if engine == 0 else "")
                if made is None and note.startswith("callee: "):
                    from .variants import outgrown

                    try:
                        other = outgrown(self, args)
                    except UnsupportedError as error:
                        if self.fallback != "python":
                            raise self.turn_away(error).with_traceback(None) from None
                        return self._run_python(args, error)
                    if other is not None:
                        return other.function._serve(args)
                if made is None and not note.startswith(_OF_THE_MOMENT):
                    self._refuse(exact, kind, note)
            if made is not None:
                status, result = self.function._try(made, args, missed, False)
                if status == 0:
                    return result
                if status == TRAPPED:
                    return self.trapped(result, args, made.writes)
                with self.lock:
                    self._refuse(exact, kind, f"the new plan does not take its own call ({made.why_not() or status})")
        return self.interpret(args, engine, why)

    def _refuse(self, exact: object, kind: object, note: str) -> None:
        self.refusals.add(exact, kind)
        log_once(f"{self.function.name}: interpreted, {note}")

    @paused_collector()  # while the planner is imported too
    def specialise(self, args: tuple, reason: str = "") -> tuple[_dispatch.Entry | None, str]:
        """(entry, '') of a new plan, which serves calls from now on, or (None, why there is none); the lock is held.

        reason: of the miss, for the log.
        """
        from .specialise import new_entry

        entry, note = new_entry(self, args, reason)
        if entry is not None:
            self.generation += 1
            dropped = self.function._add_planned(entry, self.settings["max_plans"])
            self.retired += [e for e in dropped if e.counts()[0]]
            del self.retired[:-256]
        return entry, note

    def interpret(self, args: tuple, engine: int, why: int) -> object:
        """The result of the reference interpreter, counted, with the reason."""
        from ..lang.opcodes import Op
        from .callees import SET_ATTRIBUTE, OtherObjects
        from .interpreter import run_program

        try:
            program = self.program()
        except PrebakeError as error:
            if self.fallback != "python" or not isinstance(error, UnsupportedError):
                self.turn_away(error)
                raise
            return self.run_original(args)
        self.function._count(_dispatch.ENGINE_CODES["interpreter"])
        if engine == 0:
            self._count_miss(args, self.reason_of(why))
        elif engine == _dispatch.ENGINE_CODES["interpreter"]:
            self.asked_to_interpret += 1
        hook = trace_hook() if trace_hook is not None else None
        precision = self.settings["precision"]
        try:
            return run_program(program, args, self.function.read_capture, hook=hook, precision=precision)
        except OtherObjects:
            if any(ins.op in (Op.STORE_TENSOR, Op.INPLACE_TENSOR) for ins in program.code) or SET_ATTRIBUTE in program.kernels:
                # a second run writes twice
                raise
            with self.lock:
                if self.grow(args):
                    with suppress(OtherObjects):
                        return run_program(self.program(), args, self.function.read_capture, hook=hook, precision=precision)
            if self.main is not None:
                raise
            for variant in list(self.variants):
                with suppress(OtherObjects, UnsupportedError, VerifyError):
                    return run_program(variant.program(), args, variant.function.read_capture, hook=hook, precision=precision)
            from .variants import of_other_objects

            made = of_other_objects(self, args)
            return run_program(made.program(), args, made.function.read_capture, hook=hook, precision=precision)

    def run_original(self, args: tuple) -> object:
        """The result of the original function (fallback='python'), warned about once, counted."""
        log_once(f"{self.function.name}: runs in Python, {self.unsupported}")
        return self._run_python(args, self.unsupported)

    def _run_python(self, args: tuple, refusal: UnsupportedError | None) -> object:
        self._count_python(refusal)
        code = self.fn.__code__
        names = code.co_varnames[code.co_argcount:code.co_argcount + code.co_kwonlyargcount]
        return self.fn(*args[:code.co_argcount], **dict(zip(names, args[code.co_argcount:], strict=True)))

    def _count_python(self, refusal: UnsupportedError | None) -> None:
        """Count a call that Python serves; what led there is warned about once."""
        if refusal is not None and refusal.what not in self._warned:
            self._warned.add(refusal.what)
            warn(f"prebake: {self.function.name} runs in Python: {refusal.what}")
        self.function._count(_dispatch.ENGINE_CODES["python"])

    def unbindable(self, args: tuple, kwargs: dict) -> object:
        """A call of a function with *args or **kwargs: Python only."""
        if not self.settings:
            self.get_ready()
        if self.function._engine() != _dispatch.ENGINE_CODES["python"]:
            try:
                self.program()
            except PrebakeError as error:
                if self.fallback != "python" or not isinstance(error, UnsupportedError):
                    self.turn_away(error)
                    raise
            self._count_python(self.unsupported)
        else:
            self._count_python(None)
        return self.fn(*args, **kwargs)

    def trapped(self, trap: tuple[int, int, BaseException | None, str], args: tuple, writes: bool) -> object:
        """The result of a call whose compiled code stopped, or what it stopped with is raised; see `traps.py`."""
        from .traps import after_trap

        return after_trap(self, trap, args, writes)

    # --- accounts

    def traffic(self) -> tuple[int, int]:
        """(calls, those without a plan of this program), as the recorder counts them: variants have programs of their own.

        Calls that were sent to 'python' or 'interpreter' by name are no traffic.
        """
        counts = (*self.function._counts()[:4], self.asked_to_interpret)
        prebuilt, jit, interpreter, python, asked = (now - of_others for now, of_others in
                                                     zip(counts, self.absorbed, strict=True))
        unplanned = interpreter - asked + (python if self.unsupported is not None else 0)
        others = self.absorbed_calls + sum(variant.traffic()[0] for variant in list(self.variants))
        return prebuilt + jit + unplanned + others, unplanned + others

    def reason_of(self, why: int) -> str:
        """The name of a miss: how the bundle's plans missed, or why there is no bundle."""
        return _dispatch.MISS_NAMES.get(why, self.bundle_reason) if self.bundle is not None else self.bundle_reason

    def _count_miss(self, args: tuple, reason: str) -> None:
        key = (shape_of_args(self.function, args), reason)
        if key in self.misses or len(self.misses) < MAX_MISSES:
            self.misses[key] = self.misses.get(key, 0) + 1
        else:
            self.other_misses += 1

    def stats(self) -> dict[str, Any]:
        """See `JitFunction.stats`."""
        from .stats import function_stats

        return function_stats(self)

    def explain(self, args: tuple) -> Any:
        """See `JitFunction.explain`."""
        from .explain import explain_call

        return explain_call(self, args)

    def reduce(self) -> object:
        """How a decorated function pickles: by its qualified name, or by the function it wraps."""
        import importlib

        module, qualname = self.fn.__module__, self.fn.__qualname__
        found: Any = None
        try:
            found = importlib.import_module(module)
            for part in qualname.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError):
            found = None
        if found is self.function:
            return (_by_name, (module, qualname))
        return (_wrap_again, (self.fn, *self.stated.given))

    def __del__(self) -> None:
        if sys.is_finalizing():
            return  # modules are gone; the sessions wrote at exit what they held
        for session in list(sessions):
            session.retire(self)

    def reset_after_fork(self) -> None:
        """A lock that another thread held is held by nobody in the child."""
        self.lock = threading.RLock()
        for variant in self.variants:
            variant.reset_after_fork()


trace_hook: Any = None  # set by dispatch.trace: a function that gives the hook of the running context, or None


def _by_name(module: str, qualname: str) -> Any:
    import importlib

    found: Any = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def _wrap_again(fn: Any, shapes: Any, given: Any, fallback: str, threads: Any, tier_up: bool) -> Any:
    from .dispatch import jit

    return jit(fn, shapes=shapes, options=given, fallback=fallback, threads=threads, tier_up=tier_up)


def _kinds_of(args: tuple) -> tuple[object, object]:
    """The keys of arguments in `Refusals`, whatever shapes they have."""
    kind = fingerprint(args)[1]
    return kind, kind
