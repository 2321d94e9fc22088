"""Questions about dtypes: what they are called, their limits, what two of them become. All is known while planning."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...templates.registry import BY_NAME, resolve
from .planner_errors import PlanRefused
from .signature import DTYPE_NAMES, NUMPY_DTYPES
from .steps import Literal
from .typed import NONE, Typer, rule
from .values import Arr, Cplx, Num, Seq, Static, Value, python_int

_TEXTS = frozenset(("kind", "char", "name", "str", "byteorder"))
_NUMBERS = frozenset(("itemsize", "num", "alignment", "isnative", "hasobject"))
_PYTHON = {"int": 0, "float": 0.0, "bool": False}


def attribute_of_dtype(t: Typer, dtype: np.dtype[Any], name: str) -> Value:
    """`x.dtype.kind` and the like."""
    if name == "type":
        raise PlanRefused("the class of a dtype as a value", kind="operand")
    if name in _TEXTS:
        return Static(getattr(dtype, name))
    if name in _NUMBERS:
        return t.constant(getattr(dtype, name))
    raise PlanRefused(f"attribute {name!r} of a dtype is not planned", kind="attribute")


def _limits(kernel: str) -> None:
    def limits(t: Typer, dtype: Value, name: Value) -> Value:
        """`np.finfo(x.dtype).eps`."""
        if not isinstance(dtype, Static) or not isinstance(name, Static) or not isinstance(dtype.value, (np.dtype, type)):
            raise PlanRefused("limits of a dtype that is not known while planning", kind="operand")
        try:
            found = resolve(BY_NAME[kernel].id)(dtype.value, name.value)
        except (AttributeError, ValueError, TypeError) as error:
            raise PlanRefused(f"{kernel}: {error}", kind="python-error") from None
        if isinstance(found, np.float64):  # which Python takes for a float of its own
            return Num(Literal(found.item(), "f64"), "f64")
        return t.constant(found)
    rule(kernel)(limits)


_limits("np.finfo")
_limits("np.iinfo")


def _operand(value: Value) -> Any:
    """What NumPy's promotion may be asked with in place of an operand."""
    if isinstance(value, (Arr, Cplx)) or (isinstance(value, Num) and not value.python):
        return NUMPY_DTYPES[value.dtype]
    if isinstance(value, Num) and not value.maybe:
        return _PYTHON[value.python]
    if isinstance(value, Static) and isinstance(value.value, (np.dtype, type)):
        return value.value
    raise PlanRefused("a dtype that is not known while planning", kind="operand")


@rule("np.result_type")
def result_type(t: Typer, operands: Value) -> Value:
    return _found(np.result_type(*map(_operand, t.children(operands))))


@rule("np.promote_types")
def promote_types(t: Typer, first: Value, second: Value) -> Value:
    return _found(np.promote_types(_operand(first), _operand(second)))


def _found(dtype: np.dtype[Any]) -> Value:
    if dtype not in DTYPE_NAMES:
        raise PlanRefused(f"dtype {dtype} is not planned", kind="dtype")
    return Static(dtype)


@rule("np.can_cast")
def can_cast(t: Typer, from_: Value, to: Value, casting: Value = NONE) -> Value:
    how: Any = casting.value if isinstance(casting, Static) and isinstance(casting.value, str) else "safe"
    if isinstance(from_, Num) and from_.python:
        raise PlanRefused("np.can_cast of a number of Python", kind="operand")
    return t.constant(bool(np.can_cast(_operand(from_), _operand(to), how)))


@rule("np.issubdtype")
def is_subdtype(t: Typer, dtype: Value, name: Value) -> Value:
    if not isinstance(dtype, Static) or not isinstance(name, Static):
        raise PlanRefused("a dtype that is not known while planning", kind="operand")
    return t.constant(resolve(BY_NAME["np.issubdtype"].id)(dtype.value, name.value))


@rule("np.broadcast_shapes")
def broadcast_shapes(t: Typer, shapes: Value) -> Value:
    given = [[t.int_expr(e) for e in t.children(s)] if t.is_sequence(s) else [t.int_expr(s)] for s in t.children(shapes)]
    if any(t.facts.is_less_equal(0, e) is not True for shape in given for e in shape):
        raise PlanRefused("a shape of what may be negative", kind="operand")
    return Seq([python_int(t.facts.norm(e)) for e in t.broadcast(*map(tuple, given))], "tuple")
