"""PREBAKE_DUMP=times: where the JIT's time goes, step by step, on stderr when the process ends."""

from __future__ import annotations

import atexit

from ..lang.bytecode import Program
from ..plan.code import Code, ContractCode, Instr, NestCode
from .log import dump
from .source_errors import source_line
from .tape import Tape


def report_at_exit(name: str, code: Code, tape: Tape, program: Program) -> None:
    """Print the tape's times when the process ends."""
    atexit.register(lambda: dump(f"times of {name}", times_text(code, tape, program)))


def times_text(code: Code, tape: Tape, program: Program | None = None) -> str:
    """A table: runs, share of the time, microseconds of a run (mean, least), the step in one line, and the source line
    that it ends (a step that does the work of several lines stands at the last); steps that read alike are one line."""
    rows: dict[str, list[tuple[int, int, int]]] = {}
    for instr, count, elapsed_ns, least_ns in tape.step_times():
        if count:
            text = f"{step_text(code, instr)}{_source_text(code, instr, program)}"
            rows.setdefault(text, []).append((count, elapsed_ns, least_ns))
    total = sum(row[1] for found in rows.values() for row in found) or 1
    lines = [f"{'runs':>8} {'share':>6} {'mean us':>10} {'least':>10}  step ({total / 1e6:.1f} ms in all)"]
    for text, found in rows.items():
        count, elapsed_ns = sum(row[0] for row in found), sum(row[1] for row in found)
        least_us = sum(row[0] * row[2] for row in found) / count / 1e3
        lines.append(f"{count:8} {elapsed_ns / total:6.1%} {elapsed_ns / count / 1e3:10.2f} {least_us:10.2f}  {text}")
    return "\n".join(lines)


def _source_text(code: Code, instr: Instr, program: Program | None) -> str:
    place = None if program is None else source_line(program, code.places.get(id(instr), -1))
    if place is None:
        return ""
    function, line, text = place
    return f"  # {function.file}:{line}  {text.strip()[:60]}"


def step_text(code: Code, instr: Instr) -> str:
    """A nest or product in one line; extents that are not constant are written `?`."""
    def reg(number: int) -> str:
        value = code.consts.get(number)
        return "?" if value is None else str(value)

    if isinstance(instr, ContractCode):
        batch = "".join(f"{reg(extent)} x " for extent in instr.batch)
        parts = [f"product {instr.dtype} {batch}({reg(instr.m)}, {reg(instr.k)}) @ ({reg(instr.k)}, {reg(instr.n)})",
                 f"in {instr.rounding}" if instr.rounding else "",
                 "packed" if instr.pack >= 0 else "", "+ bias" if instr.bias is not None else "",
                 "+ residual" if instr.residual is not None else "",
                 instr.act if instr.act != "none" else ""]
        return " ".join(filter(None, parts))
    assert isinstance(instr, NestCode)
    ways = [out.reduce for out in instr.outs]
    return f"nest ({', '.join(map(reg, instr.axes))}) {' '.join(op.op for op in instr.ops)} -> {' '.join(ways)}"
