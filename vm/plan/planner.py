"""The two doors to a plan: from live arguments (JIT) and from a recorded signature (AOT build)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..lang.bytecode import Program
from .passes import run_passes
from .planner_errors import PlanRefused
from .reading import LiveReader, RecordedReader
from .signature import Signature
from .steps import Plan
from .typed import type_program

__all__ = ["PlanRefused", "plan_live", "plan_recorded"]


def plan_live(program: Program, args: Sequence[object], read_capture: Callable[[int], object],
              disable_fusions: Sequence[str] = ()) -> Plan:
    """Plan a program for live arguments (one object per parameter, defaults filled in). Raises PlanRefused."""
    return run_passes(type_program(program, LiveReader(program, args, read_capture)), disable_fusions)


def plan_recorded(program: Program, signature: Signature, sample: Mapping[str, int],
                  disable_fusions: Sequence[str] = ()) -> Plan:
    """Plan a program for a recorded signature; sample: symbol name -> extent, answers the plan's questions.

    Raises PlanRefused, also when typing wants to read something that the signature does not hold.
    """
    return run_passes(type_program(program, RecordedReader(program, signature, sample)), disable_fusions)
