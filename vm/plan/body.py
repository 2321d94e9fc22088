"""Builders of scalar expressions: the same calls make a nest over an iteration space, or scalar steps on registers."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np

from ...templates.scalars import BY_NAME
from .extents import Expr
from .planner_errors import PlanRefused
from .steps import Literal, NestInput, NestOp, Operand, ScalarOpStep, ScalarReg, SetStep, Step, View
from .values import COMPUTE

Slot: TypeAlias = Any  # an int in a nest, an Operand on registers
_Gather: TypeAlias = "tuple[View, tuple[tuple[Slot, Expr, Expr], ...], int]"

_WRAP_BITS = {"i8": 24, "i16": 16}
_WRAP_MASK = {"u8": 0xFF, "u16": 0xFFFF, "u32": 0xFFFFFFFF}


class Body(Protocol):
    """What an elementwise rule may say."""

    def scalar(self, operand: Operand, dtype: str) -> Slot: ...
    def const(self, value: float | int | bool, dtype: str) -> Slot: ...
    def op(self, name: str, dtype: str, *slots: Slot) -> Slot: ...
    def cast(self, slot: Slot, to: str) -> Slot: ...
    def dtype(self, slot: Slot) -> str: ...


def wrap(body: Body, slot: Slot, memory: str) -> Slot:
    """The slot truncated to a small memory dtype, as NumPy's own arithmetic in that dtype would leave it."""
    native = COMPUTE[memory]
    if memory in _WRAP_BITS:
        bits = body.const(_WRAP_BITS[memory], native)
        return body.op("shr", native, body.op("shl", native, slot, bits), bits)
    if memory in _WRAP_MASK:
        return body.op("and", native, slot, body.const(_WRAP_MASK[memory], native))
    return slot


def for_memory(body: Body, slot: Slot, memory: str) -> Slot:
    """The slot in a native dtype whose store into memory rounds once."""
    if memory == "f16" and body.dtype(slot) == "f64":
        return slot
    return body.cast(slot, COMPUTE[memory])


def result_dtype(name: str, dtype: str) -> str:
    """Native dtype of an operation's result."""
    return "bool" if BY_NAME[name].predicate else dtype


def truth(body: Body, slot: Slot) -> Slot:
    """x != 0 as bool."""
    dtype = body.dtype(slot)
    if dtype == "bool":
        return slot
    return body.op("ne", dtype, slot, body.const(0.0 if dtype[0] == "f" else 0, dtype))


class NestBody:
    """Builds the inputs and the DAG of a nest. A slot is the index of an input, or ~index of an operation."""

    def __init__(self) -> None:
        self.inputs: list[NestInput] = []
        self.pending: list[tuple[str, str, str, tuple[int, ...], _Gather | None]] = []

    def view(self, view: View) -> Slot:
        """A load; view has the nest's axes."""
        self.inputs.append(NestInput("view", COMPUTE[view.dtype], view))
        return len(self.inputs) - 1

    def scalar(self, operand: Operand, dtype: str) -> Slot:
        self.inputs.append(NestInput("scalar", dtype, None, operand))
        return len(self.inputs) - 1

    def const(self, value: float | int | bool, dtype: str) -> Slot:
        for i, item in enumerate(self.inputs):
            if (item.kind == "scalar" and isinstance(item.operand, Literal) and item.dtype == dtype
                    and item.operand.value == value and str(item.operand.value) == str(value)):
                return i
        return self.scalar(Literal(value, dtype), dtype)

    def iota(self, axis: int) -> Slot:
        """The i64 index along an axis."""
        self.inputs.append(NestInput("iota", "i64", axis=axis))
        return len(self.inputs) - 1

    def op(self, name: str, dtype: str, *slots: Slot) -> Slot:
        row = BY_NAME[name]
        if dtype not in row.dtypes:
            raise PlanRefused(f"{name} is not planned for {dtype}", kind="dtype")
        self.pending.append((name, "bool" if row.predicate else dtype, dtype, slots, None))
        return -len(self.pending)

    def cast(self, slot: Slot, to: str) -> Slot:
        frm = self.inputs[slot].dtype if slot >= 0 else self.pending[~slot][1]
        if frm == to:
            return slot
        self.pending.append(("cast", to, frm, (slot,), None))
        return -len(self.pending)

    def gather(self, view: View, indexes: tuple[tuple[Slot, Expr, Expr], ...], position: int) -> Slot:
        """A load displaced by index slots."""
        self.pending.append(("gather", COMPUTE[view.dtype], "i64", (), (view, indexes, position)))
        return -len(self.pending)

    def dtype(self, slot: Slot) -> str:
        return self.inputs[slot].dtype if slot >= 0 else self.pending[~slot][1]

    def only(self, slot: Slot) -> Slot:
        """The slot, with every input and operation dropped that it does not need."""
        pending = self.pending
        needed = {slot}
        unneeded = 0
        for at in range(len(pending) - 1, -1, -1):  # operands stand before what uses them
            if ~at in needed:
                _, _, _, slots, gather = pending[at]
                needed.update(slots)
                if gather is not None:
                    needed.update([index for index, _, _ in gather[1]])
            else:
                unneeded += 1
        if not unneeded:
            return slot
        new: dict[Slot, Slot] = {}
        for at in range(len(self.inputs)):
            if at in needed:
                new[at] = len(new)
        self.inputs = [self.inputs[at] for at in new]
        kept = [at for at in range(len(pending)) if ~at in needed]
        new.update({~at: ~i for i, at in enumerate(kept)})
        self.pending = [(name, dtype, operand_dtype, tuple([new[s] for s in slots]),
                         gather and (gather[0], tuple([(new[s], e, t) for s, e, t in gather[1]]), gather[2]))
                        for name, dtype, operand_dtype, slots, gather in [pending[at] for at in kept]]
        return new[slot]

    def number(self, slot: Slot) -> int:
        """Slot number in the finished nest."""
        return slot if slot >= 0 else len(self.inputs) + ~slot

    def finish(self) -> list[NestOp]:
        """The DAG with final slot numbers."""
        n = len(self.inputs)
        ops = []
        for name, dtype, operand_dtype, slots, gather in self.pending:
            args = tuple([s if s >= 0 else n + ~s for s in slots])
            if gather is None:
                ops.append(NestOp(name, dtype, operand_dtype, args))
            else:
                view, indexes, position = gather
                ops.append(NestOp(name, dtype, operand_dtype, args, view,
                                  tuple([(self.number(s), e, t) for s, e, t in indexes]), position))
        return ops


