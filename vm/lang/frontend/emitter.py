"""The code under construction: instructions, registers, constants, captures, and which registers surely hold a value.

Register `r` is assigned on every path to the present point when bit `r` of `assigned` is set; unreachable code has all
bits set, so that joining paths is `&`. Reads of locals without the bit get an UNBOUND marker at their frame's entry.
"""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from typing import Any, NoReturn

import numpy as np

from ....templates.registry import BY_NAME
from ...bindings import Watch, meaning_of, underlying
from ...dtypes import dtype_code
from ...errors import UnsupportedError
from ..bytecode import UNBOUND, Binding, Capture, Instruction, Param, Position, Program, SourceFunction
from ..opcodes import BY_CODE
from ..source import FunctionSource
from . import codes
from .refusals import REFUSALS
from .scope import Frame

_PLAIN = frozenset((int, str, bool, type(None)))  # constants that are equal where their types and values are
DEAD = -1  # the assigned mask of unreachable code
MAX_WORD = 0xFFFF

# operand position of the jump target, by opcode
_TARGET_AT: dict[int, int] = {
    code: next(i for i, (_, kind) in enumerate(row.operands) if kind == "target")
    for code, row in BY_CODE.items() if any(kind == "target" for _, kind in row.operands)
}
_NAMES_INSTRUCTION = {codes.LOOP_NEXT, codes.CONTINUE}  # their target is an instruction, not a point between two

_LOAD_CONST, _LOAD_CAPTURE, _MOVE = codes.LOAD_CONST, codes.LOAD_CAPTURE, codes.MOVE


