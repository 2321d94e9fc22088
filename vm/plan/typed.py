"""Typing: a Program executed over abstract values, giving steps for one signature.

Arrays are views with symbolic extents, scalars are operands, containers are structure and disappear. A question that
algebra cannot decide becomes a fact (facts.py). What depends on run-time values becomes regions: `control.py`.
Rules of kernels are in `rules_*.py`, registered by kernel name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from ...templates.records import replace
from ...templates.registry import BY_ID
from ..lang.bytecode import UNBOUND, Instruction, Program, kept_on_program
from ..lang.opcodes import BUILD_KINDS, BY_CODE, COMPARE_OPS, TABLE, Op
from .callouts import EITHER, call_out
from .compactions import drop_compactions
from .complex_values import complex_attribute, complex_compare, complex_inplace, complex_kernel, is_complex_call
from .control import Control
from .emitting import product_of
from .extents import Expr, as_expr, compare, const, select, symbol
from .planner_errors import PlanRefused
from .reading import LiveReader, RecordedReader
from .signature import DTYPE_NAMES, NUMPY_DTYPES, Signature
from .steps import (
    ITEM_BYTES,
    Buffer,
    CallStep,
    ForStep,
    IfStep,
    Literal,
    Nest,
    Plan,
    ScalarReg,
    Step,
    StoreStep,
    TrapStep,
    View,
    WhileStep,
    contiguous_strides,
    walk,
)
from .typer_state import NeedUnroll
from .unsigned import is_called_out, is_odd, is_unsigned, number_of, wide_numbers
from .values import (
    COMPUTE,
    ODD,
    Arr,
    Cplx,
    Lazy,
    Map,
    Num,
    Range,
    Seq,
    SliceV,
    Static,
    Value,
    Zipped,
    python_bool,
    python_float,
    python_int,
)

Rule = Callable[..., Value]
RULES: dict[str, Rule] = {}
ATTRIBUTES: dict[str, Rule] = {}
NONE = Static(None)
_UNSIGNED_COMPARISONS = {"==": "equal", "!=": "not_equal", "<": "less", "<=": "less_equal", ">": "greater",
                         ">=": "greater_equal"}


# reductions, which take lists as the arrays that NumPy makes of them
_LIST_TAKERS = """sum mean max min amax amin prod std var argmax argmin any all cumsum cumprod ptp average median nanmean nansum
count_nonzero"""
_TAKE_LISTS = frozenset(f"np.{name}" for name in _LIST_TAKERS.split())


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


def load_rules() -> None:
    """Import the modules of the rules, which register them here, and what else typing loads late."""
    from . import (  # noqa: F401
        results,
        rules_compose,
        rules_create,
        rules_dtypes,
        rules_elementwise,
        rules_forms,
        rules_index,
        rules_linear,
        rules_operators,
        rules_python,
        rules_reduce,
        rules_select,
        rules_ufunc_methods,
        rules_view,
    )


def type_program(program: Program, reader: LiveReader | RecordedReader, rounding: str = "") -> Plan:
    """Execute a program abstractly and return the unfused plan. rounding: of products (see Contract). Raises
    PlanRefused."""
    load_rules()
    started = perf_counter_ns()
    wide_counters, splits = False, 0
    while True:
        try:
            plan = _typed(program, reader, wide_counters, splits, rounding)
            break
        except PlanRefused as refused:
            if refused.kind == "late-trap" and not wide_counters:
                wide_counters = True
            elif refused.kind in _SPLITTING and not splits and _has_branches(program):
                splits = _MOST_SPLITS
            else:
                raise
    plan.log.append(("type", (perf_counter_ns() - started) / 1e6, f"{len(plan.steps)} steps"))
    return plan


_MOST_SPLITS = 6
_SPLITTING = frozenset(("merge", "unbound", "two-types", "alias"))  # refusals that may go away when two paths stay apart


def _has_branches(program: Program) -> bool:
    return any(ins.op in (Op.IF_TRUE, Op.IF_TENSOR_GT) for ins in program.code)


def _typed(program: Program, reader: LiveReader | RecordedReader, wide_counters: bool, splits: int,
           rounding: str) -> Plan:
    typer = Typer(program, reader, wide_counters)
    typer.splits, typer.rounding = splits, rounding
    try:
        typer.run()
        return typer.finish()
    except OverflowError as error:
        raise PlanRefused(str(error), kind="big-int", position=typer.pc) from None
    except NeedUnroll:
        raise PlanRefused("a number decides here that is known only while the program runs", kind="runtime-extent",
                          position=typer.pc) from None
    except RecursionError:
        raise PlanRefused("the program nests too deeply", kind="depth", position=typer.pc) from None
    except PlanRefused as refused:
        if refused.position < 0:
            refused.position = typer.pc
        raise


class Typer(Control):
    """State of one typing: registers of values, steps being emitted, facts, rows."""

    def __init__(self, program: Program, reader: LiveReader | RecordedReader, wide_counters: bool) -> None:
        super().__init__(program, reader, wide_counters)
        self.decoded = decode(program)

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
            if row.dtype not in COMPUTE and row.dtype[0] != "c":
                raise PlanRefused(f"dtype {row.dtype} is not planned", kind="dtype")
            self.has_odd = self.has_odd or row.dtype in ODD
            if row.shape is not None:
                shape: tuple[Expr, ...] = tuple([const(n) for n in row.shape])
            else:
                shape = tuple([symbol(f"{row.path}.shape[{d}]") for d in range(row.ndim)])
            if row.layout == "C":
                strides = contiguous_strides(shape, ITEM_BYTES[row.dtype])
            else:
                strides = tuple(symbol(f"{row.path}.strides[{d}]", -2**47, 2**47) for d in range(row.ndim))
            buffer = Buffer("arg", row.dtype, None, row=index, constant=row.constant, name=row.path)
            if row.dtype[0] == "c":
                part = "f32" if row.dtype == "c64" else "f64"
                parts = [Arr(View(buffer, part, shape, strides, const(i * ITEM_BYTES[part]))) for i in (0, 1)]
                return Cplx(parts[0], parts[1], row.dtype, row=index)
            return Arr(View(buffer, row.dtype, shape, strides, const(0)), row=index)
        if row.kind == "scalar":
            if row.dtype not in COMPUTE:
                raise PlanRefused(f"dtype {row.dtype} is not planned", kind="dtype")
            self.has_odd = self.has_odd or row.dtype in ODD
            native = COMPUTE[row.dtype]
            if native == "i64" and row.dtype != "u64":
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
        if isinstance(value, Zipped):
            return [self.item(value, const(i)) for i in range(self.facts.value_of(value.length))]
        raise PlanRefused("a value that is not a sequence is iterated", kind="iterate")

    def has_fields(self, value: Value) -> bool:
        """Whether a value is an argument that may be a named tuple: its items have names."""
        return isinstance(value, Lazy) and value.kind == "sequence" and \
            self.reader.rows[value.row].type_name not in ("builtins:tuple", "builtins:list")

    def is_sequence(self, value: Value) -> bool:
        """Whether `children` knows the items."""
        return isinstance(value, (Seq, Map, Range, Zipped)) or (isinstance(value, Lazy) and value.kind in ("sequence", "mapping"))

    def constant(self, value: object) -> Value:
        """A constant of the program as a value."""
        if isinstance(value, bool):
            return python_bool(value)
        if isinstance(value, int):
            if 2**62 <= value < 2**64:
                return Static(value)  # what only uint64 takes: see `wide_numbers`
            if abs(value) >= 2**62:
                raise PlanRefused("an integer constant past 62 bits", kind="big-int")
            return python_int(const(value))
        if isinstance(value, float):
            return python_float(value)
        if isinstance(value, np.generic) and value.dtype in DTYPE_NAMES and DTYPE_NAMES[value.dtype] in COMPUTE:
            name = DTYPE_NAMES[value.dtype]
            self.has_odd = self.has_odd or name in ODD
            if name == "u64":
                return number_of(value.item())
            return Num(Literal(value.item(), COMPUTE[name]), name)
        if isinstance(value, tuple):
            return Seq([self.constant(v) for v in value], "tuple")
        if isinstance(value, complex):
            return Cplx(python_float(value.real), python_float(value.imag), "c128", "complex")
        found = Static(value)
        self.has_odd = self.has_odd or is_odd(found)
        return found

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
        if self.written and _interprets_late(self.steps, False):
            raise PlanRefused("the interpreter may have to take over after an argument was written", kind="late-trap")
        drop_compactions(self.steps, result, self.compactions)
        self._guard_overlap()
        self.apply_equalities(result)
        return Plan(self.program.name, self.steps, result, self.facts.asked, Signature(tuple(rows)), dict(self.reader.sample))

    def _guard_overlap(self) -> None:
        """Written arguments must not overlap other arguments: a fact like any other; refused where they do."""
        if not self.written:
            return
        self.reader.locate()
        arrays = {row: v if isinstance(v, Arr) else v.re for row, v in self.leaves.items() if isinstance(v, (Arr, Cplx))}
        for index in self.written:
            target = arrays[index]
            assert isinstance(target, Arr)
            for row, other in arrays.items():
                if row == index or (row in self.written and row < index):
                    continue
                assert isinstance(other, Arr)
                if other.view.buffer.constant:
                    continue
                (lo, hi), (olo, ohi) = self._span(target), self._span(other)
                apart = compare("lt", 0, compare("le", hi, olo) + compare("le", ohi, lo))
                if not self.facts.ask(apart):
                    raise PlanRefused("a written argument overlaps another argument", kind="overlap")

    def _span(self, value: Arr) -> tuple[Expr, Expr]:
        path, dtype = value.view.buffer.name, value.view.buffer.dtype
        lo = hi = symbol(f"{path}.data", 0, 2**47)
        hi = hi + ITEM_BYTES[dtype]
        if self.reader.rows[value.view.buffer.row].layout == "C":
            return lo, lo + as_expr(ITEM_BYTES[dtype]) * product_of(value.shape)
        for extent, stride in zip(value.shape, value.view.strides, strict=True):
            reach = stride * (extent - 1)
            up = compare("le", 0, reach)
            hi = hi + select(up, reach, 0)
            lo = lo + select(up, 0, reach)
        return lo, hi

    # --- instructions -------------------------------------------------------------------------------------------------

    def type_LOAD_CONST(self, dst: int, index: int) -> None:
        self.regs[dst] = self.constant(self.program.constants[index])

    def type_LOAD_CAPTURE(self, dst: int, index: int) -> None:
        self.regs[dst] = self.leaf("capture", -1, index)

    def type_LOAD_TENSOR(self, dst: int, index: int) -> None:
        self.regs[dst] = self.leaf("arg", -1, index)

    def type_LOAD_ATTR(self, dst: int, a: int, name: int) -> None:
        value, key = self.get(a), self.program.constants[name]
        if isinstance(value, Lazy) and (value.kind == "object" or self.has_fields(value)):
            self.regs[dst] = self.leaf("attr", value.row, key)
            return
        if isinstance(value, Cplx):
            self.regs[dst] = complex_attribute(self, value, str(key))
            return
        if isinstance(value, Seq) and key in value.fields:
            self.regs[dst] = value.items[value.fields.index(str(key))]
            return
        if isinstance(value, Static) and isinstance(value.value, np.dtype):
            from .rules_dtypes import attribute_of_dtype
            self.regs[dst] = attribute_of_dtype(self, value.value, str(key))
            return
        known = ATTRIBUTES.get(str(key))
        check_has(value, str(key))
        if known is None or not isinstance(value, (Arr, Num)) or (isinstance(value, Num) and value.maybe):
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
        self.apply("store", self.get(base), self.get(index), self.get(value))

    def type_VIEW_TENSOR(self, dst: int, base: int, index: int) -> None:
        self.regs[dst] = self.subscript(self.get(base), self.get(index))

    def subscript(self, base: Value, index: Value) -> Value:
        """base[index]."""
        return self.apply("subscript", base, index)

    def compare(self, op: str, a: Value, b: Value) -> Value:
        """a OP b."""
        if self.has_odd:
            a, b = wide_numbers((a, b))
        if self.has_odd and op in _UNSIGNED_COMPARISONS and (is_unsigned(a) or is_unsigned(b)):
            name = f"np.{_UNSIGNED_COMPARISONS[op]}"
            if is_called_out(name, (a, b)):
                return call_out(self, name, (a, b))
        if isinstance(a, Cplx) or isinstance(b, Cplx):
            return complex_compare(self, op, a, b)
        return RULES["compare"](self, op, a, b)

    def apply(self, name: str, *values: Value) -> Value:
        """The rule of a kernel, or that of its complex form."""
        if self.has_odd:
            values = tuple(wide_numbers(values))
        if self.has_odd and is_called_out(name, values):
            return call_out(self, name, values)
        if is_complex_call(name, values):
            return complex_kernel(self, name, values)
        return RULES[name](self, *values)

    def type_ALLOC_BUFFER(self, dst: int, shape: int, fill: int, dtype: int) -> None:
        self.regs[dst] = self.apply(("np.empty", "np.zeros", "np.ones")[fill], self.get(shape), self.get(dtype))

    def type_UNARY_NEG_TENSOR(self, dst: int, a: int) -> None:
        self.regs[dst] = self.apply("op.neg", self.get(a))

    def type_UNARY_NOT_TENSOR(self, dst: int, a: int) -> None:
        self.regs[dst] = self.apply("op.invert", self.get(a))

    def type_CAST_TENSOR(self, dst: int, a: int, dtype: int) -> None:
        check_has(self.get(a), "astype")
        self.regs[dst] = self.apply("arr.astype", self.get(a), self.get(dtype))

    def type_BINARY_ADD_TENSOR(self, dst: int, a: int, b: int) -> None:
        self.regs[dst] = self.apply("op.add", self.get(a), self.get(b))

    def type_BINARY_SUB_TENSOR(self, dst: int, a: int, b: int) -> None:
        self.regs[dst] = self.apply("op.sub", self.get(a), self.get(b))

    def type_BINARY_MUL_TENSOR(self, dst: int, a: int, b: int) -> None:
        self.regs[dst] = self.apply("op.mul", self.get(a), self.get(b))

    def type_BINARY_DIV_TENSOR(self, dst: int, a: int, b: int) -> None:
        self.regs[dst] = self.apply("op.truediv", self.get(a), self.get(b))

    def type_COMPARE_TENSOR(self, dst: int, a: int, b: int, op: int) -> None:
        self.regs[dst] = self.compare(COMPARE_OPS[op], self.get(a), self.get(b))

    def type_INPLACE_TENSOR(self, dst: int, a: int, b: int, kernel: int) -> None:
        target, value = wide_numbers((self.get(a), self.get(b)))
        if isinstance(target, Cplx) or isinstance(value, Cplx):
            self.regs[dst] = complex_inplace(self, BY_ID[kernel].name, target, value)
        else:
            self.regs[dst] = RULES["inplace"](self, BY_ID[kernel].name, target, value)

    def type_SELECT_TENSOR(self, dst: int, cond: int, a: int, b: int) -> None:
        self.regs[dst] = self.apply("np.where", self.get(cond), self.get(a), self.get(b))

    def type_REDUCE_SUM_TENSOR(self, dst: int, a: int, axis: int, keepdims: int) -> None:
        self.regs[dst] = self.apply("np.sum", self._listed(self.get(a)), self.get(axis), NONE, NONE, python_bool(bool(keepdims)))

    def type_REDUCE_MAX_TENSOR(self, dst: int, a: int, axis: int, keepdims: int) -> None:
        self.regs[dst] = self.apply("np.max", self._listed(self.get(a)), self.get(axis), NONE, python_bool(bool(keepdims)))

    def type_CALL_KERNEL(self, dst: int, kernel: int, args: Sequence[int]) -> None:
        name = BY_ID[kernel].name
        values = [self.get(r) for r in args]
        if name in _TAKE_LISTS and values:
            values[0] = self._listed(values[0])
        if values and isinstance(values[0], Num) and values[0].maybe and name.startswith(("arr.", "py.isinstance")):
            raise PlanRefused("a scalar that is NumPy's on one path and Python's on another", kind="two-types")
        if values and name.startswith("arr."):
            check_has(values[0], name[4:])
        if self.has_odd:
            values = list(wide_numbers(values))
        if self.has_odd and is_called_out(name, values):
            self.regs[dst] = call_out(self, name, values)
            return
        is_complex = is_complex_call(name, values)
        is_planned = name in RULES and name not in EITHER and not is_complex
        self.regs[dst] = self._planned(name, values, False) if is_planned else self._called_out(name, values, is_complex)

    def _listed(self, value: Value) -> Value:
        """What NumPy makes of a list of arrays or numbers: `np.mean([model(x) for model in models], axis=0)`."""
        if isinstance(value, Seq) or (isinstance(value, Lazy) and value.kind == "sequence"):
            return self.apply("np.array", value)
        return value

    def _planned(self, name: str, values: list[Value], is_complex: bool) -> Value:
        """The kernel's value by its own rule, or that of its complex form."""
        try:
            return complex_kernel(self, name, values) if is_complex else RULES[name](self, *values)
        except TypeError as error:
            if "positional argument" in str(error):
                raise PlanRefused(f"{name} with these arguments is not planned", kind=f"kernel:{name}") from None
            raise

    def _called_out(self, name: str, values: list[Value], is_complex: bool) -> Value:
        """The kernel's value by its own rule, and by a call of the library where there is none or it refuses."""
        if name not in RULES and not is_complex:
            return call_out(self, name, values)
        saved = self._save()
        try:
            return self._planned(name, values, is_complex)
        except PlanRefused as refused:
            self._restore(saved)
            try:
                return call_out(self, name, values)
            except PlanRefused:
                raise refused from None

    def type_SYNC_DEVICE(self) -> None:
        """The CPU has no outstanding work."""

    def type_TENSOR_SHAPE_REF(self, dst: int, a: int, axis: int) -> None:
        value = self.get(a)
        value = value.re if isinstance(value, Cplx) else value
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

    def step_instruction(self, pc: int) -> None:
        """One instruction that is no control flow."""
        handler, operands = self.decoded[pc]
        handler(self, *operands)


