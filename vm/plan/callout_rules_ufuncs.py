"""What ufuncs make that are called out to: those of dtypes that plans do not compute with."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from ...templates.registry import KERNELS
from .callout_rules import Like, axis_in, like, made, option, reduced, without
from .callout_rules_sets import written
from .callouts import Itself, Made, Question, calls
from .planner_errors import PlanRefused
from .signature import DTYPE_NAMES, NUMPY_DTYPES
from .values import Arr, Range, SliceV

_OPERATORS = {"op.add": "add", "op.sub": "subtract", "op.mul": "multiply", "op.truediv": "divide", "op.mod": "remainder",
              "op.floordiv": "floor_divide", "op.pow": "power", "op.lshift": "left_shift", "op.rshift": "right_shift",
              "op.and": "bitwise_and", "op.or": "bitwise_or", "op.xor": "bitwise_xor"}
_UNARY = """
negative positive absolute fabs sign square sqrt cbrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan
arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh floor ceil trunc rint invert logical_not isnan isinf
isfinite"""
_BINARY = """
add subtract multiply divide floor_divide remainder fmod power maximum minimum fmax fmin arctan2 hypot copysign
logaddexp logaddexp2 nextafter gcd lcm ldexp heaviside float_power
equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor bitwise_and
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


# --- methods of ufuncs --------------------------------------------------------------------------------------------------

@cache
def _method_dtype(ufunc: str, method: str, dtype: str) -> str | None:
    """The dtype that a method makes of two elements: asked of NumPy, which has types of its own for each reduction."""
    x = np.ones(2, NUMPY_DTYPES[dtype])
    try:
        with np.errstate(all="ignore"):
            found = getattr(np, ufunc).reduce(x) if method == "reduce" else getattr(np, ufunc).accumulate(x)
    except (TypeError, ValueError):
        return None
    return DTYPE_NAMES.get(found.dtype)


def _method_rule(ufunc: str, method: str) -> Callable[[Question], Made]:
    def rule(q: Question) -> Made:
        without(q, "out dtype initial" if method == "reduce" else "out dtype")
        x = like(q, "array")
        if "where" in q.values and option(q, "where") is not True:
            raise q.refuse("with where=")
        dtype = _method_dtype(ufunc, "accumulate" if method == "reduceat" else method, x.dtype)
        if not x.ndim or dtype is None:
            raise q.refuse("of such an operand")
        if method == "reduce":
            return reduced(q, dtype, x.shape)
        axis = axis_in(q, option(q, "axis"), x.ndim)
        if method == "accumulate":
            return Made(dtype, x.shape)
        places = like(q, "indices")
        if places.ndim != 1:
            raise q.refuse("at such places")
        return Made(dtype, tuple(places.shape[0] if i == axis else n for i, n in enumerate(x.shape)))
    return rule


def _outer_rule(ufunc: str) -> Callable[[Question], Made]:
    def rule(q: Question) -> Made:
        without(q, "out dtype")
        if option(q, "where") is not True:
            raise q.refuse("with where=")
        a, b = (like(q, name)._replace(weak=False) for name in "AB")  # numbers become arrays first
        return made(_loop(q, ufunc, [a, b]), (*a.shape, *b.shape))
    return rule


def _at_rule(q: Question) -> Made:
    if isinstance(q["indices"], (SliceV, Range)):
        raise q.refuse("at such places")
    return written(q, "a")


for _kernel in KERNELS:
    _name, _, _method = _kernel.name.removeprefix("np.").partition(".")
    if _kernel.id >= 0x9000 and _method in ("reduce", "accumulate", "reduceat"):
        if _name == "ldexp":
            continue  # has none: its operands' types differ
        calls(_kernel.name)(_method_rule(_name, _method))
    elif _kernel.id >= 0x9000:
        calls(_kernel.name)(_outer_rule(_name) if _method == "outer" else _at_rule)
