"""float16: computed in float32 and rounded after each operation, as NumPy's loops do it.

Memory rounds: what an operation makes is stored as float16 before the next one reads it, and nests do not merge across
such a store. So only kernels that are one operation, or that move elements, are planned on float16; what accumulates
(sums, products, statistics) is called out to, since NumPy rounds in ways of its own there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .body import for_memory
from .dtype_words import asked_by_word, asked_dtype
from .steps import Literal, StoreStep
from .values import Arr, Num, Seq, Static, Value

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


def is_called_out(name: str, values: Sequence[Value]) -> bool:
    """Whether a kernel that meets float16 is not planned on it."""
    return name not in SAFE and not name.startswith(("py.", "debug.")) and (
        any(map(is_half, values)) or asked_by_word(name, values) == np.float16)


def is_half(value: Value) -> bool:
    """Whether a value is of float16, or asks for it."""
    if isinstance(value, (Arr, Num)):
        return value.dtype == "f16"
    if isinstance(value, Seq):
        return any(map(is_half, value.items))
    return isinstance(value, Static) and asked_dtype(value) == np.float16


def as_half(t: Any, value: Num) -> Num:
    """A number as the float16 that NumPy makes of it."""
    if value.is_constant:
        with np.errstate(all="ignore"):
            return Num(Literal(float(np.float16(value.constant)), "f32"), "f16")
    body = t.scalar_body()
    return rounded(t, body, t.scalar_slot(body, value))


def rounded(t: Any, body: Any, slot: Any) -> Num:
    """A slot on registers as a float16: through memory, which rounds."""
    if isinstance(slot, Literal):
        with np.errstate(all="ignore"):
            return Num(Literal(float(np.float16(slot.value)), "f32"), "f16")
    out = t.new_temp((), "f16")
    t.emit(StoreStep(out.view, for_memory(body, slot, "f16")))
    return t.load(out)  # type: ignore[no-any-return]
