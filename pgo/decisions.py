"""What a plan decided and why, in words: for the YAML's comments and for what `prebake plan` prints.

No covering kernel is left out silently: without one, shapes that no profile has seen are planned while a caller waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .buckets import Candidate, Group, Limits, Selection
from .spread import Spread

_MOST_LINES = 4  # refinements that are told of one by one, those that came nearest


def decisions(function: str, groups: Sequence[Group], candidates: Sequence[Candidate], selection: Selection, limits: Limits,
              spreads: Mapping[tuple[int, str], Spread]) -> list[str]:
    """A line for each covering kernel that was left out, and for the measured refinements that were not worth one.

    spreads: measured speed-ups, of a widest candidate over the tape, of others over the widest; empty where nothing was.
    """
    chosen = {(choice.candidate.group, choice.candidate.text()) for choice in selection.choices}
    lines, near = [], []
    for candidate in candidates:
        key = candidate.group, candidate.text()
        if groups[candidate.group].function != function or key in chosen:
            continue
        speed = spreads.get(key)
        if not candidate.fixed:
            lines.append(f"no kernel covers {candidate.text()}: {_why_not(speed, selection, limits)}")
        elif speed is not None:
            near.append((speed, candidate))
    near.sort(key=lambda item: -item[0].middle)
    for speed, candidate in near[:_MOST_LINES]:
        lines.append(f"not worth a kernel: {candidate.text()}, {speed} the next wider")
    if len(near) > _MOST_LINES:
        lines.append(f"nor are {len(near) - _MOST_LINES} more that were measured")
    return lines


def _why_not(speed: Spread | None, selection: Selection, limits: Limits) -> str:
    if speed is not None and speed.high < 1:
        return f"measured at {speed} the tape; shapes that no other kernel holds use the tape"
    if len(selection.choices) >= limits.kernels():
        return f"{limits.kernels()} kernels are allowed, and others save more"
    return "narrower ones save more"