_FOLD = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "sqrt": np.sqrt,
         "maximum": np.maximum, "minimum": np.minimum, "abs": np.abs, "square": np.square, "exp": np.exp,
         "log": np.log, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
         "ge": np.greater_equal}
_NUMPY = {"bool": np.bool_, "i32": np.int32, "i64": np.int64, "f32": np.float32, "f64": np.float64}


class ScalarBody:
    """Builds scalar steps; slots are operands."""

    def __init__(self, steps: list[Step], new_int: object) -> None:
        self.steps = steps
        self.new_int = new_int

    def scalar(self, operand: Operand, dtype: str) -> Slot:
        return operand

    def const(self, value: float | int | bool, dtype: str) -> Slot:
        return Literal(value, dtype)

    def op(self, name: str, dtype: str, *slots: Slot) -> Slot:
        if dtype not in BY_NAME[name].dtypes:
            raise PlanRefused(f"{name} is not planned for {dtype}", kind="dtype")
        if name in _FOLD and all(isinstance(s, Literal) for s in slots):
            with np.errstate(all="ignore"):
                out = _FOLD[name](*(_NUMPY[dtype](s.value) for s in slots))
            return Literal(out.item(), result_dtype(name, dtype))
        return self._push(name, result_dtype(name, dtype), dtype, slots)

    def cast(self, slot: Slot, to: str) -> Slot:
        frm = self.dtype(slot)
        if frm == to:
            return slot
        value = slot.value if isinstance(slot, (Literal, Expr)) else None
        if value is not None and (to in ("f64", "f32", "i64", "bool") and (to != "i64" or frm != "f64")):
            if to == "f32":
                value = float(np.float32(value))
            return Literal({"f64": float, "f32": float, "i64": int, "bool": bool}[to](value), to)
        return self._push("cast", to, frm, (slot,))

    def _push(self, name: str, dtype: str, operand_dtype: str, slots: tuple[Slot, ...]) -> ScalarReg:
        reg = ScalarReg(dtype, name)
        if dtype == "i64":
            reg.expr = self.new_int(name)  # type: ignore[operator]
        self.steps.append(ScalarOpStep(name, reg, slots, operand_dtype))
        return reg

    def dtype(self, slot: Slot) -> str:
        return "i64" if isinstance(slot, Expr) else slot.dtype


def set_all(steps: list[Step], pairs: list[tuple[ScalarReg, Operand]]) -> None:
    """Append assignments that take effect together (a, b = b, a)."""
    targets = {reg for reg, _ in pairs}
    atoms = {reg.expr.terms[0][0][0] for reg in targets if reg.expr is not None}

    def reads_target(reg: ScalarReg, value: Operand) -> bool:
        if isinstance(value, ScalarReg):
            return value is not reg and value in targets
        if isinstance(value, Expr):
            own = reg.expr.terms[0][0][0] if reg.expr is not None else None
            return any(a in atoms and a is not own for a in value.atoms)
        return False

    if any(reads_target(reg, value) for reg, value in pairs):
        moved = []
        for reg, value in pairs:
            copy = ScalarReg(reg.dtype, f"{reg.name}'")
            steps.append(SetStep(copy, value))
            moved.append((reg, copy))
        pairs = moved  # type: ignore[assignment]
    for reg, value in pairs:
        steps.append(SetStep(reg, value))
