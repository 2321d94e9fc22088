"""The instruction set of MSBC: one table of 37 rows, from which codec, disassembler and checks are derived.

MSBC is a register code. A register holds whatever a Python local may hold (an array, a scalar, a tuple, a container
of parameters); the meaning of every instruction is Python's and NumPy's own. Control flow is structured: loops and
branches nest, and every jump target is an instruction index inside its construct (see `Control flow` below).

Adding an instruction:
1. add a row to `TABLE` (a free code inside its group; operands from `KINDS`);
2. write its handler `exec_<name>` in `vm/run/interpreter.py`;
3. write its typing rule `type_<name>` in `vm/plan/typed.py`;
4. teach the frontend to emit it;
5. raise `MSBC_VERSION` in `vm/lang/codec.py` (old bundles are then refused by name).
Tests demand that 2 and 3 agree with the table exactly.

Control flow:
    IF_TRUE a, else            falls through when `a` is true, else jumps to `else`. The instruction before `else` is
                               either `JUMP end` (there is an else branch: [else, end)) or anything else (no else
                               branch: `else` is the join).
    LOOP_RANGE var, a, b, s, exit     `for var in range(a, b, s)`: the body ends in LOOP_NEXT at exit - 1.
    LOOP_EACH var, seq, exit          `for var in seq`; the same form.
    LOOP_WHILE exit            head of `while`; LOOP_TEST / LOOP_UNTIL_TENSOR_EQ inside leave it; ends in LOOP_NEXT.
    LOOP_NEXT head             back edge to the loop head (the only backward jump).
    BREAK exit / CONTINUE next leave the innermost loop / go to its LOOP_NEXT (operand: that loop's exit / LOOP_NEXT).
    RETURN a                   ends the program; the last instruction of every program is a RETURN.
"""

from __future__ import annotations

from typing import Any

from ...templates.records import record

# Operand kinds. Each operand is one unsigned 16-bit word; `regs` is a count word followed by that many registers.
KINDS = {
    "dst": "register written",
    "src": "register read",
    "param": "index into the parameter list",
    "const": "index into the constant pool",
    "capture": "index into the capture list",
    "kernel": "kernel id (templates/registry.py)",
    "target": "instruction index",
    "imm": "small number, meaning fixed by the row",
    "srcs": "count, then registers read",
    "dsts": "count, then registers written",
}


@record(eq=True)
class Row:
    """One instruction: its code, its operands in order as (name, kind), and what it does."""

    code: int
    name: str
    group: str  # "tensor" | "control" | "environment"
    operands: tuple[tuple[str, str], ...]
    doc: str


def _row(code: int, name: str, operands: str, doc: str) -> Row:
    group = "control" if code < 0x10 else "environment" if code < 0x18 else "tensor"
    pairs = tuple((n, k) for n, k in (item.split(":") for item in operands.split()))
    return Row(code, name, group, pairs, doc)