def check_has(value: Value, name: str) -> None:
    """Refuse a method or attribute that a scalar's type lacks: the interpreter raises AttributeError."""
    if isinstance(value, Num):
        kind = {"int": int, "float": float, "bool": bool}.get(value.python) or NUMPY_DTYPES[value.dtype].type
        if not hasattr(kind, name):
            raise PlanRefused(f"{kind.__name__} has no attribute {name!r}", kind="attribute")
    elif isinstance(value, Cplx) and value.python and not hasattr(complex, name):
        raise PlanRefused(f"complex has no attribute {name!r}", kind="attribute")


def _interprets_late(steps: list[Step], written: bool) -> bool:
    """Whether a trap may hand the call to the interpreter when an argument was written already."""
    for step in steps:
        if isinstance(step, TrapStep):
            if written and step.code == "INTERPRET":
                return True
        elif isinstance(step, (ForStep, WhileStep)):
            if _interprets_late(step.body, written or _writes_argument(step.body)):
                return True
        elif isinstance(step, IfStep) and (_interprets_late(step.then, written) or _interprets_late(step.orelse, written)):
            return True
        written = written or _writes_argument([step])
    return False


def _writes_argument(steps: list[Step]) -> bool:
    return any((isinstance(step, Nest) and any(out.view.buffer.kind == "arg" for out in step.outs))
               or (isinstance(step, StoreStep) and step.view.buffer.kind == "arg")
               or (isinstance(step, CallStep) and any(view.buffer.kind == "arg" for view in step.views(written=True)))
               for step in walk(steps))


@kept_on_program
def decode(program: Program) -> list[tuple[Callable[..., None], list[Any]]]:
    """Handler and operands of each instruction that is no control flow."""
    return [(_HANDLERS[ins.op], split_operands(ins)) for ins in program.code]


def _no_handler(typer: Typer, *operands: Any) -> None:
    raise PlanRefused("unexpected control flow", kind="control")


_HANDLERS = {row.code: getattr(Typer, f"type_{row.name}", _no_handler) for row in TABLE}
_HAS_LISTS = {row.code for row in TABLE if any(kind in ("srcs", "dsts") for _, kind in row.operands)}


def split_operands(ins: Instruction) -> list[Any]:
    """Operands of an instruction, register lists as tuples."""
    operands = BY_CODE[ins.op].operands
    if ins.op not in _HAS_LISTS:
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
