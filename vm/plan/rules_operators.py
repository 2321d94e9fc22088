"""Rules of Python's operators: on arrays and NumPy scalars the ufunc of each, on Python's own numbers what Python does."""

from __future__ import annotations

import numpy as np

from .extents import Expr
from .planner_errors import PlanRefused
from .python_arithmetic import python_binary, python_compare, python_negative
from .rules_elementwise import as_array, ufunc
from .signature import NUMPY_DTYPES
from .typed import RULES, Typer, rule
from .values import Arr, Num, Selected, Seq, Static, Value, is_python, python_bool

_OPERATORS = {"op.add": "add", "op.sub": "subtract", "op.mul": "multiply", "op.truediv": "divide",
              "op.floordiv": "floor_divide", "op.mod": "remainder", "op.pow": "power", "op.lshift": "left_shift",
              "op.rshift": "right_shift", "op.and": "bitwise_and", "op.or": "bitwise_or", "op.xor": "bitwise_xor"}


def _operator(op: str, name: str) -> None:
    def binary(t: Typer, a: Value, b: Value) -> Value:
        if a.__class__ is Arr and b.__class__ is Arr:
            return ufunc(t, name, [a, b])
        if is_python(a) and is_python(b):
            return python_binary(t, op, a, b)  # type: ignore[arg-type]
        if may_be_python(a) and may_be_python(b):
            return _either_binary(t, op, name, a, b)  # type: ignore[arg-type]
        if op in ("op.add", "op.mul"):
            joined = _sequence_operator(t, op, a, b)
            if joined is not None:
                return joined
        if op == "op.pow" and isinstance(a, Arr) and a.dtype == "bool" and isinstance(b, Num) and b.python == "int" \
                and b.is_constant and b.constant == 2:
            return ufunc(t, "square", [a])  # the operator's short cut has a dtype of its own
        if isinstance(a, Arr) or isinstance(b, Arr):  # a list beside an array becomes one
            a, b = (as_array(t, v) if t.is_sequence(v) else v for v in (a, b))
        return ufunc(t, name, [a, b])
    RULES[op] = binary


def may_be_python(value: Value) -> bool:
    """Whether a value is a Python scalar, on some paths at least."""
    return isinstance(value, Num) and (value.python != "" or value.maybe != "")


def _either_binary(t: Typer, op: str, name: str, a: Num, b: Num) -> Value:
    """An operator whose operands may both be Python's: the result may be too."""
    kinds = {v.python or v.maybe for v in (a, b)}
    if not kinds <= {"float", "int"} or "float" not in kinds or op not in ("op.add", "op.sub", "op.mul", "op.truediv"):
        raise PlanRefused("Python's and NumPy's arithmetic differ here", kind="two-types")
    if op == "op.truediv":
        body = t.scalar_body()
        zero = body.op("eq", b.native, t.scalar_slot(body, b), body.const(0.0 if b.native[0] == "f" else 0, b.native))
        t.trap("INTERPRET", zero)  # one raises, the other warns
    value = ufunc(t, name, [a, b])
    assert isinstance(value, Num)
    value.maybe = "float"
    return value


def _sequence_operator(t: Typer, op: str, a: Value, b: Value) -> Value | None:
    if op == "op.add" and t.is_sequence(a) and t.is_sequence(b):
        from .rules_index import kind_of_sequence

        kinds = {kind_of_sequence(t, v) for v in (a, b)}
        if len(kinds) == 1:
            return Seq([*t.children(a), *t.children(b)], kinds.pop())
    if op == "op.mul" and isinstance(a, Seq) and is_python(b):
        return Seq(list(a.items) * max(t.known_int(b), 0), a.kind)
    return None


for _op, _name in _OPERATORS.items():
    _operator(_op, _name)


@rule("op.neg")
def negative(t: Typer, a: Value) -> Value:
    if isinstance(a, Num) and a.python:
        return python_negative(t, a)
    return _like(t, a, ufunc(t, "negative", [a]))


@rule("op.pos")
def positive(t: Typer, a: Value) -> Value:
    if isinstance(a, Num) and a.python and a.python != "bool":
        return a
    return _like(t, a, ufunc(t, "positive", [a]))


def _like(t: Typer, a: Value, value: Value) -> Value:
    """The value of a unary operator: Python's on the paths where the operand is."""
    if isinstance(a, Num) and a.maybe:
        if a.maybe not in ("int", "float") or not isinstance(value, Num):
            raise PlanRefused("Python's and NumPy's arithmetic differ here", kind="two-types")
        value.maybe = a.maybe
    return value


@rule("op.invert")
def invert(t: Typer, a: Value) -> Value:
    if isinstance(a, Num) and a.python == "bool":
        a = RULES["py.int"](t, a)
    if isinstance(a, Num) and a.python == "int":
        return python_binary(t, "op.sub", python_negative(t, a), t.constant(1))  # type: ignore[arg-type]
    return ufunc(t, "invert", [a])