class Emitter:
    """Collects the instructions of one program; the compiler's stages are layered on it."""

    def __init__(self) -> None:
        # (opcode, operands, syntax node, frame, dtype hint, symbol)
        self.code: list[tuple[int, tuple[int, ...], ast.AST, Frame, int, int]] = []
        self.n_regs = 0
        self.assigned = 0
        self.frame: Frame = None  # type: ignore[assignment]
        self.constants: list[object] = []
        self.symbols: list[str] = ["?"]
        self.captures: list[Capture] = []
        self.sources: list[FunctionSource] = []
        self.bindings: dict[tuple[str, str, str], Any] = {}  # scope, module, path -> what was compiled in
        self.watch = Watch()  # the same, as objects
        self.reached: dict[int, tuple[str, str, str]] = {}  # id of a function -> the binding that led to it
        self._const_index: dict[object, int] = {}
        self._const_reg: dict[int, int] = {}
        self.const_of: dict[int, object] = {}  # register -> the constant that it always holds
        self._capture_reg: dict[tuple[str, str, str], tuple[int, int]] = {}
        self._unbound: set[int] = set()
        self._insertions: list[tuple[int, int, int, tuple[int, ...], ast.AST, Frame]] = []

    # --- instructions

    def emit(self, node: ast.AST, op: int, *args: int) -> int:
        """Append an instruction; the index that it has, -1 in unreachable code, which is not emitted."""
        if self.assigned == DEAD:
            return -1
        self.code.append((op, args, node, self.frame, 0, 0))
        return len(self.code) - 1

    def value(self, node: ast.AST, op: int, dst: int, *args: int) -> int:
        """Append an instruction whose first operand is a destination (a fresh register for -1); that register."""
        if dst < 0:
            dst = self.n_regs
            self.n_regs += 1
        if self.assigned != DEAD:
            self.code.append((op, (dst, *args), node, self.frame, 0, 0))
            self.assigned |= 1 << dst
        return dst

    def hint(self, dtype: object = None, symbol: str = "") -> None:
        """Give the last instruction a dtype hint or a shape reference."""
        if self.assigned == DEAD:
            return
        op, args, node, frame, code, index = self.code[-1]
        if dtype is not None:
            code = dtype_code(dtype)
        if symbol:
            if symbol not in self.symbols:
                self.symbols.append(symbol)
            index = self.symbols.index(symbol)
        self.code[-1] = (op, args, node, frame, code, index)

    def patch(self, at: int) -> None:
        """Make the instruction at `at` (-1: none) jump to the next instruction that is emitted."""
        if at < 0:
            return
        op, args, node, frame, dtype, symbol = self.code[at]
        where = _TARGET_AT[op]
        self.code[at] = (op, (*args[:where], len(self.code), *args[where + 1:]), node, frame, dtype, symbol)

    def new_register(self) -> int:
        """A register that nothing else uses."""
        self.n_regs += 1
        return self.n_regs - 1

    def move(self, node: ast.AST, dst: int, src: int) -> int:
        """`dst = src` unless they are the same register; dst."""
        return src if dst == src else self.value(node, _MOVE, dst, src)

    @property
    def is_dead(self) -> bool:
        """Whether the present point cannot be reached."""
        return self.assigned == DEAD

    # --- constants and captures

    def const_index(self, value: object) -> int:
        """Index of a constant in the pool; equal values of one type share it (0.0 and -0.0 are not equal)."""
        kind = value.__class__
        key: object = (kind, value) if kind in _PLAIN else _constant_key(value)
        index = self._const_index.get(key)
        if index is None:
            index = self._const_index[key] = len(self.constants)
            self.constants.append(value)
        return index

    def const(self, node: ast.AST, value: object, dst: int = -1) -> int:
        """A register that holds a constant; loaded once on each path."""
        index = self.const_index(value)
        if dst >= 0:
            return self.value(node, _LOAD_CONST, dst, index)
        register = self._const_reg.get(index, -1)
        if register >= 0 and self.assigned >> register & 1:
            return register
        register = self._const_reg[index] = self.value(node, _LOAD_CONST, register, index)
        self.const_of[register] = value
        return register

    def capture(self, node: ast.AST, scope: str, module: str, name: str, dst: int = -1) -> int:
        """A register that holds a captured value; read once on each path."""
        key = (scope, module, name)
        known = self._capture_reg.get(key)
        if known is None:
            index, register = len(self.captures), -1
            self.captures.append(Capture(*key))
        else:
            index, register = known
        if dst >= 0:
            self._capture_reg[key] = (index, register)
            return self.value(node, _LOAD_CAPTURE, dst, index)
        if register < 0 or not self.assigned >> register & 1:
            register = self.value(node, _LOAD_CAPTURE, register, index)
            self._capture_reg[key] = (index, register)
        return register

    def kernel(self, node: ast.AST, kernel_id: int, args: list[int], dst: int = -1) -> int:
        """CALL_KERNEL over normalised operands; the register of the result."""
        return self.value(node, codes.CALL_KERNEL, dst, kernel_id, len(args), *args)

    @property
    def is_conditional(self) -> bool:
        """Whether there is a branch or loop before the present point, so that it may never be reached."""
        return any(item[0] in _TARGET_AT for item in self.code)

    def raising(self, node: ast.AST, error: str, text: str, dst: int = -1) -> int:
        """Raise one of Python's own errors here, where something could not work in Python either; a register for what follows,
        which is never reached."""
        result = dst if dst >= 0 else self.new_register()
        operands = [self.const(node, error), self.const(node, text)]
        self.emit(node, codes.RETURN, self.kernel(node, BY_NAME["py.raise"].id, operands))
        self.assigned = DEAD
        return result

    # --- insertions: parameters at the start, UNBOUND markers at the entry of a frame

    def insert(self, at: int, rank: int, node: ast.AST, frame: Frame, op: int, *args: int) -> None:
        """Put an instruction before index `at` when the program is finished; lower ranks come first."""
        self._insertions.append((at, rank, op, args, node, frame))

    def maybe_unbound(self, register: int, frame: Frame) -> None:
        """Note that a local is read where it may not be assigned."""
        if register not in self._unbound:
            self._unbound.add(register)
            rank = 0x10000 + register
            self.insert(frame.entry, rank, frame.tree, frame, _LOAD_CONST, register, self.const_index(UNBOUND))

    def _relocate(self) -> None:
        """Weave the insertions in and move jump targets accordingly."""
        pending = sorted(self._insertions, key=lambda item: item[:2])
        if not pending:
            return
        code: list[tuple[int, tuple[int, ...], ast.AST, Frame, int, int]] = []
        start = 0
        for place, _, op, args, node, frame in pending:
            code += self.code[start:place]
            code.append((op, args, node, frame, 0, 0))
            start = place
        code += self.code[start:]
        places = [item[0] for item in pending]
        for index, item in enumerate(code):
            where = _TARGET_AT.get(item[0], -1)
            if where >= 0:
                args = item[1]
                old = args[where]  # an instruction, or a point between two: then what is inserted there comes behind it
                new = old + (bisect_right if item[0] in _NAMES_INSTRUCTION else bisect_left)(places, old)
                code[index] = (item[0], (*args[:where], new, *args[where + 1:]), *item[2:])
        self.code = code
        self._insertions = []

    # --- the result

    def finish(self, name: str, params: tuple[Param, ...]) -> Program:
        """The program. Raises UnsupportedError ('too-large') past 16-bit registers, targets or constants."""
        self._relocate()
        node = self.frame.source.node
        if max(len(self.code), self.n_regs, len(self.constants), len(self.captures)) > MAX_WORD:
            self.refuse("too-large", node)
        code = []
        positions = []
        callers: list[tuple[Position, ...]] = []
        chains: dict[Frame, tuple[Position, ...]] = {}
        places: dict[int, Position] = {}
        kernels: set[int] = set()
        last: Frame | None = None
        chain: tuple[Position, ...] = ()
        for op, args, at, frame, dtype, symbol in self.code:
            if op == codes.CALL_KERNEL:
                kernels.add(args[1])
            elif op == codes.INPLACE_TENSOR:
                kernels.add(args[3])
            code.append(Instruction(op, args, dtype, symbol))
            key = id(at)
            position = places.get(key)
            if position is None:
                position = places[key] = Position(*frame.place(at))
            positions.append(position)
            if frame is not last:
                last, chain = frame, call_chain(frame, chains)
            callers.append(chain)
        functions = tuple(
            SourceFunction(s.module, s.qualname, s.digest, s.file, s.first_line, s.lines) for s in self.sources)
        made = Program(name=name, params=params, n_regs=self.n_regs, symbols=tuple(self.symbols),
                       constants=tuple(self.constants), captures=tuple(self.captures),
                       kernels=tuple(sorted(kernels)), code=tuple(code), positions=tuple(positions),
                       functions=functions, bindings=tuple([Binding(*key, meaning_of(self.bindings[key]))
                                                            for key in sorted(self.bindings)]))
        made.__dict__["callers"] = callers  # for tracebacks: no part of the program, files do not hold it
        return made

    def note_binding(self, scope: str, module: str, path: str, value: Any) -> None:
        """Record what a name stands for, where it could stand for something else another time."""
        if module == "__main__":
            module = self.sources[0].module  # a script goes by its file's name
        if "<locals>" not in path and module.partition(".")[0] != _PACKAGE:
            self.bindings[scope, module, path] = value
            self.reached.setdefault(id(underlying(value)), (scope, module, path))

    def refuse(self, kind: str, node: ast.AST, what: str = "", hint: str = "") -> NoReturn:
        """Raise UnsupportedError for a node of the present frame."""
        raise refusal(kind, node, self.frame, what, hint)


