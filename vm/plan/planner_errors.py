"""How the planner says no."""

from __future__ import annotations


class PlanRefused(Exception):
    """The planner does not take this program for these arguments; the interpreter serves the call.

    reason: one line; kind: short slug by which refusals are counted; position: instruction index.
    """

    def __init__(self, reason: str, *, kind: str = "unplanned", position: int = -1) -> None:
        super().__init__(reason)
        self.reason, self.kind, self.position = reason, kind, position


def let_interrupt() -> None:
    """Called between instructions and passes: what ends a runaway planning (run/deadline.py) is raised when Python code runs, and
    a planner that was compiled is none."""