_COMPARISONS = {"==": "equal", "!=": "not_equal", "<": "less", "<=": "less_equal", ">": "greater",
                ">=": "greater_equal"}


@rule("compare")
def compare_values(t: Typer, op: str, a: Value, b: Value) -> Value:
    if op in ("is", "is not"):
        return _identity(op, a, b)
    if op in ("in", "not in"):
        return _membership(t, op, a, b)
    if is_python(a) and is_python(b):
        return python_compare(t, op, a, b)  # type: ignore[arg-type]
    if isinstance(a, Static) or isinstance(b, Static):
        if op in ("==", "!=") and isinstance(a, Static) and isinstance(b, Static):
            return python_bool((a.value == b.value) == (op == "=="))
        if op in ("==", "!=") and not isinstance(a, Arr) and not isinstance(b, Arr):
            return python_bool(op == "!=")
        raise PlanRefused("a comparison with a value that is no number", kind="operand")
    if t.is_sequence(a) and t.is_sequence(b) and op in ("==", "!="):
        x, y = t.children(a), t.children(b)
        equal = len(x) == len(y)
        for u, v in zip(x, y, strict=False):
            side = t.truth(compare_values(t, "==", u, v))
            if not isinstance(side, bool):
                raise PlanRefused("sequences compared by run-time values", kind="operand")
            equal = equal and side
        return python_bool(equal == (op == "=="))
    value = ufunc(t, _COMPARISONS[op], [a, b])
    if isinstance(value, Num) and may_be_python(a) and may_be_python(b):
        value.maybe = "bool"
    return value


def _identity(op: str, a: Value, b: Value) -> Value:
    if isinstance(a, Static) and isinstance(b, Static):
        same = a.value is b.value
    elif isinstance(a, Static) or isinstance(b, Static):
        same = False
    elif isinstance(a, Num) and isinstance(b, Num) and a.python == b.python == "bool" and a.is_constant and b.is_constant:
        same = a.constant == b.constant
    else:
        raise PlanRefused("identity of values", kind="operand")
    return python_bool(same == (op == "is"))


def _membership(t: Typer, op: str, a: Value, b: Value) -> Value:
    if isinstance(b, Arr):
        raise PlanRefused("`in` on an array", kind="operand")
    found = False
    for item in t.children(b):
        side = t.truth(compare_values(t, "==", a, item))
        if not isinstance(side, bool):
            raise PlanRefused("`in` decided by run-time values", kind="operand")
        found = found or side
    return python_bool(found == (op == "in"))


@rule("op.not")
def logical_not(t: Typer, a: Value) -> Value:
    side = t.truth(a)
    if isinstance(side, bool):
        return python_bool(not side)
    body = t.scalar_body()
    if isinstance(side, Expr):
        slot = body.op("eq", "i64", side, body.const(0, "i64"))
    else:
        slot = body.op("not", "bool", side)
    return Num(slot, "bool", "bool")


@rule("inplace")
def inplace(t: Typer, op: str, a: Value, b: Value) -> Value:
    """a OP= b: an array is written, everything else is rebound."""
    if not isinstance(a, Arr):
        if t.is_sequence(a) and not (isinstance(a, Seq) and a.kind == "tuple"):
            if op == "op.add" and t.is_sequence(b):
                RULES["py.list_extend"](t, a, b)  # of the program's own lists
                return a
            raise PlanRefused("this in-place operator on a list", kind="operand")
        return RULES[op](t, a, b)
    if op == "op.matmul" and not (isinstance(b, Arr) and b.ndim >= 2):
        raise PlanRefused("@= with a vector or number", kind="shape-error")
    value = t.apply(op, a, b)
    if not isinstance(value, (Arr, Num)):
        raise PlanRefused("an in-place result that is no array", kind="operand")
    if not np.can_cast(NUMPY_DTYPES[value.dtype], NUMPY_DTYPES[a.dtype], "same_kind"):
        raise PlanRefused("an in-place operator whose result NumPy refuses to cast", kind="ufunc-types")
    if isinstance(value, Arr) and (value.ndim != a.ndim or not all(
            t.facts.ask_equal(x, y) for x, y in zip(value.shape, a.shape, strict=True))):
        raise PlanRefused("an in-place operator that does not broadcast", kind="shape-error")
    t.write_view(a, value)
    if a.origin is not None:
        a.origin = _written_alike(t, a, value)
    return a


def _written_alike(t: Typer, a: Arr, value: Value) -> Selected | None:
    """How `a` comes from under its mask after `value`, which does, was written over all of it."""
    from .rules_select import selected
    origin = selected(t, value)
    if origin is None or a.dtype != value.dtype:  # type: ignore[union-attr]
        return None
    sources = {buffer: writes for buffer, writes in origin.sources if buffer is not a.view.buffer}
    sources[a.view.buffer] = t.serial[a.view.buffer]
    return Selected(origin.dense, origin.mask, tuple(sources.items()), origin.region)
