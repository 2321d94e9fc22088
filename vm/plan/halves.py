"""float16 and bfloat16: computed in float32 and rounded after each operation, as NumPy's and ml_dtypes' loops do it.

Memory rounds: what an operation makes is stored in 16 bits before the next one reads it, and nests do not merge across
such a store. So only kernels that are one operation, or that move elements, are planned on them; what accumulates
(sums, products, statistics) is called out to, since NumPy rounds in ways of its own there. Promotions are asked of NumPy,
where ml_dtypes has registered its own: a Python float makes float32 of bfloat16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .body import for_memory
from .dtype_words import asked_by_word, asked_dtype
from .signature import DTYPE_NAMES, NUMPY_DTYPES
from .steps import Literal, StoreStep
from .values import HALVES, Arr, Num, Seq, Static, Value

_OPERATORS = """op.add op.sub op.mul op.truediv op.floordiv op.mod op.pow op.neg op.pos op.not op.invert compare inplace
subscript store"""
_UFUNCS = """add subtract multiply divide floor_divide remainder fmod power negative positive absolute fabs sign square sqrt
cbrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh
arctan2 hypot floor ceil trunc rint copysign logaddexp maximum minimum fmax fmin equal not_equal less less_equal greater
greater_equal logical_not logical_and logical_or logical_xor isnan isinf isfinite signbit conjugate"""
_MOVES = """shape ndim size transpose permute_dims matrix_transpose swapaxes moveaxis expand_dims squeeze broadcast_to
atleast_1d atleast_2d flip flipud fliplr diagonal reshape ravel copy ascontiguousarray array asarray asanyarray concatenate
stack vstack hstack column_stack dstack split array_split repeat tile roll take where extract compress nonzero flatnonzero
zeros ones empty full zeros_like ones_like empty_like full_like tril triu diag rot90 append select copyto clip round around
max min amax amin argmax argmin any all count_nonzero iscomplexobj isrealobj real"""
_METHODS = """transpose swapaxes squeeze diagonal reshape ravel flatten copy take astype clip round max min argmax argmin any
all nonzero fill conj conjugate item"""
SAFE = frozenset((
    *_OPERATORS.split(), *(f"np.{name}" for name in f"{_UFUNCS} {_MOVES}".split()),
    *(f"arr.{name}" for name in _METHODS.split())))


# what ml_dtypes does otherwise: the sign of a zero stays, digits are rounded to in other types
_OTHERWISE = frozenset(("np.sign", "np.around", "np.round", "arr.round"))


def is_called_out(name: str, values: Sequence[Value]) -> bool:
    """Whether a kernel that meets float16 or bfloat16 is not planned on it."""
    if (name in SAFE and name not in _OTHERWISE) or name.startswith(("py.", "debug.")):
        return False
    met = {half_of(value) for value in values} | {_name(asked_by_word(name, values))}
    return "bf16" in met or (name not in SAFE and "f16" in met)


def is_half(value: Value) -> bool:
    """Whether a value is of such a dtype, or asks for it."""
    return half_of(value) != ""


def half_of(value: Value) -> str:
    """The float dtype of 16 bits that a value has or asks for, or ''; of several bfloat16."""
    if isinstance(value, (Arr, Num)):
        return value.dtype if value.dtype in HALVES else ""
    if isinstance(value, Seq):
        return min(filter(None, map(half_of, value.items)), default="")
    return _name(asked_dtype(value)) if isinstance(value, Static) else ""


def _name(dtype: np.dtype | None) -> str:
    name = "" if dtype is None else DTYPE_NAMES.get(dtype, "")
    return name if name in HALVES else ""


def as_half(t: Any, value: Num, dtype: str) -> Num:
    """A number as the float of 16 bits that NumPy makes of it."""
    if value.is_constant:
        return _constant(value.constant, dtype)
    body = t.scalar_body()
    return rounded(t, body, t.scalar_slot(body, value), dtype)


def rounded(t: Any, body: Any, slot: Any, dtype: str) -> Num:
    """A slot on registers as a float of 16 bits: through memory, which rounds."""
    if isinstance(slot, Literal):
        return _constant(slot.value, dtype)
    out = t.new_temp((), dtype)
    t.emit(StoreStep(out.view, for_memory(body, slot, dtype)))
    return t.load(out)


def _constant(number: Any, dtype: str) -> Num:
    with np.errstate(all="ignore"):
        return Num(Literal(float(NUMPY_DTYPES[dtype].type(number)), "f32"), dtype)
