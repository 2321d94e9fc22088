"""The two doors to a plan: from live arguments (JIT) and from a recorded signature (AOT build)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import RLock

from ..lang.bytecode import Program
from ..options import ROUNDINGS
from .extents import trim_interned
from .passes import run_passes
from .planner_errors import PlanRefused
from .reading import LiveReader, RecordedReader
from .signature import Signature
from .steps import Contract, Note, Plan, walk
from .typed import type_program

planning = RLock()  # expressions are interned process-wide: one planning at a time

__all__ = ["PlanRefused", "plan_live", "plan_recorded"]


def plan_live(program: Program, args: Sequence[object], read_capture: Callable[[int], object],
              disable_fusions: Sequence[str] = (), precision: str = "float32") -> Plan:
    """Plan a program for live arguments (one object per parameter, defaults filled in). Raises PlanRefused."""
    return _plan(program, LiveReader(program, args, read_capture), disable_fusions, precision)


def plan_recorded(program: Program, signature: Signature, sample: Mapping[str, int],
                  disable_fusions: Sequence[str] = (), precision: str = "float32") -> Plan:
    """Plan a program for a recorded signature; sample: symbol name -> extent, answers the plan's questions.

    Raises PlanRefused, also when typing wants to read something that the signature does not hold.
    """
    return _plan(program, RecordedReader(program, signature, sample), disable_fusions, precision)


def _plan(program: Program, reader: LiveReader | RecordedReader, disable_fusions: Sequence[str],
          precision: str) -> Plan:
    with planning:
        trim_interned()
        plan = run_passes(type_program(program, reader, ROUNDINGS[precision]), disable_fusions)
    if precision != "float32":
        count = sum(isinstance(step, Contract) and step.rounding != "" for step in walk(plan.steps))
        plan.notes["precision"] = [Note(f"{count} products round their operands to {precision}")]
    return plan


def restart(is_clean: bool) -> None:
    """Begin anew in a forked child. is_clean: nobody was planning when it was made."""
    global planning
    planning = RLock()
    if not is_clean:
        trim_interned(0)