def call_chain(frame: Frame, known: dict[Frame, tuple[Position, ...]]) -> tuple[Position, ...]:
    """Where a frame's function is called, the innermost call first; () for the program's own."""
    found = known.get(frame)
    if found is None:
        if frame.call is None:
            found = ()
        else:
            caller, node = frame.call
            found = (Position(*caller.place(node)), *call_chain(caller, known))
        known[frame] = found
    return found


_PACKAGE = __name__.partition(".")[0]


def refusal(kind: str, node: ast.AST, frame: Frame, what: str = "", hint: str = "") -> UnsupportedError:
    """The error for a node; its texts are the table's unless the place knows better."""
    row = REFUSALS[kind]
    _, line, column, _ = frame.place(node)
    source = frame.source
    return UnsupportedError(what or row.what, kind=kind, file=source.path, line=line, column=column,
                            source=source.line_text(line), hint=hint or row.hint)


def _constant_key(value: object) -> object:
    kind = type(value)
    if kind is float or kind is complex:
        return kind, repr(value)
    if kind is tuple:
        return kind, tuple([_constant_key(item) for item in value])  # type: ignore[attr-defined]
    return kind, value


def is_constant_value(value: object) -> bool:
    """Whether the constant pool can hold a value."""
    if type(value) is tuple:
        return all(is_constant_value(item) for item in value)
    return value is None or value is Ellipsis or type(value) in (bool, int, float, complex, str) \
        or (isinstance(value, np.dtype) and bool(dtype_code(value)))
