"""Cells: what control flow assigns on more than one path lives in a register, or in an array of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

import numpy as np

from ...templates.records import record
from ..lang.bytecode import UNBOUND
from .body import set_all
from .emitting import Emitting
from .extents import Expr, compare, const
from .planner_errors import PlanRefused
from .signature import NUMPY_DTYPES
from .steps import Buffer, Literal, Operand, ScalarReg, Step
from .typer_state import Retry
from .values import COMPUTE, HALVES, Arr, Cplx, Lazy, Map, Num, Seq, Static, Value

_WIDE_LIMIT = 2**60
_COUNTER_STEP = 256
_CELL_LIMIT = 2**31  # a Python int that control flow assigns stays inside, or the interpreter takes over


@record
class Side:
    """One way to a join: its steps, what its registers hold there, and which of them are read after it."""

    steps: list[Step]
    regs: list[Value | None]
    live: int


class Cells(Emitting):
    """Merging values of two paths."""

    def _merge(self, reg: int, a: Value | None, b: Value | None, side_a: Side, side_b: Side) -> Value | None:
        """One value for a register that two branches left differently."""
        steps_a, steps_b = side_a.steps, side_b.steps
        unbound = [v is None or (isinstance(v, Static) and v.value is UNBOUND) for v in (a, b)]
        if any(unbound):
            return None  # reading it is left to the interpreter
        assert a is not None and b is not None
        if is_same(a, b):
            return a
        if isinstance(a, Num) and isinstance(b, Num):
            if not is_same_type(a, b) and join_types(a, b) is None:
                for loop in reversed(self.loops):
                    entry = loop.entry.get(reg)
                    if isinstance(entry, Num) and (loop.cells.get(reg) is a or loop.cells.get(reg) is b):
                        other = b if loop.cells[reg] is a else a
                        raise Retry(reg, "type", join_types(entry, other), other)
            cell = self._scalar_cell(a, f"r{reg}", b)
            for value, steps in ((a, steps_a), (b, steps_b)):
                steps_before, self.steps = self.steps, steps
                self._guard_cell(cell, value)
                set_all(steps, [(cell_reg(cell), self._operand_as(value, cell))])
                self.steps = steps_before
            return cell
        if isinstance(a, Arr) and isinstance(b, Arr):
            if a.dtype != b.dtype or a.ndim != b.ndim or not self._same_shape(a, b):
                raise PlanRefused("a value test chooses between arrays of different shape or dtype", kind="merge")
            cell_array = self.new_temp(a.shape, a.dtype)
            for array, side in ((a, side_a), (b, side_b)):
                steps_before, self.steps = self.steps, side.steps
                self._copy_into(cell_array, array, self._is_shared(array.view.buffer, reg, side.regs, side.live))
                self.steps = steps_before
            return cell_array
        if isinstance(a, Cplx) and isinstance(b, Cplx) and a.dtype == b.dtype and a.python == b.python:
            parts = [self._merge(reg, x, y, side_a, side_b) for x, y in ((a.re, b.re), (a.im, b.im))]
            return Cplx(parts[0], parts[1], a.dtype, a.python)
        if isinstance(a, Seq) and isinstance(b, Seq) and a.kind == b.kind and len(a.items) == len(b.items):
            items = [self._merge(reg, x, y, side_a, side_b) for x, y in zip(a.items, b.items, strict=True)]
            return Seq(items, a.kind)  # type: ignore[arg-type]
        raise PlanRefused("a value test chooses between values of different kinds", kind="merge")

    def is_alike(self, a: Value | None, b: Value | None) -> bool:
        """Whether two values can be merged into one of their kind."""
        if a is None or b is None or isinstance(a, Static) or isinstance(b, Static):
            return a is b or (a is not None and b is not None and is_same(a, b))
        if is_same(a, b):
            return True
        if isinstance(a, Num) and isinstance(b, Num):
            return is_same_type(a, b)
        if isinstance(a, Arr) and isinstance(b, Arr):
            if any(v.view.buffer.kind == "arg" for v in (a, b)):
                return False  # which memory it is may matter
            return a.dtype == b.dtype and a.ndim == b.ndim and self._same_shape(a, b)
        if isinstance(a, Cplx) and isinstance(b, Cplx):
            return a.dtype == b.dtype and a.python == b.python and self.is_alike(a.re, b.re)
        if isinstance(a, Seq) and isinstance(b, Seq):
            return a.kind == b.kind == "tuple" and len(a.items) == len(b.items) and all(
                map(self.is_alike, a.items, b.items))
        return False

    def _same_shape(self, a: Arr, b: Arr) -> bool:
        """Equal extents, asked where they are known at entry."""
        return all(self.facts.can_equal(x, y) for x, y in zip(a.shape, b.shape, strict=True))

    def _copy_into(self, cell: Arr, value: Arr, is_shared: bool) -> None:
        """Copy a value into a cell, which stands for it from then on. is_shared: its memory has another name too, so
        that neither may be written in place: the other would not see it."""
        source, target = value.view.buffer, cell.view.buffer
        if is_shared:
            self._forbid_writes(source)
            self._forbid_writes(target)
        marks = [marked for marked in (self.read_only, self.shown_read_only) if target in marked]
        if source in self.shown_read_only and self.shown_read_only not in marks:
            marks.append(self.shown_read_only)
        for marked in marks:
            marked.discard(target)
        last = self.stored.get(target)
        self.write_view(cell, value)
        if last is None:
            self.stored.pop(target, None)
        else:
            self.stored[target] = last
        for marked in marks:
            marked.add(target)

    def _forbid_writes(self, buffer: Buffer) -> None:
        """Refuse writes of the program into a buffer from now on, and one before that a later trip of a loop repeats."""
        self.read_only.add(buffer)
        for loop in self.loops:
            if self.born.get(buffer, 0) <= loop.began < self.stored.get(buffer, 0):
                raise PlanRefused("an array is written in a loop whose contents another name may share", kind="alias")

    def _is_shared(self, buffer: Buffer, reg: int, regs: Sequence[Value | None], live: int) -> bool:
        """Whether memory that a register holds has another name: the caller's, or another register that is read later."""
        return (buffer.kind == "arg" or buffer in self.read_only or sum(1 for _ in _held(regs[reg], buffer)) > 1
                or any(True for r, value in enumerate(regs) if r != reg and live >> r & 1 for _ in _held(value, buffer)))

    def _scalar_cell(self, value: Num, name: str, other: Num | None = None) -> Num:
        """A register that holds values like `value` (and `other`)."""
        joined = None
        if other is not None and not is_same_type(value, other):
            joined = join_types(value, other)
            if joined is None:
                raise PlanRefused("a scalar has different types on two paths", kind="merge")
        if joined is not None:
            return self._joined_cell(joined, name)
        reg = ScalarReg(value.native, name)
        if reg.dtype == "i64":
            limit = _WIDE_LIMIT if self.wide_counters else _CELL_LIMIT
            lo, hi = (-limit, limit) if value.python == "int" else (None, None)
            bounds = [v.operand.bounds() for v in (value, other) if v is not None and isinstance(v.operand, Expr)]
            if other is not None and len(bounds) == 2 and lo is not None and hi is not None:
                lo = int(max(lo, min(b[0] for b in bounds)))
                hi = int(min(hi, max(b[1] for b in bounds)))
            reg.expr = self.facts.new_register(name, lo, hi)
        return Num(reg.expr if reg.expr is not None else reg, value.dtype, value.python, cell=reg, maybe=value.maybe)

    def _joined_cell(self, joined: tuple[str, str], name: str) -> Num:
        dtype, maybe = joined
        reg = ScalarReg(COMPUTE[dtype], name)
        if reg.dtype == "i64":
            reg.expr = self.facts.new_register(name)
        return Num(reg.expr if reg.expr is not None else reg, dtype, "", cell=reg, maybe=maybe)

    def _guard_cell(self, cell: Num, value: Num) -> None:
        """A Python int in a cell must not pass 64 bits unseen: outside the cell's bounds the interpreter takes over."""
        if value.python == "int" and isinstance(value.operand, Expr) and isinstance(cell.operand, Expr):
            lo, hi = cell.operand.bounds()
            if lo == -inf or hi == inf:
                return  # a cell of NumPy's, which holds any 64 bits
            change = value.operand - cell.operand
            if self.wide_counters and change.value is not None and abs(change.value) <= _COUNTER_STEP:
                return  # more than a month of trips, a nanosecond each, to reach the limit
            if self.facts.lower_bound(value.operand - int(lo)) < 0 or self.facts.lower_bound(
                    const(int(hi)) - value.operand) < 0:
                self.facts.check_int(value.operand)
                outside = compare("lt", value.operand, int(lo)) + compare("lt", int(hi), value.operand)
                self.trap("INTERPRET", outside)

    @staticmethod
    def _plain(value: Num) -> Num:
        """A part of a complex scalar: a float register, whatever it came from."""
        return Num(value.operand, value.dtype, "", cell=value.cell)

    def _operand_as(self, value: Num, cell: Num) -> Operand:
        body = self.scalar_body()
        return body.cast(self.scalar_slot(body, value), cell.native)


