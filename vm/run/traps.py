"""What follows when compiled code stops in the middle of a call: the interpreter runs it again, or an error is raised."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..errors import InternalError, PrebakeError
from .arguments import shape_of_args
from .interpreter import run_program
from .source_errors import point_at_source, raised_there

if TYPE_CHECKING:
    from .function import FunctionState

RAISE = 7    # the trap of a `raise` of the program
_TRAPS: dict[int, tuple[type[Exception], str]] = {
    1: (IndexError, "index out of bounds"),
    2: (ZeroDivisionError, "division by zero"),
    3: (OverflowError, "number out of bounds for its dtype"),
    4: (ValueError, "shapes do not fit"),
    5: (MemoryError, "no memory for a result"),
}


def after_trap(state: FunctionState, trap: tuple[int, int, BaseException | None, str], args: tuple, writes: bool) -> object:
    """Raise what the compiled code of a `FunctionState` stopped with, pointing at the user's line.

    What a call-out raised is raised as it is. Otherwise, where no argument was written, the interpreter runs the
    call again: its exception is NumPy's own, word for word.
    """
    code, position, raised, said = trap
    try:
        program = state.program()
    except PrebakeError:
        program = None
    if raised is not None:
        if program is not None and isinstance(raised, Exception):
            raise point_at_source(raised, program, position)
        raise raised
    if not writes and program is not None:
        return run_program(program, args, state.function.read_capture, precision=state.settings["precision"])
    kind, text = _TRAPS.get(code, (InternalError, f"trap {code} of compiled code"))
    extents = dict(shape_of_args(state.function, args))
    said = re.sub(r"\w+\.shape\[\d+\]", lambda found: str(extents.get(found[0], found[0])), said)
    error = kind(said or text)
    if code == RAISE and program is not None:
        error = raised_there(program, position)
    if program is not None:
        point_at_source(error, program, position)
    raise error