TABLE: tuple[Row, ...] = (
    # control flow
    _row(0x01, "IF_TRUE", "a:src else:target", "branch on Python truth of a"),
    _row(0x02, "IF_TENSOR_GT", "a:src b:src else:target", "branch on a > b"),
    _row(0x03, "JUMP", "end:target", "forward jump from the end of a then-branch to the join"),
    _row(0x04, "LOOP_RANGE", "var:dst start:src stop:src step:src exit:target", "for var in range(start, stop, step)"),
    _row(0x05, "LOOP_EACH", "var:dst seq:src exit:target", "for var in seq (containers unroll when typed)"),
    _row(0x06, "LOOP_WHILE", "exit:target", "head of a while loop"),
    _row(0x07, "LOOP_UNTIL_TENSOR_EQ", "a:src b:src exit:target", "leave the enclosing LOOP_WHILE when a == b"),
    _row(0x08, "LOOP_TEST", "a:src exit:target", "leave the enclosing LOOP_WHILE when a is false"),
    _row(0x09, "LOOP_NEXT", "head:target", "next trip of the loop at head"),
    _row(0x0A, "BREAK", "exit:target", "leave the innermost loop"),
    _row(0x0B, "CONTINUE", "next:target", "go to the innermost loop's LOOP_NEXT"),
    _row(0x0C, "RETURN", "a:src", "return a"),
    # environment
    _row(0x10, "LOAD_CONST", "dst:dst value:const", "dst = constant"),
    _row(0x11, "LOAD_CAPTURE", "dst:dst name:capture", "dst = global or closure value, read again at each call"),
    _row(0x12, "LOAD_ATTR", "dst:dst a:src name:const", "dst = getattr(a, name): x.shape, x.T, self.w"),
    _row(0x13, "BUILD", "dst:dst kind:imm items:srcs", "dst = tuple (0), list (1), slice (2), dict (3: key, value, ...)"),
    _row(0x14, "MOVE", "dst:dst a:src", "dst = a (the same object)"),
    _row(0x15, "UNPACK", "a:src dsts:dsts", "d0, d1, ... = a; ValueError when the lengths differ"),
    # tensor
    _row(0x18, "LOAD_TENSOR", "dst:dst index:param", "dst = parameter"),
    _row(0x19, "STORE_TENSOR", "base:src index:src value:src", "base[index] = value"),
    _row(0x1A, "VIEW_TENSOR", "dst:dst base:src index:src", "dst = base[index]: views, gathers, container items"),
    _row(0x1B, "ALLOC_BUFFER", "dst:dst shape:src fill:imm dtype:src", "np.empty (0), zeros (1), ones (2) of dtype"),
    _row(0x1C, "UNARY_NEG_TENSOR", "dst:dst a:src", "dst = -a"),
    _row(0x1D, "UNARY_NOT_TENSOR", "dst:dst a:src", "dst = ~a"),
    _row(0x1E, "CAST_TENSOR", "dst:dst a:src dtype:src", "dst = a.astype(dtype): always a fresh array"),
    _row(0x1F, "BINARY_ADD_TENSOR", "dst:dst a:src b:src", "dst = a + b"),
    _row(0x20, "BINARY_SUB_TENSOR", "dst:dst a:src b:src", "dst = a - b"),
    _row(0x21, "BINARY_MUL_TENSOR", "dst:dst a:src b:src", "dst = a * b"),
    _row(0x22, "BINARY_DIV_TENSOR", "dst:dst a:src b:src", "dst = a / b"),
    _row(0x23, "COMPARE_TENSOR", "dst:dst a:src b:src op:imm", "dst = a OP b, OP from COMPARE_OPS"),
    _row(0x24, "INPLACE_TENSOR", "dst:dst a:src b:src op:kernel", "a OP= b: arrays in place, other values rebound"),
    _row(0x25, "SELECT_TENSOR", "dst:dst cond:src a:src b:src", "dst = np.where(cond, a, b)"),
    _row(0x26, "REDUCE_SUM_TENSOR", "dst:dst a:src axis:src keepdims:imm", "dst = np.sum(a, axis, keepdims=...)"),
    _row(0x27, "REDUCE_MAX_TENSOR", "dst:dst a:src axis:src keepdims:imm", "dst = np.max(a, axis, keepdims=...)"),
    _row(0x28, "CALL_KERNEL", "dst:dst id:kernel args:srcs", "dst = kernel(*args): see templates/registry.py"),
    _row(0x29, "SYNC_DEVICE", "", "wait for outstanding device work (the CPU has none)"),
    _row(0x2A, "TENSOR_SHAPE_REF", "dst:dst a:src axis:imm", "dst = a.shape[axis], a Python int; the axis fits int16"),
)

BY_CODE: dict[int, Row] = {row.code: row for row in TABLE}
BY_NAME: dict[str, Row] = {row.name: row for row in TABLE}
Op: Any = type("Op", (), {row.name: row.code for row in TABLE})  # numbers by name; they follow from the table

COMPARE_OPS: tuple[str, ...] = ("==", "!=", "<", "<=", ">", ">=", "is", "is not", "in", "not in")
BUILD_KINDS: tuple[str, ...] = ("tuple", "list", "slice", "dict")

assert len(TABLE) == len(BY_CODE) == len(BY_NAME) == 37
