"""The instructions of a program one by one: operands in range, hints known, constants that contradict their use."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...templates import registry
from ..dtypes import CODES, NAMES, dtype_code, dtype_name
from .bytecode import UNBOUND, Instruction, Program
from .flow import CONTROL, Report
from .opcodes import BUILD_KINDS, BY_CODE, COMPARE_OPS, TABLE, Op

MAX_RANK = 64  # NumPy's own limit
_REBUILD = "make the bytecode again from its source"

# imm operands: the largest value of each (instruction, operand); the smallest is 0, except for an axis
_IMM_LIMITS: dict[tuple[str, str], int] = {
    ("BUILD", "kind"): len(BUILD_KINDS) - 1, ("ALLOC_BUFFER", "fill"): 2,
    ("COMPARE_TENSOR", "op"): len(COMPARE_OPS) - 1,
    ("REDUCE_SUM_TENSOR", "keepdims"): 1, ("REDUCE_MAX_TENSOR", "keepdims"): 1,
}
_HINTS = frozenset((0, *NAMES))
_INTEGERS = frozenset(code for code, name in NAMES.items() if "int" in name)
# plain ints: looking a member up on the enum costs as much as a check
_LOAD_CONST, _INPLACE, _BUILD = int(Op.LOAD_CONST), int(Op.INPLACE_TENSOR), int(Op.BUILD)
_SHAPE_REF = int(Op.TENSOR_SHAPE_REF)
_REGISTER_KINDS = frozenset(("dst", "src"))


class _Spec(NamedTuple):
    """What the operand words of an opcode are: the fixed ones, then perhaps a counted tail."""

    registers: tuple[int, ...]  # positions of registers
    indices: tuple[tuple[int, str], ...]  # (position, kind) of table indices; the graph check looks at targets
    fixed: int
    tail: str  # "", "srcs" or "dsts"
    kernel: int  # position of the kernel id, or -1
    writes: int  # position of the register written, or -1
    has_imm: bool


def _spec(operands: tuple[tuple[str, str], ...]) -> _Spec:
    kinds = [kind for _, kind in operands]
    tail = kinds.pop() if kinds and kinds[-1] in ("srcs", "dsts") else ""
    return _Spec(
        tuple(i for i, kind in enumerate(kinds) if kind in ("dst", "src")),
        tuple((i, kind) for i, kind in enumerate(kinds) if kind in ("param", "const", "capture")), len(kinds), tail,
        kinds.index("kernel") if "kernel" in kinds else -1, kinds.index("dst") if "dst" in kinds else -1,
        "imm" in kinds)


_SPECS: dict[int, _Spec] = {row.code: _spec(row.operands) for row in TABLE}
_IMMS: dict[int, tuple[tuple[int, str, int], ...]] = {
    row.code: tuple((i, name, _IMM_LIMITS[row.name, name]) for i, (name, kind) in enumerate(row.operands)
                    if kind == "imm" and row.name != "TENSOR_SHAPE_REF")
    for row in TABLE if any(kind == "imm" for _, kind in row.operands)
}


class OperandCheck:
    """Checks of single instructions; faults go to `report`.

    malformed: instructions whose registers cannot be read. is_readable: whether control flow can be followed at all.
    constant_of: register -> constant index, where all that is ever written to it is that constant; else -1.
    """

    def __init__(self, program: Program, report: Report) -> None:
        self.program, self.report = program, report
        self.malformed: set[int] = set()
        self.is_readable = True
        self.constant_of: dict[int, int] = {}
        self.kernels_used: set[int] = set()
        self.listed = frozenset(program.kernels)

    def run(self) -> None:
        p = self.program
        n_symbols, n_regs = len(p.symbols), p.n_regs
        limits = {"const": len(p.constants), "capture": len(p.captures), "param": len(p.params)}
        held = self.constant_of
        for index, ins in enumerate(p.code):
            op, args = ins.op, ins.args
            spec = _SPECS.get(op)
            if spec is None:
                self.report(index, f"unknown opcode 0x{op:02X}", "the instruction set has no such row", _REBUILD)
                self.malformed.add(index)
                continue
            if ins.shape >= n_symbols and ins.shape:
                self._broken_link(index, ins.shape, n_symbols)
            if ins.dtype not in _HINTS:
                self.report(index, f"unknown dtype hint 0x{ins.dtype:02X}",
                            "hints are the codes of vm/dtypes.py, 0 for unknown", _REBUILD)
            registers, indices, fixed, tail, kernel_at, write_at, has_imm = spec
            size = len(args)
            if (size <= fixed or size != fixed + 1 + args[fixed]) if tail else size != fixed:
                self._bad_count(index, ins, fixed, tail)
                continue
            for position in registers:
                if not 0 <= args[position] < n_regs:
                    self._out_of_range(index, ins, position, "src", n_regs)
            for position, kind in indices:
                if not 0 <= args[position] < limits[kind]:
                    self._out_of_range(index, ins, position, kind, limits[kind])
            if tail:
                for register in args[fixed + 1:]:
                    if not 0 <= register < n_regs:
                        self._out_of_range(index, ins, fixed, "src", n_regs, register)
                    elif tail == "dsts":
                        held[register] = -1
            if write_at >= 0:
                register, value = args[write_at], args[1] if op == _LOAD_CONST else -1
                held[register] = value if held.get(register, value) == value else -1
            if kernel_at >= 0:
                self._kernel(index, ins, args[kernel_at])
            if has_imm:
                self._imm(index, ins)
        self._constants()

    def constant_truth(self, register: int) -> bool | None:
        """Truth of a register that is one constant throughout, else None."""
        index = self.constant_of.get(register, -1)
        if index < 0:
            return None
        value = self.program.constants[index]
        return None if value is UNBOUND else bool(value)

    # --- single operands

    def _broken_link(self, index: int, shape: int, n_symbols: int) -> None:
        self.report(index, f"broken shape link: shape reference {shape}, the symbol table has {n_symbols} entries",
                    "the extent of this result is tied to nothing that is known when the function is called",
                    'state the relation, for instance jit(shapes={"x": "b d"}), or ' + _REBUILD)

    def _unreadable(self, index: int, op: int) -> None:
        self.malformed.add(index)
        if op in CONTROL:
            self.is_readable = False

    def _bad_count(self, index: int, ins: Instruction, fixed: int, tail: str) -> None:
        wanted = f"{fixed} operand words, a count and as many registers" if tail else f"{fixed} operand words"
        self.report(index, f"{BY_CODE[ins.op].name} has {len(ins.args)} operand words, its row wants {wanted}",
                    "the operands of every opcode are fixed by the instruction table", _REBUILD)
        self._unreadable(index, ins.op)

    def _out_of_range(self, index: int, ins: Instruction, position: int, kind: str, limit: int,
                      word: int | None = None) -> None:
        name = BY_CODE[ins.op].operands[position][0]
        word = ins.args[position] if word is None else word
        noun = _NOUNS[kind]
        self.report(index, f"operand '{name}' is {noun} {word}, there are {limit}",
                    f"an operand that names a {noun} counts from 0 to one less than there are", _REBUILD)
        if kind in _REGISTER_KINDS:
            self._unreadable(index, ins.op)

    def _imm(self, index: int, ins: Instruction) -> None:
        if ins.op == _SHAPE_REF:
            axis = ins.args[2] - 0x10000 if ins.args[2] >= 0x8000 else ins.args[2]
            if not -MAX_RANK <= axis < MAX_RANK:
                self.report(index, f"axis {axis} of a shape", f"arrays have at most {MAX_RANK} axes",
                            "use an axis that the array has")
            return
        for position, name, limit in _IMMS[ins.op]:
            if ins.args[position] > limit:
                self.report(index, f"operand '{name}' is {ins.args[position]}, expected 0 to {limit}",
                            BY_CODE[ins.op].doc, _REBUILD)
        if ins.op == _BUILD:
            count = ins.args[2]
            kind = ins.args[1]
            if kind == 2 and not 1 <= count <= 3:
                self.report(index, f"a slice of {count} parts", "slice() takes one to three", _REBUILD)
            elif kind == 3 and count % 2:
                self.report(index, f"a dict of {count} registers", "keys and values come in pairs", _REBUILD)

    def _kernel(self, index: int, ins: Instruction, kernel_id: int) -> None:
        self.kernels_used.add(kernel_id)
        row = registry.BY_ID.get(kernel_id)
        if row is None:
            self.report(index, f"kernel 0x{kernel_id:04X} does not exist: a call that could not be inlined",
                        "a call is either a kernel of the registry or a helper whose source was inlined; this id is no "
                        "kernel of this prebake",
                        "give the helper a plain `def` with source that can be read (no recursion, no generators), "
                        "pass its result in as an argument, or make the bytecode again with this prebake")
            return
        if kernel_id not in self.listed:
            self.report(index, f"kernel {row.name} (0x{kernel_id:04X}) is not in the program's list of kernels",
                        "loaders look at that list alone to see what a program needs", _REBUILD)
        if ins.op == _INPLACE:
            if row.name not in registry.INPLACE:
                self.report(index, f"{row.name} has no in-place form",
                            "INPLACE_TENSOR takes an operator: " + ", ".join(sorted(registry.INPLACE)), _REBUILD)
            return
        least, most = _arity(kernel_id)
        count = ins.args[2]
        if not least <= count <= most:
            expected = f"{least}" if least == most else f"{least} to {most}"
            self.report(index, f"{row.name} is called with {count} operands, it takes {expected}",
                        f"its parameters are ({row.params})", _REBUILD)

    # --- constants against their use

    def _constants(self) -> None:
        total = len(self.program.constants)
        for register, value in self.constant_of.items():
            if value >= total:
                self.constant_of[register] = -1
        for index, ins in enumerate(self.program.code):
            rule = _RULES.get(ins.op)
            if rule is not None and index not in self.malformed:
                rule(self, index, ins)

    def value(self, register: int) -> object:
        """The constant that a register always holds, or `_OPEN`."""
        index = self.constant_of.get(register, -1)
        return _OPEN if index < 0 else self.program.constants[index]

    def contradiction(self, index: int, what: str, cause: str) -> None:
        self.report(index, what, cause, "correct the constant in the source, or " + _REBUILD)


_OPEN = object()
_NOUNS = {"dst": "register", "src": "register", "const": "constant", "capture": "capture", "param": "parameter"}
_arities: dict[int, tuple[int, int]] = {}


def _arity(kernel_id: int) -> tuple[int, int]:
    """The least and the greatest number of operands of a kernel."""
    found = _arities.get(kernel_id)
    if found is None:
        parameters = registry.BY_ID[kernel_id].parameters
        least = sum(p.default is registry.REQUIRED for p in parameters)
        found = _arities[kernel_id] = (least, len(parameters))
    return found


Rule = Callable[[OperandCheck, int, Instruction], None]


def _is_int(value: object) -> bool:
    return type(value) is int


def _reduce(check: OperandCheck, index: int, ins: Instruction) -> None:
    axis = check.value(ins.args[2])
    if axis is _OPEN or axis is None or _is_int(axis):
        axes: tuple = (axis,) if _is_int(axis) else ()
    elif isinstance(axis, tuple) and len(axis) <= MAX_RANK and all(map(_is_int, axis)):
        axes = axis
    else:
        check.contradiction(index, f"the axis of a reduction is {_show(axis)}",
                            "an axis is an int, a tuple of ints or None")
        return
    if any(not -MAX_RANK <= a < MAX_RANK for a in axes):
        check.contradiction(index, f"the axis of a reduction is {_show(axis)}", f"arrays have at most {MAX_RANK} axes")
    elif len(set(axes)) != len(axes):
        check.contradiction(index, f"the axes {_show(axis)} of a reduction repeat", "each axis is reduced once")


def _dtype(check: OperandCheck, index: int, ins: Instruction, register: int) -> None:
    value = check.value(register)
    if value is _OPEN:
        return
    if value is not None and not isinstance(value, (np.dtype, str)):
        check.contradiction(index, f"the dtype is {_show(value)}", "a dtype is a numpy dtype, its name, or None")
        return
    code = dtype_code("float64" if value is None else value)
    if code and ins.dtype and code != ins.dtype:
        check.contradiction(index, f"the dtype hint says {dtype_name(ins.dtype)}, the constant says {dtype_name(code)}",
                            "the result has the dtype of the constant")


def _cast(check: OperandCheck, index: int, ins: Instruction) -> None:
    _dtype(check, index, ins, ins.args[2])


def _alloc(check: OperandCheck, index: int, ins: Instruction) -> None:
    _dtype(check, index, ins, ins.args[3])
    shape = check.value(ins.args[1])
    if shape is _OPEN or (_is_int(shape) and shape >= 0):  # type: ignore[operator]
        return
    if isinstance(shape, tuple) and len(shape) > MAX_RANK:
        check.contradiction(index, f"a buffer of {len(shape)} axes", f"arrays have at most {MAX_RANK} axes")
    elif not isinstance(shape, tuple) or not all(_is_int(n) and n >= 0 for n in shape):
        check.contradiction(index, f"the shape of a buffer is {_show(shape)}",
                            "a shape is a tuple of ints that are not negative, or one such int")


def _attr(check: OperandCheck, index: int, ins: Instruction) -> None:
    if ins.args[2] >= len(check.program.constants):
        return
    name = check.program.constants[ins.args[2]]
    if not isinstance(name, str) or len(name) > 255 or not name.isidentifier():
        check.contradiction(index, f"the name of an attribute is {_show(name)}", "LOAD_ATTR takes an identifier")
    elif name.startswith("__") and name.endswith("__") and name != "__class__":
        check.contradiction(index, f"the attribute {name}", "programs read data, not the machinery of Python's objects")


def _range(check: OperandCheck, index: int, ins: Instruction) -> None:
    for register, role in zip(ins.args[1:4], ("start", "stop", "step"), strict=True):
        value = check.value(register)
        if value is not _OPEN and not isinstance(value, int):
            check.contradiction(index, f"the {role} of a range is {_show(value)}", "range() takes ints")
        elif role == "step" and value is not _OPEN and value == 0:
            check.contradiction(index, "the step of a range is 0", "range() never gets anywhere")


def _arithmetic(check: OperandCheck, index: int, ins: Instruction) -> None:
    for register in ins.args[1:]:
        value = check.value(register)
        if value is None or value is ... or isinstance(value, np.dtype):
            check.contradiction(index, f"{BY_CODE[ins.op].name} of {_show(value)}", "it is no number")


def _div(check: OperandCheck, index: int, ins: Instruction) -> None:
    _arithmetic(check, index, ins)
    if ins.dtype in _INTEGERS or ins.dtype == CODES["bool"]:
        check.contradiction(index, f"the dtype hint of a division says {dtype_name(ins.dtype)}",
                            "true division never yields integers")


def _compare(check: OperandCheck, index: int, ins: Instruction) -> None:
    if ins.dtype and ins.dtype != CODES["bool"]:
        check.contradiction(index, f"the dtype hint of a comparison says {dtype_name(ins.dtype)}",
                            "comparisons yield bool")


def _shape_ref(check: OperandCheck, index: int, ins: Instruction) -> None:
    if ins.dtype and ins.dtype != CODES["int64"]:
        check.contradiction(index, f"the dtype hint of an extent says {dtype_name(ins.dtype)}",
                            "extents are Python ints")


def _unpack(check: OperandCheck, index: int, ins: Instruction) -> None:
    value = check.value(ins.args[0])
    if isinstance(value, (tuple, str)) and len(value) != ins.args[1]:
        check.contradiction(index, f"{len(value)} values are unpacked into {ins.args[1]}", "the numbers must agree")


_RULES: dict[int, Rule] = {
    Op.REDUCE_SUM_TENSOR: _reduce, Op.REDUCE_MAX_TENSOR: _reduce, Op.CAST_TENSOR: _cast, Op.ALLOC_BUFFER: _alloc,
    Op.LOAD_ATTR: _attr, Op.LOOP_RANGE: _range, Op.UNARY_NEG_TENSOR: _arithmetic, Op.UNARY_NOT_TENSOR: _arithmetic,
    Op.BINARY_ADD_TENSOR: _arithmetic, Op.BINARY_SUB_TENSOR: _arithmetic, Op.BINARY_MUL_TENSOR: _arithmetic,
    Op.BINARY_DIV_TENSOR: _div, Op.COMPARE_TENSOR: _compare, Op.TENSOR_SHAPE_REF: _shape_ref, Op.UNPACK: _unpack,
}


def _show(value: object) -> str:
    """A constant in a message: short, whatever it is."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an int of {value.bit_length()} bits"
    if isinstance(value, tuple):
        shown = ", ".join(map(_show, value[:8])) + (", ..." if len(value) > 8 else "," if len(value) == 1 else "")
        return f"({shown})" if len(shown) <= 60 else f"a tuple of {len(value)} items"
    if isinstance(value, str) and len(value) > 60:
        value = value[:57] + "..."
    return repr(value)
