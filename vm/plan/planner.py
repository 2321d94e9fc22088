"""The two doors to a plan: from live arguments (JIT) and from a recorded signature (AOT build)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..lang.bytecode import Program
from .signature import Signature
from .steps import Plan


class PlanRefused(Exception):
    """The planner does not take this program for these arguments; the interpreter serves the call.

    reason: one line; kind: short slug by which refusals are counted; position: instruction index.
    """

    def __init__(self, reason: str, *, kind: str = "unplanned", position: int = -1) -> None:
        super().__init__(reason)
        self.reason, self.kind, self.position = reason, kind, position


def plan_live(program: Program, args: Sequence[object], read_capture: Callable[[int], object],
              disable_fusions: Sequence[str] = ()) -> Plan:
    """Plan a program for live arguments (one object per parameter, defaults filled in). Raises PlanRefused."""
    raise PlanRefused("typing is not there yet")


def plan_recorded(program: Program, signature: Signature, sample: Mapping[str, int],
                  disable_fusions: Sequence[str] = ()) -> Plan:
    """Plan a program for a recorded signature; sample: symbol name -> extent, answers the plan's questions.

    Raises PlanRefused, also when typing wants to read something that the signature does not hold.
    """
    raise PlanRefused("typing is not there yet")
