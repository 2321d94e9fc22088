"""What happens to a decorated function outside the fast path: compile, find its bundle, specialise, fall back, account.

`_dispatch.JitFunction` is the callable; it calls `FunctionState` when no plan of its own takes a call.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from time import perf_counter
from typing import Any

import numpy as np

from .. import flags, options
from ..bindings import ABSENT, Row, Watch, first_change, home_of, no_value, underlying, watch_own_names, watch_rows
from ..errors import ConfigError, InternalError, PrebakeError, UnsupportedError, VerifyError
from . import _dispatch, bundle
from .arguments import describe_args, fingerprint, shape_of_args
from .collector import paused_collector
from .deadline import Overdue, time_limit
from .decoration import Stated
from .log import is_logging, log, log_once, stage_times, wants_dump, warn, warn_once
from .names import qualified_name
from .tensors import Arrays, may_hold_tensors

TRAPPED = 6  # a status of _dispatch.Entry
MAX_MISSES = 256   # misses kept one by one for calls that no plan served
MAX_REFUSED = 4096
MAX_VARIANTS = 32  # programs of one function, for classes that override what it calls
MAX_REFUSALS = 8   # refused shapes of one kind of arguments after which the kind itself is refused
_CODE_OPTIONS = tuple(name for name, option in options.OPTIONS.items() if option.in_key)
_NO_VALUE = "no-value"  # kind of refusal: a captured name has none
_AS_DECORATED = "record, plan and build again with the decorator as it is now"

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

    What the class of a call's first argument decides (`self.step(...)`) is compiled in as the function's own class has it.
    Objects that have it otherwise are served by variants: states of their own, each with a program made for such an object.
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
        self._unsupported: UnsupportedError | None = None
        self._invalid: VerifyError | None = None
        self._has_captures = False
        self._code = fn.__code__
        self._spaces: dict[str, dict[str, Any]] = {}  # the modules that names are looked up in
        self._inlined = [fn]  # functions whose code the program holds
        self._was_rebound = False
        self._had_live = False  # whether a call's arguments were there when it was compiled
        self.main = main  # of a variant: whose it is
        self.variants: list[FunctionState] = []  # the last used one first
        self._warned: set[str] = set()  # why calls ran in Python
        self.generation = 0  # plans made so far
        self.refused: dict[object, int] = {}        # arguments with shapes -> calls since they were refused
        self.refused_kinds: dict[object, int] = {}  # arguments without shapes -> refused plans
        self.constant_args: dict[int, int] = {}
        self.misses: dict[tuple[object, str], int] = {}
        self.settled: dict[tuple[object, str], int] = {}  # of calls that plans served before the bundle changed
        self.other_misses = self.turned_away = 0
        self.asked_to_interpret = 0  # calls under engine 'interpreter'
        self.absorbed: tuple[int, ...] = (0, 0, 0, 0, 0)  # of variants that went: calls by engine; asked to interpret
        self.absorbed_calls = 0  # `traffic` of variants that went
        self.retired: list[Any] = []  # entries that were dropped, for their counts
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
                self.refused.clear()
                self.refused_kinds.clear()
            self.function._configure(self.settings["engine"], self.settings["memory_bytes"], self.stated.shape_check)

    def _find_bundle(self) -> None:
        """Take the bundle that fits, and the options of its `buckets.yaml`; none of both otherwise."""
        self._settle_misses()
        strict = self.settings["strict"]
        self.bundle, self.bundle_reason = bundle.find_bundle(self.function.name, self.fn.__code__.co_filename, strict)
        entries: list[Any] = []
        if self.bundle is not None:
            record = self.bundle.records[self.function.name]
            try:
                entries = self._bundle_entries(self.bundle, record)
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

    def _bundle_entries(self, found: bundle.Bundle, record: Mapping[str, Any]) -> list[Any]:
        name = self.function.name
        self.settings = self._settings_with(found, record)
        entries = found.entries(name, self.settings["max_shapes"])
        try:
            captures = [(str(scope), str(module), str(key)) for scope, module, key in record["captures"]]
        except (KeyError, TypeError, ValueError) as error:
            raise found._refuse(f"functions.{name}.captures", "captures of this format", str(error),
                                bundle._REBUILD) from None
        rows = self._check_bindings(found, record)
        if self._program is not None and self._program.digest != record["program_digest"]:  # it was made for other objects
            self.retired += [e for e in self.function._entries()[1] if e.counts()[0]]
            self.function._drop_planned()
            self._program = None
        if self._program is None:  # which knows better
            self._watch(watch_rows(self.fn, rows))
        self._bind_captures(captures)
        return entries

    def check_bundle(self, found: bundle.Bundle) -> None:
        """Nothing where a bundle that is not in use yet fits the function as it is here. Raises BundleError."""
        with self.lock:
            if self.stated.error is None:
                self.own = dict(self.stated.own)
                found.check_fresh(self.function.name, self.fn.__code__.co_filename)
                record = found.records[self.function.name]
                self._settings_with(found, record)
                self._check_bindings(found, record)

    def _settings_with(self, found: bundle.Bundle, record: Mapping[str, Any]) -> dict[str, Any]:
        """The settings with those of `buckets.yaml`, where kernels were made for such ones. Raises BundleError."""
        name = self.function.name
        built, here = record.get("options"), options.key_options(self.own)
        if built != here:
            raise found.unfit(name, f"functions.{name}.options", built, here, _AS_DECORATED)
        if dict(record.get("shapes") or {}) != dict(self.shapes or {}):
            raise found.unfit(name, f"functions.{name}.shapes", record.get("shapes"), self.shapes, _AS_DECORATED)
        try:
            settings = options.check_options(record.get("settings"))
        except ConfigError as error:
            raise found._refuse(f"functions.{name}.settings", error.key, error.message, bundle._REBUILD) from None
        made_in = str({**here, **settings}.get("precision", "float32"))
        merged = options.effective({**self.own, **settings})
        if made_in != merged["precision"]:
            raise found.unfit(name, f"functions.{name}.precision", made_in, merged["precision"],
                              "set `precision` in the decorator or in buckets.yaml and build again")
        return merged

    def _check_bindings(self, found: bundle.Bundle, record: Mapping[str, Any]) -> list[Row]:
        """The names that kernels were compiled with, where they stand for what they did. Raises BundleError."""
        name = self.function.name
        try:
            rows = [(str(scope), str(module), str(path), str(meaning))
                    for scope, module, path, meaning in record["bindings"]]
        except (KeyError, TypeError, ValueError) as error:
            raise found._refuse(f"functions.{name}.bindings", "bindings of this format", str(error),
                                bundle._REBUILD) from None
        change = first_change(self.fn, rows)
        if change is None and (self._was_rebound or self._program is not None) \
                and self.program().digest != record["program_digest"] and not self._is_of_other_objects(found):
            change = (name, "the source that was recorded", "another one in this process")
        if change is not None:
            where, then, now = change
            raise found.unfit(name, f"binding of {where}", then, now,
                              "record, plan and build again with the names as they are here", "GUARD")
        return rows

    def _is_of_other_objects(self, found: bundle.Bundle) -> bool:
        """Whether the program here and the recorded one differ by the layers that they were made for alone."""
        if not self.program().__dict__.get("calls_objects"):
            return False
        here = {(f.module, f.qualname): f.digest for f in self.program().functions}
        return all(here.get((f.module, f.qualname), f.digest) == f.digest for f in self._program_in(found).functions)

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
                self._compile_again()
                self.function._read_code()
            return self.fn(*args)
        return self.serving(args).function._serve(args)

    def serving(self, args: tuple) -> FunctionState:
        """The state whose program fits a call: this one, or a variant, made now if there is none."""
        with self.lock:
            if self.function._renamed():
                self._compile_again()
            with suppress(UnsupportedError, VerifyError):
                self.program(live=args)
            if not args or (not self.function._differs(args)
                            and (self._unsupported is None or not self._is_method_of(args))):
                return self
            for at, variant in enumerate(self.variants):
                if not variant.function._differs(args):
                    self.variants.insert(0, self.variants.pop(at))
                    break
            else:
                variant = self._add_variant(args, args[0])
            self.function._set_variants([v.function for v in self.variants], self._unsupported is not None)
            return variant

    def _add_variant(self, args: tuple, receiver: object) -> FunctionState:
        """A variant whose program is made for these arguments."""
        variant = FunctionState(self.fn, *self.stated.given, self)
        variant.prepare()
        with suppress(UnsupportedError, VerifyError):
            variant.program(receiver, args)
        self.variants.insert(0, variant)
        if len(self.variants) > MAX_VARIANTS:
            self._drop(self.variants.pop())
        return variant

    def _outgrown(self, args: tuple) -> FunctionState | None:
        """The variant for arguments that hold other functions or classes of layers than the program was made for; None for
        a variant itself. Raises UnsupportedError."""
        with self.lock:
            owner = self.main or self
            for variant in owner.variants:
                if variant is not self and not variant.function._differs(args) and variant._plans(args):
                    return variant
            if self.main is not None:
                return None
            variant = self._add_variant(args, ABSENT)
            if variant._unsupported is not None:
                self.variants.remove(variant)
                raise variant._unsupported
            self.function._set_variants([v.function for v in self.variants], self._unsupported is not None)
            return variant

    def _plans(self, args: tuple) -> bool:
        """Whether the program has or gets a plan for these arguments."""
        try:
            self.program()
        except (UnsupportedError, VerifyError):
            return False
        return any(self.function._probe(entry, args, False)[0] == 0 for entry in self.function._entries()[1]) \
            or self._specialise(args)[0] is not None

    def _is_method_of(self, args: tuple) -> bool:
        """Whether a call's first argument is an object of a class that holds the function."""
        if not args or type(args[0]).__module__ in ("builtins", "numpy"):
            return False
        return any(underlying(member) is self.fn for cls in type(args[0]).__mro__ for member in cls.__dict__.values())

    def _compile_again(self) -> None:
        """Forget the program and what was made of it, but for the counts."""
        self.retired += [e for entries in self.function._entries() for e in entries if e.counts()[0]]
        for variant in self.variants:
            self._drop(variant)
        del self.retired[:-256]
        self._program = self._unsupported = self._invalid = None
        self._had_live = False
        self._was_rebound = True
        self.variants = []
        self.refused.clear()
        self.refused_kinds.clear()
        self._watch(Watch())
        self.function._clear()
        self.generation += 1

    def _drop(self, variant: FunctionState) -> None:
        """Take over the counts of a variant that goes."""
        from .stats import misses_of

        missed, other = misses_of(variant)
        for key, count in missed.items():
            self.settled[key] = self.settled.get(key, 0) + count
        self.other_misses += other
        self.asked_to_interpret += variant.asked_to_interpret
        self.absorbed_calls += variant.traffic()[0]
        counts = (*variant.function._counts()[:4], variant.asked_to_interpret)
        self.absorbed = tuple(a + b for a, b in zip(self.absorbed, counts, strict=True))
        self.function._absorb(variant.function)

    def program(self, receiver: object = ABSENT, live: tuple = ()) -> Any:
        """The function's Program, compiled at the first time. Raises UnsupportedError, or VerifyError (no way out).

        receiver: of a variant, the first argument of the call that it is made for. live: the arguments of that call; what
        was refused without any is tried again with them.
        """
        if self._program is not None:
            return self._program
        with self.lock:
            if live and not self._had_live and self._unsupported is not None \
                    and self._unsupported.kind in ("dynamic-call", "unknown-method"):
                self._unsupported = None
            self._had_live = self._had_live or bool(live)
            error = self._unsupported or self._invalid
            if error is None and self._program is None:
                try:
                    self._program = self._compile(receiver, live)
                except (UnsupportedError, VerifyError) as refusal:
                    error = refusal
            if error is not None:  # about the user's source, which it names: frames of the compiler tell nobody anything
                raise error.with_traceback(None) from None
            return self._program

    @paused_collector()
    def _compile(self, receiver: object, live: tuple) -> Any:
        start = perf_counter()
        program: Any
        watch = Watch()
        try:
            from ..lang.frontend import compile_function

            program = compile_function(self.fn, receiver=receiver, watch=watch, live=live)
        except UnsupportedError as error:
            program = self._shipped_program() if error.kind == "no-source" and self.main is None else None
            if program is None:
                self._unsupported = error
                watch_own_names(self.fn, watch)
                self._watch(watch)
                raise
            watch = watch_rows(self.fn, [(b.scope, b.module, b.path, b.meaning) for b in program.bindings])
        if self.main is None and self.bundle is not None and program.__dict__.get("calls_objects"):
            shipped = self._shipped_program()  # of the objects that were recorded: its kernels and plans share captures
            if shipped is not None and shipped.digest != program.digest:
                program = shipped
                program.__dict__["calls_objects"] = True
                watch = watch_rows(self.fn, [(b.scope, b.module, b.path, b.meaning) for b in program.bindings])
        try:
            program.verify()
        except VerifyError as error:  # an endless loop, say: kernels could not be interrupted
            self._invalid = error
            raise
        log_once(f"{self.function.name}: bytecode of {len(program.code)} instructions in "
                 f"{(perf_counter() - start) * 1e3:.2f} ms")
        if wants_dump("bytecode"):
            from .log import dump

            dump(f"bytecode of {self.function.name}", program.disassemble())
        self._watch(watch)
        self._bind_captures([(c.scope, c.module, c.name) for c in program.captures])
        return program

    def no_value(self, home: object, name: str) -> Exception:
        """What Python raises where a captured name has no value now."""
        return no_value(self._inlined, home, name)

    def _read_for_plan(self, index: int) -> object:
        """A captured value for the planner, which leaves it to the interpreter to raise, where and if it is read."""
        try:
            return self.function.read_capture(index)
        except (NameError, AttributeError) as error:
            from ..plan.planner import PlanRefused

            raise PlanRefused(str(error), kind=_NO_VALUE) from None

    def _shipped_program(self) -> Any:
        """The program that the bundle holds, for functions whose source is not shipped."""
        found, _ = bundle.find_bundle(self.function.name, self.fn.__code__.co_filename)
        return None if found is None else self._program_in(found)

    def _program_in(self, found: bundle.Bundle) -> Any:
        from ..lang.bytecode import Program

        return Program.from_bytes(found.program_bytes(self.function.name))

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
            found = self.serving(args)
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
        for variant in self.variants if self.main is None else ():  # of other layers
            if not variant.function._differs(args):
                for entry in variant.function._entries()[1]:
                    if variant.function._probe(entry, args, False)[0] == 0:
                        return variant.function._serve(args)
        exact, kind = fingerprint(args)
        if not self._is_refused(exact, kind):
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
                made, note = self._specialise(args, reason if engine == 0 else "")
                if made is None and note.startswith("callee: "):
                    try:
                        other = self._outgrown(args)
                    except UnsupportedError as error:
                        if self.fallback != "python":
                            raise self.turn_away(error).with_traceback(None) from None
                        return self._run_python(args, error)
                    if other is not None:
                        return other.function._serve(args)
                if made is None and not note.startswith(_NO_VALUE):  # it may have one again
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

    def _is_refused(self, exact: object, kind: object) -> bool:
        """Whether to interpret without planning: refused before, and not the 64th, 4,096th, ... call since then.

        What a plan depends on inside objects is no part of the key, so that refusals are tried again now and then.
        """
        calls = self.refused.get(exact)
        if calls is None:
            if self.refused_kinds.get(kind, 0) < MAX_REFUSALS:
                return False
            calls = 0
        if len(self.refused) < MAX_REFUSED or exact in self.refused:
            self.refused[exact] = calls + 1
        return calls + 1 not in (64, 4096, 262144)

    def _refuse(self, exact: object, kind: object, note: str) -> None:
        if len(self.refused) < MAX_REFUSED:
            self.refused.setdefault(exact, 0)
        self.refused_kinds[kind] = self.refused_kinds.get(kind, 0) + 1
        log_once(f"{self.function.name}: interpreted, {note}")

    @paused_collector()
    def _specialise(self, args: tuple, reason: str = "") -> tuple[Any, str]:
        """(entry, '') of a new plan for these arguments, or (None, why there is none). reason: of the miss, for the log."""
        from ..plan.code_json import dispatch_spec
        from ..plan.lower import lower_plan
        from ..plan.planner import PlanRefused, plan_live

        start = perf_counter()
        marks: list[tuple[str, float]] = []  # when each stage ended
        try:
            with time_limit(self.settings["jit_timeout_ms"]):
                plan = plan_live(self._program, self._plannable(args), self._read_for_plan,
                                 self.settings["disable_fusions"], self.settings["precision"])
                marks.append(("plan", perf_counter()))
                code = lower_plan(plan)
                marks.append(("lower", perf_counter()))
                entry = self._entry_of(plan, code, dispatch_spec(code))
        except Overdue as late:
            where = late.__traceback__
            while where is not None and where.tb_next is not None:
                where = where.tb_next
            place = where.tb_frame.f_code.co_qualname if where is not None else "?"
            return None, (f"gave up after {(perf_counter() - start) * 1e3:.0f} ms (jit_timeout_ms) in {place}; "
                          f"{stage_times(start, marks)}")
        except PlanRefused as error:
            return None, f"{error.kind}: {error.reason}"
        except (PrebakeError, MemoryError, RecursionError):
            raise
        except Exception as error:
            return None, self._broken(error)
        marks.append(("tape", perf_counter()))
        self.generation += 1
        dropped = self.function._add_planned(entry, self.settings["max_plans"])
        self.retired += [e for e in dropped if e.counts()[0]]
        del self.retired[:-256]
        if is_logging():
            from ..plan.show import result_shapes

            passes = ", ".join(f"{name} {ms:.2f}" for name, ms, _ in plan.log)
            log(f"Compiled {self.function.name} for input shape {describe_args(args)} -> {result_shapes(plan)} in "
                f"{(marks[-1][1] - start) * 1e3:.2f} ms{f', after a miss ({reason})' if reason else ''}: "
                f"{stage_times(start, marks)} (passes: {passes})")
        return entry, ""

    def _entry_of(self, plan: Any, code: Any, spec: dict[str, Any]) -> Any:
        from ...templates.levels import load_stencils
        from .tape import Tape

        if wants_dump("plan"):
            from ..plan.show import show_plan
            from .log import dump

            dump(f"plan of {self.function.name}", show_plan(plan))
        if wants_dump("code"):
            from ..plan.show import show_code
            from .log import dump

            dump(f"code of {self.function.name}", show_code(code))
        rows = tuple([tuple([getattr(row, name) for name in _dispatch.ROW_FIELDS]) for row in plan.signature.rows])
        entry = _dispatch.Entry(rows, spec, self.settings["max_shapes"])
        tape = Tape(code, is_timed=wants_dump("times"))
        if wants_dump("times"):
            from .times import report_at_exit

            report_at_exit(self.function.name, code, tape, self._program)
        entry.use_tape(tape, load_stencils().table)
        entry.sample = {str(name): value for name, value in plan.sample.items()}
        entry.note = plan
        if self.tier_up:
            from . import tier

            tier.watch(self, entry, code)
        return entry

    def _broken(self, error: Exception) -> str:
        """A fault of ours while planning: loud once, then the interpreter serves (strict: raise)."""
        note = f"planning failed with {type(error).__name__}: {error}"
        if self.settings["strict"] or flags.is_on("PREBAKE_STRICT"):
            raise InternalError(f"{self.function.name}: {note}") from error
        warn(f"prebake: {self.function.name} is interpreted, {note}. Please report this.")
        return note

    def _plannable(self, args: tuple) -> tuple:
        """The arguments as the planner shall see them: a read-only array that is a new one each time is no constant."""
        from ..plan.signature import is_constant

        seen: list[object] = []
        for i, value in enumerate(args):
            if type(value) is np.ndarray and not value.flags.writeable and is_constant(value):
                address = value.ctypes.data
                if self.constant_args.setdefault(i, address) != address:
                    self.function._mark_volatile(i)
                if self.function._is_volatile(i):
                    value = _dispatch.changing_view(value)
            seen.append(value)
        return tuple(seen)

    def interpret(self, args: tuple, engine: int, why: int) -> object:
        """The result of the reference interpreter, counted, with the reason."""
        from ..lang.opcodes import Op
        from .callees import OtherObjects
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
            if self.main is not None or any(
                    ins.op in (Op.STORE_TENSOR, Op.INPLACE_TENSOR) for ins in program.code):  # a second run writes twice
                raise
            with self.lock:
                made = self._add_variant(args, ABSENT)
                self.function._set_variants([v.function for v in self.variants], self._unsupported is not None)
            return run_program(made.program(), args, made.function.read_capture, hook=hook, precision=precision)

    def run_original(self, args: tuple) -> object:
        """The result of the original function (fallback='python'), warned about once, counted."""
        log_once(f"{self.function.name}: runs in Python, {self._unsupported}")
        return self._run_python(args, self._unsupported)

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
            self._count_python(self._unsupported)
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
        unplanned = interpreter - asked + (python if self._unsupported is not None else 0)
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
