"""Typing: a Program executed over abstract values, giving steps for one signature.

Arrays are views with symbolic extents, scalars are operands, containers are structure and disappear. A question that
algebra cannot decide becomes a fact (facts.py). What depends on run-time values becomes regions: `control.py`.
Rules of kernels are in `rules_*.py`, registered by kernel name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from time import perf_counter_ns
from typing import Any

import numpy as np

from ...templates.registry import BY_ID
from ..lang.bytecode import UNBOUND, Instruction, Program
from ..lang.opcodes import BUILD_KINDS, BY_CODE, COMPARE_OPS
from .body import NestBody, ScalarBody
from .control import Control
from .extents import Expr, as_expr, compare, const, select, symbol
from .facts import Facts
from .planner_errors import PlanRefused
from .reading import LiveReader, RecordedReader
from .signature import DTYPE_NAMES, Signature
from .steps import (
    ITEM_BYTES,
    Buffer,
    Literal,
    LoadStep,
    Nest,
    NestOut,
    Plan,
    ScalarReg,
    Step,
    StoreStep,
    TrapStep,
    View,
    contiguous_strides,
    walk,
)
from .values import (
    COMPUTE,
    Arr,
    Lazy,
    Map,
    Num,
    Range,
    Seq,
    SliceV,
    Static,
    Value,
    python_bool,
    python_float,
    python_int,
)

Rule = Callable[..., Value]
RULES: dict[str, Rule] = {}
ATTRIBUTES: dict[str, Rule] = {}
NONE = Static(None)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the typing rule of kernels: f(typer, *arguments) -> Value, trailing arguments may be missing."""
    def add(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function
    return add


def attribute(*names: str) -> Callable[[Rule], Rule]:
    """Register the typing rule of an array or scalar attribute: f(typer, value) -> Value."""
    def add(function: Rule) -> Rule:
        for name in names:
            ATTRIBUTES[name] = function
        return function
    return add


def type_program(program: Program, reader: LiveReader | RecordedReader) -> Plan:
    """Execute a program abstractly and return the unfused plan. Raises PlanRefused."""
    from . import rules_create, rules_elementwise, rules_index, rules_linear, rules_python, rules_reduce  # noqa: F401
    started = perf_counter_ns()
    typer = Typer(program, reader)
    try:
        typer.run()
    except OverflowError as error:
        raise PlanRefused(str(error), kind="big-int", position=typer.pc) from None
    except RecursionError:
        raise PlanRefused("the program nests too deeply", kind="depth", position=typer.pc) from None
    except PlanRefused as refused:
        if refused.position < 0:
            refused.position = typer.pc
        raise
    plan = typer.finish()
    plan.log.append(("type", (perf_counter_ns() - started) / 1e6, f"{len(plan.steps)} steps"))
    return plan


class Typer(Control):
    """State of one typing: registers of values, steps being emitted, facts, rows."""

    def __init__(self, program: Program, reader: LiveReader | RecordedReader) -> None:
        super().__init__(program)
        self.reader = reader
        self.facts = Facts(reader.sample)
        self.leaves: dict[int, Value] = {}
        self.written: dict[int, Buffer] = {}  # rows of arguments that a step writes
        self.read_only: set[Buffer] = set()  # buffers whose contents a copy stands for: writing them is refused

    # --- reading arguments and captures -------------------------------------------------------------------------------

    def leaf(self, how: str, parent: int, key: object) -> Value:
        """The value at a path; the row is recorded at the first read."""
        index = self.reader.read(how, parent, key)
        found = self.leaves.get(index)
        if found is None:
            found = self.leaves[index] = self._make_leaf(index)
        return found

    def _make_leaf(self, index: int) -> Value:
        row = self.reader.rows[index]
        if row.kind == "array":
            if row.dtype not in COMPUTE:
                raise PlanRefused(f"dtype {row.dtype} is not planned", kind="dtype")
            if row.shape is not None:
                shape: tuple[Expr, ...] = tuple(const(n) for n in row.shape)
            else:
                shape = tuple(symbol(f"{row.path}.shape[{d}]") for d in range(row.ndim))
            if row.layout == "C":
                strides = contiguous_strides(shape, ITEM_BYTES[row.dtype])
            else:
                strides = tuple(symbol(f"{row.path}.strides[{d}]", -2**47, 2**47) for d in range(row.ndim))
            buffer = Buffer("arg", row.dtype, None, row=index, constant=row.constant, name=row.path)
            return Arr(View(buffer, row.dtype, shape, strides, const(0)), row=index)
        if row.kind == "scalar":
            if row.dtype not in COMPUTE:
                raise PlanRefused(f"dtype {row.dtype} is not planned", kind="dtype")
            native = COMPUTE[row.dtype]
            if native == "i64":
                return Num(symbol(row.path, -2**47, 2**47), row.dtype, row.python, index)
            return Num(ScalarReg(native, row.path, row=index), row.dtype, row.python, index)
        if row.kind == "static":
            if isinstance(row.value, bool):
                return python_bool(row.value)
            return Static(row.value)
        return Lazy(index, row.kind)

    def children(self, value: Value) -> list[Value]:
        """The items of a sequence value."""
        if isinstance(value, Seq):
            return value.items
        if isinstance(value, Lazy) and value.kind == "sequence":
            return [self.leaf("item", value.row, i) for i in range(self.reader.length(value.row))]
        if isinstance(value, Map):
            return [self.constant(k) for k in value.items]
        if isinstance(value, Lazy) and value.kind == "mapping":
            return [self.constant(k) for k in self.reader.keys(value.row)]
        if isinstance(value, Range):
            start, stop, step = (self.facts.value_of(e) for e in (value.start, value.stop, value.step))
            return [python_int(const(i)) for i in range(start, stop, step)]
        raise PlanRefused("a value that is not a sequence is iterated", kind="iterate")

    def is_sequence(self, value: Value) -> bool:
        """Whether `children` knows the items."""
        return isinstance(value, (Seq, Map, Range)) or (isinstance(value, Lazy) and value.kind != "object")

    def constant(self, value: object) -> Value:
        """A constant of the program as a value."""
        if isinstance(value, bool):
            return python_bool(value)
        if isinstance(value, int):
            if abs(value) >= 2**62:
                raise PlanRefused("an integer constant past 62 bits", kind="big-int")
            return python_int(const(value))
        if isinstance(value, float):
            return python_float(value)
        if isinstance(value, np.generic) and value.dtype in DTYPE_NAMES and DTYPE_NAMES[value.dtype] in COMPUTE:
            name = DTYPE_NAMES[value.dtype]
            return Num(Literal(value.item(), COMPUTE[name]), name)
        if isinstance(value, tuple):
            return Seq([self.constant(v) for v in value], "tuple")
        if isinstance(value, complex):
            raise PlanRefused("complex numbers are not planned", kind="dtype")
        return Static(value)

    # --- running ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Execute the whole program."""
        self.run_block(0, len(self.code))

    def finish(self) -> Plan:
        """The plan: results attached, argument overlap made a guard, known equalities applied."""
        result = self.finish_returns()
        rows = list(self.reader.rows)
        for index in self.written:
            rows[index] = replace(rows[index], writable=True)
        if self.written and any(isinstance(s, TrapStep) and s.code == "INTERPRET" for s in walk(self.steps)):
            raise PlanRefused("an integer may pass 64 bits after an argument was written", kind="big-int")
        self._guard_overlap()
        self.apply_equalities(result)
        sample = {str(k): v for k, v in self.reader.sample.items()}
        return Plan(self.program.name, self.steps, result, self.facts.asked, Signature(tuple(rows)), sample)

    def _guard_overlap(self) -> None:
        """Written arguments must not overlap other arguments: a fact like any other; refused where they do."""
        arrays = [v for v in self.leaves.values() if isinstance(v, Arr)]
        for index in self.written:
            target = self.leaves[index]
            assert isinstance(target, Arr)
            for other in arrays:
                if other.row == index or (other.row in self.written and other.row < index):
                    continue
                if other.view.buffer.constant:
                    continue
                (lo, hi), (olo, ohi) = self._span(target), self._span(other)
                apart = compare("lt", 0, compare("le", hi, olo) + compare("le", ohi, lo))
                if not self.facts.ask(apart):
                    raise PlanRefused("a written argument overlaps another argument", kind="overlap")

    def _span(self, value: Arr) -> tuple[Expr, Expr]:
        path = value.view.buffer.name
        lo = hi = symbol(f"{path}.data", 0, 2**47)
        hi = hi + ITEM_BYTES[value.dtype]
        if self.reader.rows[value.row].layout == "C":
            return lo, lo + as_expr(ITEM_BYTES[value.dtype]) * _product(value.shape)
        for extent, stride in zip(value.shape, value.view.strides, strict=True):
            reach = stride * (extent - 1)
            up = compare("le", 0, reach)
            hi = hi + select(up, reach, 0)
            lo = lo + select(up, 0, reach)
        return lo, hi

    # --- emitting -----------------------------------------------------------------------------------------------------

    def new_temp(self, shape: Sequence[Expr], dtype: str) -> Arr:
        """A fresh C-ordered array in the arena, not yet written."""
        shape = tuple(self.facts.norm(e) for e in shape)
        if dtype not in COMPUTE:
            raise PlanRefused(f"dtype {dtype} is not planned", kind="dtype")
        size = const(ITEM_BYTES[dtype])
        for extent in shape:
            upper = self.facts.upper_entry(extent)
            if upper is None:
                raise PlanRefused(f"no bound for an array of extent {extent!r}", kind="unbounded-temp")
            size = size * upper
        buffer = Buffer("temp", dtype, size)
        buffer.home = View(buffer, dtype, shape, contiguous_strides(shape, ITEM_BYTES[dtype]), const(0))
        return Arr(buffer.home)

    def emit(self, step: Step) -> None:
        """Append a step to the region being built."""
        self.steps.append(step)

    def trap(self, code: str, cond: Any) -> None:
        """Stop the program at run time when cond holds."""
        self.emit(TrapStep(code, cond, self.pc))

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

    def write_view(self, target: Arr, value: Value, mask: Arr | None = None) -> None:
        """target[...] = value, with the right side complete before the first store."""
        self.note_write(target)
        view = target.view
        if isinstance(value, Num) and not view.shape and mask is None:
            body = self.scalar_body()
            slot = body.cast(self.scalar_slot(body, value), COMPUTE[view.dtype])
            self.emit(StoreStep(view, slot))  # type: ignore[arg-type]
            return
        body_n = NestBody()
        if isinstance(value, Arr):
            value = self.away_from(value, target)
        slot = self.slot(body_n, value, view.shape)
        slot = body_n.cast(slot, COMPUTE[view.dtype])
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
        return view if view.shape == shape else View(view.buffer, view.dtype, shape, view.strides, view.offset)

    def note_write(self, target: Arr) -> None:
        """Record that a step writes target's buffer."""
        buffer = target.view.buffer
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

    def broadcast(self, *shapes: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """NumPy's broadcast shape; refused (NumPy will raise) when the shapes do not fit."""
        if len(shapes) == 1:
            return shapes[0]
        ndim = max(map(len, shapes))
        out = []
        for axis in range(-ndim, 0):
            current: Expr = const(1)
            for shape in shapes:
                if len(shape) < -axis:
                    continue
                extent = self.facts.norm(shape[axis])
                if extent is current or extent.value == 1:
                    continue
                if current.value == 1:
                    current = extent
                elif not self.facts.ask_equal(current, extent):
                    if self.facts.ask_equal(extent, 1):
                        continue
                    if not self.facts.ask_equal(current, 1):
                        raise PlanRefused(f"extents {current!r} and {extent!r} do not broadcast", kind="shape-error")
                    current = extent
                elif extent.value is not None:
                    current = extent
            out.append(self.facts.norm(current))
        return tuple(out)

    def broadcast_view(self, view: View, shape: tuple[Expr, ...]) -> View:
        """The view with strides 0 where it broadcasts to `shape`."""
        if view.shape == shape:
            return view
        if len(view.shape) > len(shape):
            raise PlanRefused("more axes than the target has", kind="shape-error")
        lead = len(shape) - len(view.shape)
        strides: list[Expr] = [const(0)] * lead
        for extent, stride, target in zip(view.shape, view.strides, shape[lead:], strict=True):
            if extent is target or (extent.value != 1 and self.facts.ask_equal(extent, target)):
                strides.append(stride)
            elif self.facts.ask_equal(extent, 1):
                strides.append(const(0))
            else:
                raise PlanRefused(f"extent {extent!r} does not broadcast to {target!r}", kind="shape-error")
        return View(view.buffer, view.dtype, shape, tuple(strides), view.offset)

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
        return name

    # --- instructions -------------------------------------------------------------------------------------------------

    def type_LOAD_CONST(self, dst: int, index: int) -> None:
        self.regs[dst] = self.constant(self.program.constants[index])

    def type_LOAD_CAPTURE(self, dst: int, index: int) -> None:
        self.regs[dst] = self.leaf("capture", -1, index)

    def type_LOAD_TENSOR(self, dst: int, index: int) -> None:
        self.regs[dst] = self.leaf("arg", -1, index)

    def type_LOAD_ATTR(self, dst: int, a: int, name: int) -> None:
        value, key = self.get(a), self.program.constants[name]
        if isinstance(value, Lazy) and value.kind == "object":
            self.regs[dst] = self.leaf("attr", value.row, key)
            return
        known = ATTRIBUTES.get(str(key))
        if known is None or not isinstance(value, (Arr, Num)):
            raise PlanRefused(f"attribute {key!r} is not planned", kind="attribute")
        self.regs[dst] = known(self, value)

    def type_BUILD(self, dst: int, kind: int, items: Sequence[int]) -> None:
        values = [self.get(r) for r in items]
        name = BUILD_KINDS[kind]
        if name == "slice":
            self.regs[dst] = SliceV(*values)
        elif name == "dict":
            keys = []
            for key in values[::2]:
                if isinstance(key, Static):
                    keys.append(key.value)
                elif isinstance(key, Num) and key.is_constant:
                    keys.append(key.constant)
                else:
                    raise PlanRefused("a dict key that is known only while the program runs", kind="operand")
            self.regs[dst] = Map(dict(zip(keys, values[1::2], strict=True)))
        else:
            self.regs[dst] = Seq(values, name)

    def type_MOVE(self, dst: int, a: int) -> None:
        self.regs[dst] = self.regs[a]

    def type_UNPACK(self, a: int, dsts: Sequence[int]) -> None:
        value = self.get(a)
        if isinstance(value, Arr):
            if not value.ndim or not self.facts.ask_equal(value.shape[0], len(dsts)):
                raise PlanRefused("unpacking a wrong number of rows", kind="shape-error")
            items: list[Value] = [self.subscript(value, python_int(const(i))) for i in range(len(dsts))]
        else:
            items = self.children(value)
        if len(items) != len(dsts):
            raise PlanRefused("unpacking a wrong number of values", kind="shape-error")
        for dst, item in zip(dsts, items, strict=True):
            self.regs[dst] = item

    def type_STORE_TENSOR(self, base: int, index: int, value: int) -> None:
        RULES["store"](self, self.get(base), self.get(index), self.get(value))

    def type_VIEW_TENSOR(self, dst: int, base: int, index: int) -> None:
        self.regs[dst] = self.subscript(self.get(base), self.get(index))

    def subscript(self, base: Value, index: Value) -> Value:
        """base[index]."""
        return RULES["subscript"](self, base, index)

    def type_ALLOC_BUFFER(self, dst: int, shape: int, fill: int, dtype: int) -> None:
        self.regs[dst] = RULES[("np.empty", "np.zeros", "np.ones")[fill]](self, self.get(shape), self.get(dtype))

    def type_UNARY_NEG_TENSOR(self, dst: int, a: int) -> None:
        self.regs[dst] = RULES["op.neg"](self, self.get(a))

    def type_UNARY_NOT_TENSOR(self, dst: int, a: int) -> None:
        self.regs[dst] = RULES["op.invert"](self, self.get(a))

    def type_CAST_TENSOR(self, dst: int, a: int, dtype: int) -> None:
        self.regs[dst] = RULES["arr.astype"](self, self.get(a), self.get(dtype))

    def type_BINARY_ADD_TENSOR(self, dst: int, a: int, b: int) -> None:
        self.regs[dst] = RULES["op.add"](self, self.get(a), self.get(b))

    def type_BINARY_SUB_TENSOR(self, dst: int, a: int, b: int) -> None:
        self.regs[dst] = RULES["op.sub"](self, self.get(a), self.get(b))

    def type_BINARY_MUL_TENSOR(self, dst: int, a: int, b: int) -> None:
        self.regs[dst] = RULES["op.mul"](self, self.get(a), self.get(b))

    def type_BINARY_DIV_TENSOR(self, dst: int, a: int, b: int) -> None:
        self.regs[dst] = RULES["op.truediv"](self, self.get(a), self.get(b))

    def type_COMPARE_TENSOR(self, dst: int, a: int, b: int, op: int) -> None:
        self.regs[dst] = RULES["compare"](self, COMPARE_OPS[op], self.get(a), self.get(b))

    def type_INPLACE_TENSOR(self, dst: int, a: int, b: int, kernel: int) -> None:
        self.regs[dst] = RULES["inplace"](self, BY_ID[kernel].name, self.get(a), self.get(b))

    def type_SELECT_TENSOR(self, dst: int, cond: int, a: int, b: int) -> None:
        self.regs[dst] = RULES["np.where"](self, self.get(cond), self.get(a), self.get(b))

    def type_REDUCE_SUM_TENSOR(self, dst: int, a: int, axis: int, keepdims: int) -> None:
        self.regs[dst] = RULES["np.sum"](self, self.get(a), self.get(axis), NONE, NONE, python_bool(bool(keepdims)))

    def type_REDUCE_MAX_TENSOR(self, dst: int, a: int, axis: int, keepdims: int) -> None:
        self.regs[dst] = RULES["np.max"](self, self.get(a), self.get(axis), NONE, python_bool(bool(keepdims)))

    def type_CALL_KERNEL(self, dst: int, kernel: int, args: Sequence[int]) -> None:
        name = BY_ID[kernel].name
        found = RULES.get(name)
        if found is None:
            raise PlanRefused(f"{name} is not planned", kind=f"kernel:{name}")
        try:
            self.regs[dst] = found(self, *(self.get(r) for r in args))
        except TypeError as error:
            if "positional argument" in str(error):
                raise PlanRefused(f"{name} with these arguments is not planned", kind=f"kernel:{name}") from None
            raise

    def type_SYNC_DEVICE(self) -> None:
        """The CPU has no outstanding work."""

    def type_TENSOR_SHAPE_REF(self, dst: int, a: int, axis: int) -> None:
        value = self.get(a)
        axis = axis - 0x10000 if axis >= 0x8000 else axis
        if not isinstance(value, Arr) or not -value.ndim <= axis < value.ndim:
            raise PlanRefused("shape of something that has no such axis", kind="axis-error")
        self.regs[dst] = python_int(self.facts.norm(value.shape[axis]))

    def get(self, reg: int) -> Value:
        """A register's value; an unbound one is left to the interpreter, which raises."""
        value = self.regs[reg]
        if value is None or (isinstance(value, Static) and value.value is UNBOUND):
            raise PlanRefused("a name that may not be assigned yet is read", kind="unbound")
        return value

    def step_instruction(self, ins: Instruction) -> None:
        """One instruction that is no control flow."""
        row = BY_CODE[ins.op]
        getattr(self, f"type_{row.name}")(*split_operands(ins))


def split_operands(ins: Instruction) -> list[Any]:
    """Operands of an instruction, register lists as tuples."""
    operands = BY_CODE[ins.op].operands
    if not any(kind in ("srcs", "dsts") for _, kind in operands):
        return list(ins.args)
    out: list[Any] = []
    at = 0
    for _, kind in operands:
        if kind in ("srcs", "dsts"):
            count = ins.args[at]
            out.append(tuple(ins.args[at + 1:at + 1 + count]))
            at += 1 + count
        else:
            out.append(ins.args[at])
            at += 1
    return out


def _product(extents: Sequence[Expr]) -> Expr:
    return prod(extents, start=const(1))  # type: ignore[arg-type]
