"""What ufuncs make that are called out to: those of dtypes that plans do not compute with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .callout_rules import Like, like, made, option, without
from .callouts import Itself, Made, Question, calls
from .planner_errors import PlanRefused
from .signature import DTYPE_NAMES, NUMPY_DTYPES
from .values import Arr

_OPERATORS = {"op.add": "add", "op.sub": "subtract", "op.mul": "multiply", "op.truediv": "divide", "op.mod": "remainder",
              "op.floordiv": "floor_divide", "op.pow": "power", "op.lshift": "left_shift", "op.rshift": "right_shift",
              "op.and": "bitwise_and", "op.or": "bitwise_or", "op.xor": "bitwise_xor"}
_UNARY = """
negative positive absolute fabs sign square sqrt cbrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan
arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh floor ceil trunc rint invert logical_not isnan isinf
isfinite"""
_BINARY = """
add subtract multiply divide floor_divide remainder fmod power maximum minimum fmax fmin arctan2 hypot copysign
logaddexp equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor bitwise_and
bitwise_or bitwise_xor left_shift right_shift"""
_WEAK = {"i64": int, "f64": float, "c128": complex}


def _loop(q: Question, ufunc: str, operands: list[Like]) -> str:
    """The result's dtype by NumPy's own choice of a loop."""
    if all(x.weak for x in operands):
        raise q.refuse("of Python's numbers")
    function = getattr(np, ufunc)
    given = [np.dtype(bool) if x.weak and x.dtype == "bool" else _WEAK[x.dtype] if x.weak else NUMPY_DTYPES[x.dtype]
             for x in operands]
    try:
        found = DTYPE_NAMES.get(function.resolve_dtypes((*given, None))[-1])
    except TypeError as error:
        raise PlanRefused(f"np.{ufunc}: {error}", kind="ufunc-types") from None
    if found is None:
        raise q.refuse("of such dtypes")
    return found


def _rule(ufunc: str, *parameters: str) -> Callable[[Question], Made]:
    def rule(q: Question) -> Made:
        without(q, "out dtype")
        if "where" in q.values and option(q, "where") is not True:
            raise q.refuse("with where=")
        operands = [like(q, name) for name in parameters]
        if q.name == "op.pow" and operands[0].dtype == "bool":
            raise q.refuse("of booleans")  # the operator has a mind of its own there
        return made(_loop(q, ufunc, operands), q.t.broadcast(*[x.shape for x in operands]))
    return rule


for _name in _UNARY.split():
    calls(f"np.{_name}")(_rule(_name, "x"))
for _name in _BINARY.split():
    calls(f"np.{_name}")(_rule(_name, "x1", "x2"))
for _operator, _name in _OPERATORS.items():
    calls(_operator)(_rule(_name, "a", "b"))


@calls("arr.astype")
def _astype(q: Question) -> Made:
    found = DTYPE_NAMES.get(np.dtype(option(q, "dtype")))
    if found is None or option(q, "order") != "K" or option(q, "casting") != "unsafe" or option(q, "copy") is not True:
        raise q.refuse("with such options")
    x = like(q, "a")
    return made(found, x.shape) if x.is_scalar else Made(found, x.shape)


calls("py.abs")(_rule("absolute", "x"))


@calls("py.float")
def _float(q: Question) -> Made:
    if like(q, "x").ndim:
        raise q.refuse("of an array")
    return Made("f64", None, "float")


@calls("np.uint64")
def _uint64(q: Question) -> Made | Itself:
    if isinstance(q["x"], Arr) and q["x"].dtype == "u64" and q["x"].ndim:
        return Itself("x")
    return made("u64", like(q, "x").shape)
