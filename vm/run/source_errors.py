"""Errors that point at the user's source: traceback entries for the line and for the calls that led there."""

from __future__ import annotations

import builtins
import keyword
import linecache
import os
import re
import sys
from types import ModuleType, TracebackType

from ...templates.registry import BY_ID
from ..errors import InternalError
from ..lang.bytecode import Position, Program, SourceFunction
from ..lang.opcodes import Op


def point_at_source(error: Exception, program: Program, index: int) -> Exception:
    """The same exception; its traceback passes through the user's line, and the calls of inlined functions above it.

    The entries for the user's lines stand below the interpreter's frames that raised, so that post-mortem debuggers and
    editors open the user's file where it is known. Where it is not, a note tells the line.
    """
    place = source_line(program, index)
    if place is None:
        return error
    inner = error.__traceback__
    while inner is not None and inner.tb_frame.f_globals.get("__name__", "").startswith(_OURS):
        inner = inner.tb_next
    callers = program.__dict__.get("callers")
    for position in (program.positions[index], *(callers[index] if callers is not None else ())):
        found = _line_at(program, position)
        if found is None:
            continue
        function, line, text = found
        entry = _entry(position, file_of(function), text, function.qualname.rpartition(".")[2])
        if entry is not None:
            inner = TracebackType(inner, entry.tb_frame, entry.tb_lasti, line)
    error.__traceback__ = inner
    function, line, text = place
    if linecache.getline(file_of(function), line).strip() != text.strip() or not text:
        error.add_note(f"  in {function.qualname}, {function.file}:{line}" + (f"\n    {text.strip()}" if text else ""))
    return error


_OURS = __name__.rpartition(".")[0]


def source_line(program: Program, index: int) -> tuple[SourceFunction, int, str] | None:
    """(function, 1-based line, its text or '') of an instruction; None where the program does not say."""
    if not 0 <= index < len(program.positions):
        return None
    return _line_at(program, program.positions[index])


def _line_at(program: Program, position: Position) -> tuple[SourceFunction, int, str] | None:
    if not 0 <= position.function < len(program.functions):
        return None
    function = program.functions[position.function]
    offset = position.line - function.first_line
    text = function.lines[offset] if 0 <= offset < len(function.lines) else ""
    return function, position.line, text


def file_of(function: SourceFunction) -> str:
    """The path of the loaded module that defines the function, else the base name that the bytecode holds."""
    path = getattr(loaded_module(function.module), "__file__", None)
    if isinstance(path, str) and os.path.basename(path) == function.file:
        return path
    return function.file


def loaded_module(name: str) -> ModuleType | None:
    """The loaded module that a program calls `name`: for a script that is the stem of its file."""
    module = sys.modules.get(name)
    if module is not None:
        return module
    main = sys.modules.get("__main__")
    path = getattr(main, "__file__", None) or ""
    return main if os.path.splitext(os.path.basename(path))[0] == name else None


def raised_there(program: Program, index: int) -> Exception:
    """The error of a `raise` of the program. Compiled code keeps no text: values in it are shown as `{...}`."""
    made = {ins.args[0]: ins for ins in program.code[:index] if ins.op in (Op.LOAD_CONST, Op.CALL_KERNEL, Op.BUILD)}

    def text(register: int) -> object:
        ins = made.get(register)
        if ins is None:
            return "{...}"
        if ins.op == Op.LOAD_CONST:
            return program.constants[ins.args[1]]
        if ins.op == Op.BUILD:
            return "".join(str(text(part)) for part in ins.args[3:])
        return text(ins.args[3]) if BY_ID[ins.args[1]].name == "py.text" else "{...}"

    kind, *message = (text(register) for register in program.code[index].args[3:])
    return getattr(builtins, str(kind), InternalError)(*message)


def unbound_local(program: Program, index: int) -> UnboundLocalError:
    """Python's error for a local that is read before it is assigned, with its name where the source shows it."""
    name = ""
    place = source_line(program, index)
    if place is not None:
        position = program.positions[index]
        piece = place[2][max(position.column - 1, 0):max(position.end_column - 1, 0)]
        words = {word for word in re.findall(r"[^\W\d]\w*", piece) if not keyword.iskeyword(word)}
        name = f" '{words.pop()}'" if len(words) == 1 else ""
    return UnboundLocalError(f"cannot access local variable{name} where it is not associated with a value")


def _entry(position: Position, path: str, text: str, name: str) -> TracebackType | None:
    """A traceback entry for a position in the source, with columns, so that carets are right too."""
    import ast

    tree = ast.parse("raise _Marker")
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.stmt)):
            node.lineno = node.end_lineno = max(position.line, 1)
            # the tree counts bytes, positions count characters
            node.col_offset = len(text[:max(position.column - 1, 0)].encode("utf-8", "replace"))
            node.end_col_offset = len(text[:max(position.end_column - 1, 0)].encode("utf-8", "replace"))
    code = compile(tree, path, "exec").replace(co_name=name, co_qualname=name)
    try:
        exec(code, {"_Marker": _Marker, "__name__": ""})
    except _Marker as marker:
        trace = marker.__traceback__
        return trace.tb_next if trace is not None else None
    return None


class _Marker(Exception):
    pass
