"""Emitting steps and shaping views: what every typing rule builds on."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from ...templates.records import replace
from ..lang.bytecode import Program
from .body import NestBody, ScalarBody, for_memory
from .extents import ONE, ZERO, Expr, compare, const, mul
from .planner_errors import PlanRefused
from .reading import LiveReader, RecordedReader
from .signature import DTYPE_NAMES
from .steps import (
    ITEM_BYTES,
    AllocStep,
    Buffer,
    Literal,
    LoadStep,
    Nest,
    NestOut,
    ScalarReg,
    SetStep,
    Step,
    StoreStep,
    TrapStep,
    View,
    contiguous_strides,
)
from .typer_state import State
from .values import COMPUTE, ODD, Arr, Num, Static, Value, is_float

_MAX_GUESS = 1 << 16  # a number that bounds an extent which the program computes; greater ones say nothing of its size

Shape: TypeAlias = "tuple[Expr, ...]"


class Emitting(State):
    """Temporaries, loads, stores and broadcasts."""

    def __init__(self, program: Program, reader: LiveReader | RecordedReader, wide_counters: bool = False) -> None:
        super().__init__(program, reader, wide_counters)
        # what shapes were found to give; facts learned since may have other normal forms of it, and contradict none
        self._layouts: dict[tuple[Shape, str], tuple[Shape, Shape, Expr, bool]] = {}
        self._broadcasts: dict[tuple[Shape, ...], Shape] = {}

    # --- emitting -----------------------------------------------------------------------------------------------------

    def new_temp(self, shape: Sequence[Expr], dtype: str) -> Arr:
        """A fresh C-ordered array, not yet written: in the arena, or an 'out' buffer where nothing bounds its size."""
        key = (tuple(shape), dtype)
        layout = self._layouts.get(key)
        if layout is None or not self.facts.is_normal(layout[0]):
            layout = self._layouts[key] = self._layout(key[0], dtype)
        shape, strides, size, is_bounded = layout
        buffer = Buffer("temp" if is_bounded else "out", dtype, size)
        if not is_bounded:  # as large as a call-out's result turns out: allocated when that is known
            self.emit(AllocStep(buffer, is_scratch=True))
        self.clock += 1
        self.born[buffer] = self.clock
        buffer.home = View(buffer, dtype, shape, strides, ZERO)
        return Arr(buffer.home)

    def _layout(self, shape: Shape, dtype: str) -> tuple[Shape, Shape, Expr, bool]:
        """Shape in normal form, strides and bytes of a C-ordered array, and whether these are a bound known at entry."""
        shape = tuple([self.facts.norm(e) for e in shape])
        if dtype not in COMPUTE:
            raise PlanRefused(f"dtype {dtype} is not planned", kind="dtype")
        is_bounded, size, exact = True, const(ITEM_BYTES[dtype]), const(ITEM_BYTES[dtype])
        for extent in shape:
            exact = mul(exact, extent)
            upper = extent if extent.is_entry else self.facts.upper_entry(extent)
            if upper is None or (upper is not extent and upper.value is not None and upper.value > _MAX_GUESS):
                is_bounded = False
            else:
                size = mul(size, upper)
        return shape, contiguous_strides(shape, ITEM_BYTES[dtype]), size if is_bounded else exact, is_bounded

    def emit(self, step: Step) -> None:
        """Append a step to the region being built."""
        self.steps.append(step)

    def trap(self, code: str, cond: Any, text: str = "") -> None:
        """Stop the program at run time when cond holds. text: of the error, where the code alone does not tell it."""
        self.emit(TrapStep(code, cond, self.pc, text))

    def scalar_body(self) -> ScalarBody:
        """A builder of scalar steps in the current region."""
        return ScalarBody(self.steps, self.facts.new_register)

    def load(self, value: Arr) -> Num:
        """The one element of an array with no axes (or extents 1) as a NumPy scalar."""
        reg = ScalarReg(COMPUTE[value.dtype], "load")
        if reg.dtype == "i64":
            reg.expr = self.facts.new_register("load", *((0, 2**32 - 1) if value.dtype == "u32" else (None, None)))
        view = value.view
        self.emit(LoadStep(reg, View(view.buffer, view.dtype, (), (), view.offset)))
        return Num(reg.expr if reg.expr is not None else reg, value.dtype)

    def bounded(self, value: Num, low: Expr, high: Expr) -> Num:
        """An integer scalar that is known to lie between two bounds."""
        if not isinstance(value.operand, Expr) or value.operand.value is not None:
            return value
        reg = ScalarReg("i64", "bounded")
        reg.expr = self.facts.new_register("bounded", low, high)
        self.emit(SetStep(reg, value.operand))
        return replace(value, operand=reg.expr)

    def write_view(self, target: Arr, value: Value, mask: Arr | None = None) -> None:
        """target[...] = value, with the right side complete before the first store."""
        self.note_write(target)
        view = target.view
        if isinstance(value, (Arr, Num)) and value.dtype != view.dtype and (
                "u64" in (value.dtype, view.dtype) and (is_float(value.dtype) or is_float(view.dtype))):
            raise PlanRefused("uint64 and floats are stored into one another", kind="dtype")
        if isinstance(value, Num) and not view.shape and mask is None:
            body = self.scalar_body()
            slot = for_memory(body, self.scalar_slot(body, value), view.dtype)
            self.emit(StoreStep(view, slot))
            return
        body_n = NestBody()
        if isinstance(value, Arr):
            value = self.away_from(value, target)
        slot = self.slot(body_n, value, view.shape)
        slot = for_memory(body_n, slot, view.dtype)
        masks = -1
        if mask is not None:
            mask_slot = self.slot(body_n, self.away_from(mask, target), view.shape)
            masks = body_n.number(mask_slot)
        ops = body_n.finish()
        self.emit(Nest(view.shape, body_n.inputs, ops,
                       [NestOut(body_n.number(slot), "store", view, mask=masks)], self.pc))

    def away_from(self, value: Arr, target: Arr) -> Arr:
        """The value itself when storing it into target reads nothing that was overwritten, else a copy of it."""
        a, b = value.view, target.view
        if a.buffer is not b.buffer:
            return value  # distinct arguments are guarded to be apart
        if a.is_same(b) or self._disjoint(a, b):
            return value
        return self.copy(value)

    def _disjoint(self, a: View, b: View) -> bool:
        """Whether two views of one buffer are proved to share no byte (same strides, windows apart along one axis)."""
        if a.ndim != b.ndim or a.dtype != b.dtype:
            return self._disjoint_flat(a, b)
        for axis in range(a.ndim):
            stride = a.strides[axis]
            if not stride.terms and not stride.const:
                continue
            for x, y in ((a, b), (b, a)):
                others = all(x.strides[i] is y.strides[i] for i in range(a.ndim))
                if not others:
                    break
                gap = y.offset - x.offset - stride * x.shape[axis]
                inner = self.facts.lower_bound(gap)
                if inner >= 0 and all(self.facts.lower_bound(s) >= 0 for s in a.strides):
                    # y starts past x's window along this axis; other axes must not carry x beyond it
                    reach = const(0)
                    for i in range(a.ndim):
                        if i != axis and self.facts.lower_bound(stride - a.strides[i]) < 0:
                            reach = reach + a.strides[i] * (x.shape[i] - 1)
                    if not reach.terms and not reach.const:
                        return True
        return self._disjoint_flat(a, b)

    def _disjoint_flat(self, a: View, b: View) -> bool:
        """Whether the byte ranges of two views with non-negative strides are proved apart."""
        spans = []
        for view in (a, b):
            if any(self.facts.lower_bound(s) < 0 for s in view.strides):
                return False
            end = view.offset + ITEM_BYTES[view.dtype]
            for extent, stride in zip(view.shape, view.strides, strict=True):
                end = end + stride * (extent - 1)
            spans.append((view.offset, end))
        (alo, ahi), (blo, bhi) = spans
        return self.facts.lower_bound(blo - ahi) >= 0 or self.facts.lower_bound(alo - bhi) >= 0

    def copy(self, value: Arr) -> Arr:
        """A fresh C-ordered array with the value's elements."""
        out = self.new_temp(value.shape, value.dtype)
        body = NestBody()
        slot = body.view(self.reshape_view(value.view, out.shape))
        self.emit(Nest(out.shape, body.inputs, [], [NestOut(body.number(slot), "store", out.view)], self.pc))
        return out

    @staticmethod
    def reshape_view(view: View, shape: tuple[Expr, ...]) -> View:
        """The view with equal extents written differently."""
        return view if view.shape == shape else view.window(shape, view.strides)

    def note_write(self, target: Arr) -> None:
        """Record that a step writes target's buffer."""
        buffer = target.view.buffer
        self.serial[buffer] = self.serial.get(buffer, 0) + 1
        self.clock += 1
        self.stored[buffer] = self.clock
        if buffer in self.shown_read_only:
            raise PlanRefused("an array is written that a read-only view shows, perhaps through it", kind="alias")
        if buffer in self.read_only:
            raise PlanRefused("an array is written whose contents another name may share", kind="alias")
        if buffer.kind == "arg":
            if buffer.constant:
                raise PlanRefused("a read-only argument is written", kind="argument")
            self.written[buffer.row] = buffer

    def slot(self, body: NestBody, value: Value, shape: tuple[Expr, ...]) -> object:
        """A nest's input for a value broadcast to `shape`; native dtype of the value."""
        if isinstance(value, Num):
            return self.scalar_slot(body, value)
        if not isinstance(value, Arr):
            raise PlanRefused("a value that is neither array nor scalar is computed with", kind="operand")
        return body.view(self.broadcast_view(value.view, shape))

    def scalar_slot(self, body: Any, value: Value) -> object:
        """A scalar as a slot of either builder."""
        if not isinstance(value, Num):
            raise PlanRefused("a value that is no scalar is used as one", kind="operand")
        operand = value.operand
        if isinstance(operand, Literal):
            return body.const(operand.value, value.native)
        if isinstance(operand, Expr):
            if operand.value is not None:
                return body.const(operand.value, value.native) if value.native == "i64" else body.const(
                    bool(operand.value), "bool")
            self.facts.check_int(operand)
            if value.native == "bool":
                return body.op("ne", "i64", body.scalar(operand, "i64"), body.const(0, "i64"))
            return body.scalar(operand, "i64")
        return body.scalar(operand, value.native)

    # --- shapes -------------------------------------------------------------------------------------------------------

    def must_equal(self, a: Expr, b: Expr, trap: str = "INTERPRET") -> bool:
        """Whether two extents are equal; where that is known only while the program runs, a trap makes it so.

        trap 'VALUE': NumPy raises ValueError when they differ. 'INTERPRET': it may broadcast, or raise.
        """
        facts = self.facts
        found = facts.compare(a, b)
        if isinstance(found, bool):
            return found
        if not found.is_entry:
            self.trap(trap, ONE - compare("eq", facts.norm(a), facts.norm(b)))
            return True
        return facts.ask(found)

    def broadcast(self, *shapes: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """NumPy's broadcast shape; refused (NumPy will raise) when the shapes do not fit."""
        if len(shapes) == 1:
            return shapes[0]
        found = self._broadcasts.get(shapes)
        if found is None:
            emitted = len(self.steps)
            found = self._broadcast(shapes)
            if len(self.steps) == emitted:  # no trap, which each place needs for itself
                self._broadcasts[shapes] = found
        return found if self.facts.is_normal(found) else tuple([self.facts.norm(extent) for extent in found])

    def _broadcast(self, shapes: tuple[tuple[Expr, ...], ...]) -> tuple[Expr, ...]:
        ndim = max([len(shape) for shape in shapes])
        out = []
        for axis in range(-ndim, 0):
            current = ONE
            for shape in shapes:
                if len(shape) < -axis:
                    continue
                extent = self.facts.norm(shape[axis])
                if extent is current or extent.value == 1:
                    continue
                if current.value == 1:
                    current = extent
                elif not self.must_equal(current, extent):
                    if self.facts.ask_equal(extent, 1):
                        continue
                    if not self.facts.ask_equal(current, 1):
                        raise PlanRefused(f"extents {current!r} and {extent!r} do not broadcast", kind="shape-error")
                    current = extent
                elif extent.value is not None:
                    current = extent
            out.append(current)
        return tuple([self.facts.norm(extent) for extent in out])

    def broadcast_view(self, view: View, shape: tuple[Expr, ...]) -> View:
        """The view with strides 0 where it broadcasts to `shape`."""
        if view.shape == shape:
            return view
        if len(view.shape) > len(shape):
            raise PlanRefused("more axes than the target has", kind="shape-error")
        lead = len(shape) - len(view.shape)
        strides: list[Expr] = [ZERO] * lead
        for extent, stride, target in zip(view.shape, view.strides, shape[lead:], strict=True):
            if extent is target or (extent.value != 1 and self.must_equal(extent, target)):
                strides.append(stride)
            elif extent.value == 1 or self.facts.ask_equal(extent, 1):
                strides.append(ZERO)
            else:
                raise PlanRefused(f"extent {extent!r} does not broadcast to {target!r}", kind="shape-error")
        return view.window(shape, tuple(strides))

    def axis_of(self, value: Value, ndim: int) -> int:
        """A normalised axis argument. Refused when it is out of range (NumPy raises)."""
        axis = self.known_int(value)
        if not -ndim <= axis < ndim:
            raise PlanRefused(f"axis {axis} of an array with {ndim} axes", kind="axis-error")
        return axis % ndim

    def known_int(self, value: Value) -> int:
        """An integer that the plan must know; pinned by a fact."""
        if isinstance(value, Num) and isinstance(value.operand, Expr):
            return self.facts.value_of(value.operand)
        if isinstance(value, Num) and isinstance(value.operand, Literal) and not isinstance(value.operand.value, float):
            return int(value.operand.value)
        raise PlanRefused("an integer is needed that is known only while the program runs", kind="runtime-extent")

    def int_expr(self, value: Value) -> Expr:
        """An integer argument as an expression."""
        if isinstance(value, Num):
            if value.dtype == "u64":
                raise PlanRefused("a uint64 number is used as an integer", kind="dtype")
            if isinstance(value.operand, Expr) and value.native == "i64":
                return self.facts.norm(value.operand)
            if isinstance(value.operand, Literal) and isinstance(value.operand.value, int):
                return const(int(value.operand.value))
            if isinstance(value.operand, ScalarReg) and value.native in ("i32", "i64"):
                body = self.scalar_body()
                reg = body.cast(value.operand, "i64") if value.native == "i32" else value.operand
                if isinstance(reg, ScalarReg) and reg.expr is not None:
                    return reg.expr
        raise PlanRefused("an integer is needed here", kind="operand")

    def is_true(self, value: Value) -> bool:
        """A flag argument that the plan must know."""
        if isinstance(value, Num) and value.is_constant:
            return bool(value.constant)
        if isinstance(value, Static) and value.value is None:
            return False
        raise PlanRefused("a flag is needed that is known only while the program runs", kind="runtime-flag")

    def numpy_dtype(self, value: Value) -> str:
        """A dtype argument as a memory dtype name."""
        spec = value.value if isinstance(value, Static) else None
        try:
            name = DTYPE_NAMES.get(np.dtype(spec)) if spec is not None else None  # type: ignore[call-overload]
        except TypeError:
            name = None
        if name is None or name not in COMPUTE:
            raise PlanRefused(f"dtype {spec!r} is not planned", kind="dtype")
        self.has_odd = self.has_odd or name in ODD
        return name


def product_of(extents: Sequence[Expr]) -> Expr:
    return prod(extents, start=const(1))
