"""Which registers a program still reads: backward data flow over its structured code, as bit masks per instruction."""

from __future__ import annotations

from ..lang.bytecode import Program, kept_on_program
from ..lang.opcodes import BY_CODE, Op

_LAST_CONTROL = int(Op.RETURN)


def successors(program: Program, pc: int) -> tuple[int, ...]:
    """Instruction indices that may follow `pc`."""
    ins = program.code[pc]
    op = ins.op
    if op > _LAST_CONTROL:
        return (pc + 1,)
    if op == Op.RETURN:
        return ()
    if op in (Op.JUMP, Op.LOOP_NEXT, Op.BREAK, Op.CONTINUE):
        return (ins.args[-1],)
    if op in (Op.IF_TRUE, Op.IF_TENSOR_GT, Op.LOOP_RANGE, Op.LOOP_EACH, Op.LOOP_TEST, Op.LOOP_UNTIL_TENSOR_EQ):
        return (pc + 1, ins.args[-1])
    return (pc + 1,)


def reads_and_writes(program: Program, pc: int) -> tuple[int, int]:
    """Bit masks of the registers an instruction reads and writes."""
    ins = program.code[pc]
    reads = writes = 0
    at = 0
    for _, kind in BY_CODE[ins.op].operands:
        if kind in ("srcs", "dsts"):
            count = ins.args[at]
            mask = 0
            for reg in ins.args[at + 1:at + 1 + count]:
                mask |= 1 << reg
            if kind == "srcs":
                reads |= mask
            else:
                writes |= mask
            at += 1 + count
            continue
        if kind == "src":
            reads |= 1 << ins.args[at]
        elif kind == "dst":
            writes |= 1 << ins.args[at]
        at += 1
    return reads, writes


@kept_on_program
def live_registers(program: Program) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(live before each instruction, written by each instruction) as bit masks; one extra entry for the end."""
    n = len(program.code)
    live = [0] * (n + 1)
    pairs = [reads_and_writes(program, pc) for pc in range(n)]
    after = [successors(program, pc) for pc in range(n)]
    goes_back = any([s <= pc for pc, following in enumerate(after) for s in following])  # else one round is all
    changed = True
    while changed:
        changed = False
        for pc in range(n - 1, -1, -1):
            out = 0
            for s in after[pc]:
                out |= live[s]
            reads, writes = pairs[pc]
            new = reads | (out & ~writes)
            if new != live[pc]:
                live[pc] = new
                changed = goes_back
    return tuple(live), tuple(w for _, w in pairs)


@kept_on_program
def constant_registers(program: Program) -> dict[int, object]:
    """Registers that one LOAD_CONST alone writes: wherever they may be read they hold that constant."""
    written = several = 0
    for writes in live_registers(program)[1]:
        several |= written & writes
        written |= writes
    load = int(Op.LOAD_CONST)
    return {ins.args[0]: program.constants[ins.args[1]] for ins in program.code
            if ins.op == load and not several >> ins.args[0] & 1}


def bits(mask: int) -> list[int]:
    """Indices of the set bits."""
    out = []
    while mask:
        low = mask & -mask
        out.append(low.bit_length() - 1)
        mask ^= low
    return out
