"""Looking into compiled functions: `dump_tensor` writes arrays, `breakpoint` stops, inside any engine.

In a decorated function both are calls that only the interpreter makes: a function that holds one runs there.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from typing import Any

import numpy as np

from ...templates.registry import provide

_counts: dict[str, int] = {}


def dump_tensor(x: Any, name: str = "tensor", folder: str | os.PathLike[str] = ".") -> Any:
    """The same x, after writing it to `<folder>/<name>.npz` (`<name>-1.npz`, ... for later dumps of that name).

    x: an array, or a tuple, list or dictionary of arrays, each a member of the file. Characters that are no part of a
    plain file name become '_'.
    """
    plain = re.sub(r"[^A-Za-z0-9_.\-]", "_", name).lstrip(".") or "tensor"
    count = _counts.get(plain, 0)
    _counts[plain] = count + 1
    path = os.path.join(os.fspath(folder), f"{plain}-{count}.npz" if count else f"{plain}.npz")
    if isinstance(x, dict):
        members = {str(key): np.asarray(value) for key, value in x.items()}
    elif isinstance(x, (tuple, list)):
        members = {f"arr_{i}": np.asarray(value) for i, value in enumerate(x)}
    else:
        members = {re.sub(r"\W", "_", name) or "tensor": np.asarray(x)}
    with open(path, "wb") as file:
        np.savez(file, **members)  # type: ignore[arg-type]
    return x


def breakpoint(*tensors: Any) -> None:
    """Stop in the debugger (`sys.breakpointhook`); locals and the arguments are in reach.

    Compiled functions stop in a frame of their own source line, whose locals are those of the function; what the
    debugger assigns to them is not written back.
    """
    _show(tensors)
    if sys.breakpointhook is sys.__breakpointhook__ and "PYTHONBREAKPOINT" not in os.environ:
        import pdb

        pdb.Pdb().set_trace(sys._getframe(1))  # in the caller's frame; hooks take their own caller's, which is this one
    else:
        sys.breakpointhook()


def _show(tensors: tuple) -> None:
    if tensors:
        sys.stderr.write("".join(f"tensors[{i}] {_summary(x)}\n" for i, x in enumerate(tensors)))


def _summary(x: Any) -> str:
    return f"{x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else repr(x)[:80]


def _stop(names: tuple, values: tuple, tensors: tuple = ()) -> None:
    """`breakpoint` of a program: a frame at its source line stops, with these locals."""
    from .source_errors import file_of, loaded_module, source_line

    _show(tensors)
    caller = sys._getframe(1).f_locals  # of the interpreter's `exec_call_kernel`
    place = source_line(caller["frame"].program, caller["pc"]) if "frame" in caller and "pc" in caller else None
    if place is None:
        sys.breakpointhook()
        return
    function, line, _ = place
    held = dict(zip(names, values, strict=True))
    if tensors:
        held.setdefault("tensors", tensors)
    exec(_stop_code(file_of(function), line, function.qualname.rpartition(".")[2]),
         {**vars(loaded_module(function.module) or sys)}, held)


def _stop_code(path: str, line: int, name: str) -> Any:
    # The loop's way back is an event of that line: debuggers that stop at the next line (pdb before 3.13) stop there.
    tree = ast.parse("for _ in (1, 0): _ and __import__('sys').breakpointhook()")
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.stmt)):
            node.lineno = node.end_lineno = max(line, 1)
    return compile(tree, path, "exec").replace(co_name=name, co_qualname=name)


provide("debug.dump_tensor", dump_tensor)
provide("debug.breakpoint", _stop)
