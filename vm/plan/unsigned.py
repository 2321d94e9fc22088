"""uint64: held in the bits of int64, where addition, products and bits are the same. Order, division, shifts and conversions
are computed from those (unsigned_arithmetic.py) beside arrays; everything else is called out to.

So are float16 and bfloat16 partly (halves.py): `is_called_out` answers for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from . import halves
from .dtype_words import asked_by_word, asked_dtype, may_be_odd
from .steps import Literal
from .values import Arr, Cplx, Num, Seq, SliceV, Static, Value

_WRAPPING = frozenset((
    *["op.add", "op.sub", "op.mul", "op.and", "op.or", "op.xor", "op.neg", "op.pos", "op.invert", "inplace"],
    *(f"np.{name}" for name in [
        "add", "subtract", "multiply", "bitwise_and", "bitwise_or", "bitwise_xor", "invert", "negative",
        "positive", "equal", "not_equal", "logical_and", "logical_or", "logical_not", "logical_xor", "square"])))
# planned beside all real dtypes where an array is among the operands: the loop that NumPy chooses is computed, from the value
_OPERATORS = "add sub mul truediv floordiv mod lshift rshift"
_UFUNCS = """add subtract multiply divide floor_divide remainder maximum minimum fmax fmin left_shift right_shift equal not_equal
less less_equal greater greater_equal sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan tanh"""
_BY_VALUE = frozenset(("arr.astype", *(f"op.{name}" for name in _OPERATORS.split()), *(f"np.{name}" for name in _UFUNCS.split())))
_COUNTING = frozenset([
    "np.sum", "arr.sum", "np.prod", "arr.prod", "np.any", "arr.any", "np.all", "arr.all", "np.count_nonzero",
    "np.nonzero", "arr.nonzero", "np.flatnonzero"])
# these only move elements
_MOVES = frozenset((
    *(f"np.{name}" for name in [
        "shape", "ndim", "size", "transpose", "permute_dims", "matrix_transpose", "swapaxes", "moveaxis",
        "expand_dims", "squeeze", "broadcast_to", "atleast_1d", "atleast_2d", "flip", "flipud", "fliplr",
        "diagonal", "reshape", "ravel", "copy", "ascontiguousarray", "concatenate", "stack", "vstack", "hstack",
        "column_stack", "dstack", "split", "array_split", "tile", "roll", "where", "extract", "compress", "zeros",
        "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like", "tril", "triu", "append",
        "real", "isrealobj", "iscomplexobj", "array", "asarray", "asanyarray"]),
    *(f"arr.{name}" for name in [
        "transpose", "swapaxes", "squeeze", "diagonal", "reshape", "ravel", "flatten", "copy", "fill"])))
# what astype does not convert from the bits
_NO_CASTS = frozenset((None, np.dtype(np.float16), np.dtype(np.complex64), np.dtype(np.complex128)))
_INDEXED = frozenset([
    "subscript", "store", "np.take", "arr.take", "np.repeat", "arr.repeat"])  # the second operand is no u64
_STRUCTURE = "py.len py.tuple py.list py.zip py.enumerate py.reversed py.isinstance py.bool py.raise py.assert debug."


def is_called_out(name: str, values: Sequence[Value]) -> bool:
    """Whether a kernel that meets uint64 or a float of 16 bits is not planned on it."""
    return halves.is_called_out(name, values) or (not _is_planned(name, values) and (
        any(map(is_unsigned, values)) or asked_by_word(name, values) == np.uint64))


def number_of(value: int) -> Num:
    """A constant of uint64: its bits."""
    return Num(Literal(value - (1 << 64) if value >= 1 << 63 else value, "i64"), "u64")


def wide_numbers(values: Sequence[Value]) -> Sequence[Value]:
    """The operands of a kernel; Python's integers past 62 bits, which only uint64 can hold, as such beside arrays of it."""
    if not any(type(v) is Static and type(v.value) is int for v in values) \
            or not any(isinstance(v, (Arr, Num)) and v.dtype == "u64" for v in values):
        return values
    return [number_of(v.value) if type(v) is Static and type(v.value) is int else v for v in values]


def is_odd(value: Value) -> bool:
    """Whether a value is of such a dtype, or asks for it."""
    if isinstance(value, Static) and isinstance(value.value, str):
        return may_be_odd(value.value)
    return halves.is_half(value) or is_unsigned(value)


def is_unsigned(value: Value) -> bool:
    """Whether a value is of uint64, or asks for it."""
    if isinstance(value, (Arr, Num)):
        return value.dtype == "u64"
    if isinstance(value, Seq):
        return any(map(is_unsigned, value.items))
    if isinstance(value, SliceV):
        return any(map(is_unsigned, (value.start, value.stop, value.step)))
    return isinstance(value, Static) and asked_dtype(value) == np.uint64


def _is_planned(name: str, values: Sequence[Value]) -> bool:
    if name.startswith(tuple(_STRUCTURE.split())):
        return True
    if name == "np.uint64":
        return len(values) == 1 and (isinstance(values[0], Static) or (
            isinstance(values[0], Num) and values[0].dtype in ("u64", "bool", "u8", "u16", "u32", "i8", "i16", "i32", "i64")))
    if name in _INDEXED:
        return not any(map(is_unsigned, values[1:2]))
    if name in _BY_VALUE and any(isinstance(v, Arr) and v.ndim for v in values) and not any(
            isinstance(v, (Cplx, Seq)) for v in values):
        return name != "arr.astype" or not {asked_dtype(values[1], True)} & _NO_CASTS
    asked = [asked_by_word(name, values), *map(asked_dtype, values)]
    if name not in _WRAPPING | _COUNTING | _MOVES or any(dtype is not None and dtype != np.uint64 for dtype in asked):
        return False
    for value in _numbers(values):
        # signed integers and floats meet uint64 in float64: that is no matter of bits
        if isinstance(value, Cplx) or (value.python == "float" if isinstance(value, Num) and value.python
                                       else value.dtype not in ("u64", "bool", "u8", "u16", "u32")):
            return False
    return True


def _numbers(values: Sequence[Value]) -> Iterator[Arr | Num | Cplx]:
    for value in values:
        if isinstance(value, Seq):
            yield from _numbers(value.items)
        elif isinstance(value, (Arr, Num, Cplx)):
            yield value
