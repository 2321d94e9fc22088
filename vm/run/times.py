"""PREBAKE_DUMP=times: where the JIT's time goes, step by step, on stderr when the process ends."""

from __future__ import annotations

import atexit

from ..plan.code import Code, ContractCode, Instr, NestCode
from .log import dump
from .tape import Tape


def report_at_exit(name: str, code: Code, tape: Tape) -> None:
    """Print the tape's times when the process ends."""
    atexit.register(lambda: dump(f"times of {name}", times_text(code, tape)))


def times_text(code: Code, tape: Tape) -> str:
    """A table: runs, share of the time, microseconds of a run (mean, least), and the step in one line; steps that read
    alike are one line."""
    rows: dict[str, list[tuple[int, int, int]]] = {}
    for instr, count, elapsed_ns, least_ns in tape.step_times():
        if count:
            rows.setdefault(step_text(code, instr), []).append((count, elapsed_ns, least_ns))
    total = sum(row[1] for found in rows.values() for row in found) or 1
    lines = [f"{'runs':>8} {'share':>6} {'mean us':>10} {'least':>10}  step ({total / 1e6:.1f} ms in all)"]
    for text, found in rows.items():
        count, elapsed_ns = sum(row[0] for row in found), sum(row[1] for row in found)
        least_us = sum(row[0] * row[2] for row in found) / count / 1e3
        lines.append(f"{count:8} {elapsed_ns / total:6.1%} {elapsed_ns / count / 1e3:10.2f} {least_us:10.2f}  {text}")
    return "\n".join(lines)


def step_text(code: Code, instr: Instr) -> str:
    """A nest or product in one line; extents that are not constant are written `?`."""
    def reg(number: int) -> str:
        value = code.consts.get(number)
        return "?" if value is None else str(value)

    if isinstance(instr, ContractCode):
        batch = "".join(f"{reg(extent)} x " for extent in instr.batch)
        parts = [f"product {instr.dtype} {batch}({reg(instr.m)}, {reg(instr.k)}) @ ({reg(instr.k)}, {reg(instr.n)})",
                 "packed" if instr.pack >= 0 else "", "+ bias" if instr.bias is not None else "",
                 "+ residual" if instr.residual is not None else "",
                 instr.act if instr.act != "none" else ""]
        return " ".join(filter(None, parts))
    assert isinstance(instr, NestCode)
    ways = [out.reduce for out in instr.outs]
    return f"nest ({', '.join(map(reg, instr.axes))}) {' '.join(op.op for op in instr.ops)} -> {' '.join(ways)}"