def _held(value: Value | None, buffer: Buffer) -> Iterator[Value]:
    """The arrays in a value that lie in a buffer."""
    if isinstance(value, Arr):
        if value.view.buffer is buffer:
            yield value
    elif isinstance(value, Cplx):
        if any(isinstance(part, Arr) and part.view.buffer is buffer for part in (value.re, value.im)):
            yield value
    elif isinstance(value, (Seq, Map)):
        for item in value.items if isinstance(value, Seq) else value.items.values():
            yield from _held(item, buffer)


def is_same_type(a: Num, b: Num) -> bool:
    """Whether two scalars have one type."""
    return a.python == b.python and a.dtype == b.dtype and a.maybe == b.maybe


def join_types(a: Num, b: Num) -> tuple[str, str] | None:
    """(dtype, Python type) of a NumPy scalar that is a Python one on some paths, with the same value; None: no such."""
    if a.python and b.python:
        return None
    if not a.python and not b.python:
        return (a.dtype, a.maybe or b.maybe) if a.dtype == b.dtype and (a.maybe == b.maybe or not (a.maybe and b.maybe)) else None
    number, python = (b, a) if a.python else (a, b)
    if python.python == "bool" or (number.maybe and number.maybe != python.python):
        return None
    dtype = number.dtype
    if dtype in HALVES:
        return None
    if python.python == "float" and dtype == "f64":
        return dtype, "float"
    if not python.is_constant:
        return None
    value = python.constant
    if python.python == "float" and dtype == "f32" and float(np.float32(value)) == value:
        return dtype, "float"
    if python.python == "int" and dtype[0] in "iu":
        info = np.iinfo(NUMPY_DTYPES[dtype])
        return (dtype, "int") if info.min <= value <= info.max else None
    if python.python == "int" and dtype[0] == "f" and abs(value) <= 2**24:
        return dtype, "int"
    return None


