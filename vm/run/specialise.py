"""One function and the arguments of one call -> an entry that serves such calls: plan, lower, bind to stencils.

What stands in the way is told by a note, `explain` shows it; a runaway ends with the time limit of option `jit_timeout_ms`;
faults of ours are loud once. When to plan, and which refusals to remember, is decided in `function.py`.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from ...templates.levels import load_stencils
from .. import flags
from ..errors import InternalError, PrebakeError
from ..plan import lower, planner
from ..plan.code_json import dispatch_spec
from ..plan.signature import is_constant
from . import _dispatch
from .arguments import describe_args
from .deadline import Overdue, time_limit
from .log import dump, is_logging, log, stage_times, wants_dump, warn
from .tape import Tape

if TYPE_CHECKING:
    from ..plan.code import Code
    from ..plan.steps import Plan
    from .function import FunctionState


def new_entry(state: FunctionState, args: tuple, reason: str) -> tuple[_dispatch.Entry | None, str]:
    """(entry, '') of a new plan of a `FunctionState` for these arguments, or (None, why there is none).

    Its program is compiled, and its lock is held. reason: of the miss, for the log.
    """
    start = perf_counter()
    marks: list[tuple[str, float]] = []  # when each stage ended
    settings = state.settings
    try:
        with time_limit(settings["jit_timeout_ms"]):
            plan = planner.plan_live(state.program(), _plannable(state, args), lambda index: _read_capture(state, index),
                                     settings["disable_fusions"], settings["precision"])
            marks.append(("plan", perf_counter()))
            code = lower.lower_plan(plan)
            marks.append(("lower", perf_counter()))
            entry = _entry_of(state, plan, code)
    except Overdue as late:
        where = late.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        place = where.tb_frame.f_code.co_qualname if where is not None else "?"
        return None, (f"gave up after {(perf_counter() - start) * 1e3:.0f} ms (jit_timeout_ms) in {place}; "
                      f"{stage_times(start, marks)}")
    except planner.PlanRefused as error:
        return None, f"{error.kind}: {error.reason}"
    except (PrebakeError, MemoryError, RecursionError):
        raise
    except Exception as error:
        return None, _broken(state, error)
    marks.append(("tape", perf_counter()))
    if is_logging():
        from ..plan.show import result_shapes

        passes = ", ".join(f"{name} {ms:.2f}" for name, ms, _ in plan.log)
        log(f"Compiled {state.function.name} for input shape {describe_args(args)} -> {result_shapes(plan)} in "
            f"{(marks[-1][1] - start) * 1e3:.2f} ms{f', after a miss ({reason})' if reason else ''}: "
            f"{stage_times(start, marks)} (passes: {passes})")
    return entry, ""


def _entry_of(state: FunctionState, plan: Plan, code: Code) -> _dispatch.Entry:
    name = state.function.name
    spec = dispatch_spec(code)
    if wants_dump("plan"):
        from ..plan.show import show_plan

        dump(f"plan of {name}", show_plan(plan))
    if wants_dump("code"):
        from ..plan.show import show_code

        dump(f"code of {name}", show_code(code))
    rows = tuple([tuple([getattr(row, field) for field in _dispatch.ROW_FIELDS]) for row in plan.signature.rows])
    entry = _dispatch.Entry(rows, spec, state.settings["max_shapes"])
    tape = Tape(code, is_timed=wants_dump("times"))
    if wants_dump("times"):
        from .times import report_at_exit

        report_at_exit(name, code, tape, state.program())
    entry.use_tape(tape, load_stencils().table)
    entry.sample = {str(symbol): value for symbol, value in plan.sample.items()}
    entry.note = plan
    if state.tier_up:
        from . import tier

        tier.watch(state, entry, code)
    return entry


def _broken(state: FunctionState, error: Exception) -> str:
    """A fault of ours while planning: loud once, then the interpreter serves (strict: raise)."""
    note = f"planning failed with {type(error).__name__}: {error}"
    if state.settings["strict"] or flags.is_on("PREBAKE_STRICT"):
        raise InternalError(f"{state.function.name}: {note}") from error
    warn(f"prebake: {state.function.name} is interpreted, {note}. Please report this.")
    return note


def _plannable(state: FunctionState, args: tuple) -> tuple:
    """The arguments as the planner shall see them: a read-only array that is a new one each time is no constant."""
    function = state.function
    seen: list[object] = []
    for i, value in enumerate(args):
        if type(value) is np.ndarray and not value.flags.writeable and is_constant(value):
            address = value.ctypes.data
            if state.constant_args.setdefault(i, address) != address:
                function._mark_volatile(i)
            if function._is_volatile(i):
                value = _dispatch.changing_view(value)
        seen.append(value)
    return tuple(seen)


def _read_capture(state: FunctionState, index: int) -> object:
    """A captured value for the planner, which leaves it to the interpreter to raise, where and if it is read."""
    try:
        return state.function.read_capture(index)
    except (NameError, AttributeError) as error:
        raise planner.PlanRefused(str(error), kind="no-value") from None
