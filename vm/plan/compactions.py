"""Steps that took elements out of arrays (`x[mask]`), dropped again where nobody reads what they left."""

from __future__ import annotations

from .extents import Atom, Expr
from .prune import drop_dead_steps
from .rewrite import substitute_plan
from .steps import Buffer, Result, Step, walk
from .typer_state import Compaction
from .usage import accesses


def drop_compactions(steps: list[Step], result: Result, compactions: list[Compaction]) -> None:
    """Remove compactions whose elements and count nobody uses, and what was computed from them alone."""
    changed = bool(compactions)
    while changed:
        changed = False
        drop_dead_steps(steps)
        for group in reversed(compactions):
            kept = list(group.region)
            own = set(map(id, group.steps))
            group.region[:] = [step for step in kept if id(step) not in own]
            read, mentioned = _used(steps, result)
            if (group.count is not None and group.count.terms[0][0][0] in mentioned) or not read.isdisjoint(group.buffers):
                group.region[:] = kept
            else:
                compactions.remove(group)
                changed = True


def _used(steps: list[Step], result: Result) -> tuple[set[Buffer], set[Atom]]:
    """Buffers that are read or returned, and atoms that any step or the result mentions."""
    mentioned: set[Atom] = set()

    def look(expr: Expr) -> Expr:
        mentioned.update(expr.atoms)
        return expr

    substitute_plan(steps, result, look)
    read = {view.buffer for step in walk(steps) for view in accesses(step)[0]}
    pending = [result]
    while pending:
        part = pending.pop()
        pending.extend(part.items)
        if part.view is not None:
            read.add(part.view.buffer)
    return read, mentioned