def cell_reg(cell: Value) -> ScalarReg:
    """The register behind a cell."""
    assert isinstance(cell, Num) and cell.cell is not None
    return cell.cell


def is_same(a: Value, b: Value) -> bool:
    """Whether two values are the same object or constant."""
    if a is b:
        return True
    if isinstance(a, Num) and isinstance(b, Num):
        if not is_same_type(a, b):
            return False
        if isinstance(a.operand, Literal) and isinstance(b.operand, Literal):
            return repr(a.operand.value) == repr(b.operand.value)
        return a.operand is b.operand
    if isinstance(a, Arr) and isinstance(b, Arr):
        return a.view.is_same(b.view)
    if isinstance(a, Cplx) and isinstance(b, Cplx):
        return a.dtype == b.dtype and a.python == b.python and is_same(a.re, b.re) and is_same(a.im, b.im)
    if isinstance(a, Static) and isinstance(b, Static):
        return a.value is b.value or (type(a.value) is type(b.value) and a.value == b.value)
    if isinstance(a, Lazy) and isinstance(b, Lazy):
        return a.row == b.row
    if isinstance(a, Seq) and isinstance(b, Seq):
        return (a.kind == b.kind == "tuple" and len(a.items) == len(b.items)
                and all(is_same(x, y) for x, y in zip(a.items, b.items, strict=True)))
    return False
