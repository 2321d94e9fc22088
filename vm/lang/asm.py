"""The text form of a program: what `disassemble` writes, `assembler.assemble` reads back to the same bytes.

    .program "mlp:forward"        name, then the tables, one entry a line, in order
    .registers 4
    .param x
    .param eps default=0 kind=1
    .symbol "x.shape[0]"          entry 1 and on; entry 0 is "?"
    .const float 1e-05
    .kernels 0x8001               ids used; without the line, those that the instructions name
    .capture global "mlp" "SCALE"
    .binding global "mlp" "relu" "mlp:relu"
    .function "mlp" "forward" 9f0c... "mlp.py" 12
    .line "def forward(x, eps=1e-5):"

    ; mlp.py:13  return x + eps
    0x02  BINARY_ADD_TENSOR  r2 r0 r1       : float32 s1  @0:13:12-19

Operands stand in the order of the instruction table: registers r0, constants c0, captures g0, parameters p0, targets
and kernel ids in hexadecimal, other numbers plain, counted registers in parentheses. After ` : ` the dtype hint and the
shape reference, after ` @` function:line:column-end. Everything after ` ; ` is a comment. Written by hand, a program
may leave out the index at the start of an instruction and its position, and write targets as labels (`again:` on a
line of its own).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...templates import registry
from ..dtypes import dtype_name
from .bytecode import UNBOUND, Instruction, Position, Program
from .opcodes import BY_CODE, COMPARE_OPS

if TYPE_CHECKING:
    from .verifier import Fault

PREFIX = {"dst": "r", "src": "r", "const": "c", "capture": "g", "param": "p"}
CONTEXT = 4  # instructions shown on each side of a fault in a long program
SHORT_PROGRAM = 60
MAX_FAULTS_SHOWN = 50


# --- writing

def disassemble(program: Program) -> str:
    """The whole program as text; each group of instructions stands under the source line it came from."""
    lines = [".msbc 1", f".program {quote(program.name)}", f".registers {program.n_regs}"]
    for param in program.params:
        default = f" default={param.default}" if param.default >= 0 else ""
        kind = f" kind={param.kind}" if param.kind else ""
        lines.append(f".param {param.name}{default}{kind}")
    lines += [f".symbol {quote(text)}" for text in program.symbols[1:]]
    lines += [f".const {format_constant(value)}" for value in program.constants]
    if program.kernels:
        lines.append(".kernels " + " ".join(f"{kernel:#06x}" for kernel in program.kernels))
    lines += [f".capture {c.scope} {quote(c.module)} {quote(c.name)}" for c in program.captures]
    lines += [f".binding {b.scope} {quote(b.module)} {quote(b.path)} {quote(b.meaning)}" for b in program.bindings]
    for f in program.functions:
        names = " ".join(map(quote, (f.module, f.qualname, f.digest, f.file)))
        lines.append(f".function {names} {f.first_line}")
        lines += [f".line {quote(text)}" for text in f.lines]
    lines.append("")
    lines += list_code(program, range(len(program.code)))
    return "\n".join(lines) + "\n"


def list_code(program: Program, indices: Sequence[int],
              notes: Callable[[int], list[str]] = lambda index: []) -> list[str]:
    """Lines for these instructions, with source lines in between; `notes(index)` follow their instruction."""
    lines: list[str] = []
    last_place: tuple[int, int] | None = None
    last_index = -1
    for index in indices:
        if index != last_index + 1:
            lines.append("; ...")
        last_index = index
        position = program.positions[index] if index < len(program.positions) else None
        if position is not None and (position.function, position.line) != last_place:
            last_place = (position.function, position.line)
            source = _source_comment(program, position)
            if source:
                lines.append(source)
        lines.append(format_instruction(program, index))
        lines += notes(index)
    return lines


def _source_comment(program: Program, position: Position) -> str:
    if position.function >= len(program.functions):
        return ""
    function = program.functions[position.function]
    offset = position.line - function.first_line
    text = function.lines[offset].strip() if 0 <= offset < len(function.lines) else ""
    return f"; {_clip(function.file, 60)}:{position.line}  {_clip(text, 160)}".rstrip()


def format_instruction(program: Program, index: int) -> str:
    """One instruction as text; also where it is malformed."""
    ins = program.code[index]
    row = BY_CODE.get(ins.op)
    name = row.name if row is not None else f"OP_{ins.op:02X}"
    operands, comment = _operands(program, ins)
    text = f"0x{index:02X}  {name:<20} {' '.join(operands)}"
    if ins.dtype or ins.shape:
        text = f"{text:<52} : {dtype_name(ins.dtype)} s{ins.shape}"
    if index < len(program.positions):
        p = program.positions[index]
        text = f"{text:<70} @{p.function}:{p.line}:{p.column}-{p.end_column}"
    return f"{text:<86} ; {comment}" if comment else text.rstrip()


def _operands(program: Program, ins: Instruction) -> tuple[list[str], str]:
    row = BY_CODE.get(ins.op)
    if row is None:
        return [str(word) for word in ins.args], ""
    words, comments = [], []
    at = 0
    for name, kind in row.operands:
        if at >= len(ins.args):
            break
        word = ins.args[at]
        at += 1
        if kind in PREFIX:
            words.append(f"{PREFIX[kind]}{word}")
        elif kind in ("srcs", "dsts"):
            if word == len(ins.args) - at:
                words.append("(" + " ".join(f"r{r}" for r in ins.args[at:]) + ")")
                at = len(ins.args)
            else:
                words.append(str(word))
        else:
            words.append(f"0x{word:02X}" if kind in ("target", "kernel") else str(word))
        comments += _comment(program, name, kind, word)
    words += [str(word) for word in ins.args[at:]]
    if 0 < ins.shape < len(program.symbols):
        comments.append(f"-> {_clip(program.symbols[ins.shape], 60)}")
    return words, "  ".join(comments)


def _comment(program: Program, name: str, kind: str, word: int) -> list[str]:
    """What a word stands for, where the number alone does not say it."""
    if kind == "const" and word < len(program.constants):
        return [_clip(_summary(program.constants[word]), 40)]
    if kind == "param" and word < len(program.params):
        return [_clip(program.params[word].name, 40)]
    if kind == "capture" and word < len(program.captures):
        return [_clip(program.captures[word].name, 40)]
    if kind == "kernel":
        found = registry.BY_ID.get(word)
        return [found.name if found is not None else "no such kernel"]
    if kind == "imm" and name == "op" and word < len(COMPARE_OPS):
        return [COMPARE_OPS[word]]
    return []


def list_faults(program: Program, faults: Sequence[Fault]) -> str:
    """The disassembly with each fault under its instruction, source line, cause and cure; long programs in windows."""
    by_index: dict[int, list[Fault]] = {}
    lines: list[str] = []
    for fault in faults[:MAX_FAULTS_SHOWN]:
        if fault.index < 0:
            lines += _explain(program, fault)
        else:
            by_index.setdefault(fault.index, []).append(fault)
    total = len(program.code)
    if total <= SHORT_PROGRAM:
        indices = list(range(total))
    else:
        near = {i for at in by_index for i in range(at - CONTEXT, at + CONTEXT + 1)}
        indices = sorted(i for i in near if 0 <= i < total)
    if lines and indices:
        lines.append("")

    def notes(index: int) -> list[str]:
        return [line for fault in by_index.get(index, ()) for line in _explain(program, fault)]

    lines += list_code(program, indices, notes)
    if len(faults) > MAX_FAULTS_SHOWN:
        lines.append(f"; and {len(faults) - MAX_FAULTS_SHOWN} more faults")
    return "\n".join(lines)


def _explain(program: Program, fault: Fault) -> list[str]:
    lines = [f"      ^ {fault.what}" if fault.index >= 0 else f"{fault.what}"]
    if 0 <= fault.index < len(program.positions):
        source = _source_comment(program, program.positions[fault.index])
        if source:
            lines.append(f"        source  {source[2:]}")
    if fault.cause:
        lines.append(f"        cause   {fault.cause}")
    if fault.cure:
        lines.append(f"        fix     {fault.cure}")
    return lines


def quote(text: str) -> str:
    """A double-quoted literal in ASCII, without line breaks, that `ast.literal_eval` reads back."""
    return '"' + text.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'


def _clip(text: str, size: int) -> str:
    """Printable text of at most about `size` characters, for comments."""
    text = text if len(text) <= size else text[:size - 3] + "..."
    return text if text.isprintable() else ascii(text)[1:-1]


def _summary(value: object) -> str:
    """The beginning of a constant, without formatting all of a large one."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"int of {value.bit_length()} bits"
    if isinstance(value, str):
        return format_constant(value[:40])
    if isinstance(value, tuple):
        items = [_summary(item) for item in value[:4]]
        return "tuple (" + ", ".join(items) + (", ...)" if len(value) > 4 else ")")
    return format_constant(value)


def format_constant(value: object) -> str:
    """Kind and value: `int 3`, `float 0.5`, `tuple (int 1, str "a")`."""
    if value is None:
        return "None"
    if value is ...:
        return "Ellipsis"
    if value is UNBOUND:
        return "UNBOUND"
    if isinstance(value, bool):
        return f"bool {value}"
    if isinstance(value, int):
        # Python refuses to print very long decimals, but not hexadecimals
        return f"int {value}" if value.bit_length() < 1024 else f"int {value:#x}"
    if isinstance(value, float):
        return f"float {_float(value)}"
    if isinstance(value, complex):
        return f"complex {_float(value.real)} {_float(value.imag)}"
    if isinstance(value, str):
        return f"str {quote(value)}"
    if isinstance(value, tuple):
        return "tuple (" + ", ".join(map(format_constant, value)) + ")"
    if isinstance(value, np.dtype):
        return f"dtype {value}"
    return f"? {type(value).__name__}"


def _float(value: float) -> str:
    """Shortest decimal that is read back bit for bit; NaNs by their bits."""
    if value != value:
        return f"bits:{np.float64(value).view(np.uint64):#018x}"
    return repr(value)
