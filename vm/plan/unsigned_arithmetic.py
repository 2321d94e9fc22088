"""uint64 where its bits and those of int64 mean different things: order, division, shifts, floats; in operations of int64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_TOP, _REST = -(2**63), 2**63 - 1
_SWAPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
ORDER = frozenset(_SWAPPED)


def to_float(body: Any, bits: Any, native: str) -> Any:
    """The number as f32 or f64, rounded once: large ones are halved, what is lost is kept in the last bit."""
    one = body.const(1, "i64")
    half = body.op("or", "i64", _half(body, bits), body.op("and", "i64", bits, one))
    half = body.cast(half, native)
    large = body.op("lt", "i64", bits, body.const(0, "i64"))
    return body.op("select", native, large, body.op("add", native, half, half), body.cast(bits, native))


def from_float(body: Any, x: Any) -> Any:
    """The bits of a float's integer part; those of int64 where it is none of uint64, as C's conversion on this platform."""
    x = body.cast(x, "f64")
    limit = body.const(2.0**63, "f64")
    high = body.op("xor", "i64", body.cast(body.op("sub", "f64", x, limit), "i64"), body.const(_TOP, "i64"))
    return body.op("select", "i64", body.op("ge", "f64", x, limit), high, body.cast(x, "i64"))


def compare(body: Any, op: str, a: Any, b: Any, dtypes: Sequence[str]) -> Any:
    """A comparison of two numbers, one of them uint64 and the other that or int64, by value."""
    if dtypes[0] != "u64":
        a, b, op, dtypes = b, a, _SWAPPED[op], dtypes[::-1]
    plain = body.op(op, "i64", *([a, b] if op in ("eq", "ne") else [_ordered(body, a), _ordered(body, b)]))
    if dtypes[1] == "u64":
        return plain
    zero = body.const(0, "i64")
    if op in ("eq", "lt", "le"):  # never of a negative b
        return body.op("and", "bool", body.op("ge", "i64", b, zero), plain)
    return body.op("or", "bool", body.op("lt", "i64", b, zero), plain)


def binary(body: Any, op: str, a: Any, b: Any, known: int | None = None) -> Any:
    """An operation of two uint64; None: the bits are those of int64. known: the value of b, where it is a constant."""
    if op in ("maximum", "minimum", "fmax", "fmin"):
        return _ordered(body, body.op(op, "i64", _ordered(body, a), _ordered(body, b)))
    if known is not None and known > 0 and known & (known - 1) == 0 and op in ("floordiv", "mod"):
        if op == "mod":
            return body.op("and", "i64", a, body.const(known - 1, "i64"))
        op, known, b = "shr", known.bit_length() - 1, body.const(known.bit_length() - 1, "i64")
    if op == "shr" and known is not None and 0 <= known < 64:
        moved = body.op("shr", "i64", a, b)
        return body.op("and", "i64", moved, body.const((1 << (64 - known)) - 1, "i64")) if known else a
    if op == "shr":
        one, zero = body.const(1, "i64"), body.const(0, "i64")
        moved = body.op("shr", "i64", _half(body, a), body.op("sub", "i64", b, one))
        return body.op("select", "i64", body.op("eq", "i64", b, zero), a, moved)
    if op not in ("floordiv", "mod"):
        return None
    one, zero = body.const(1, "i64"), body.const(0, "i64")
    half = body.op("floordiv", "i64", _half(body, a), b)  # of b >= 2**63 it counts for nothing below
    most = body.op("shl", "i64", half, one)
    if known is None:
        most = body.op("select", "i64", body.op("lt", "i64", b, zero), zero, most)
    rest = body.op("sub", "i64", a, body.op("mul", "i64", most, b))
    more = body.op("ge", "i64", _ordered(body, rest), _ordered(body, b))
    if op == "mod":
        found = body.op("select", "i64", more, body.op("sub", "i64", rest, b), rest)
    else:
        found = body.op("add", "i64", most, body.cast(more, "i64"))
    # NumPy yields 0 of a division by zero
    return found if known else body.op("select", "i64", body.op("eq", "i64", b, zero), zero, found)


def _ordered(body: Any, bits: Any) -> Any:
    """Bits whose order as int64 is that of uint64, and back."""
    return body.op("xor", "i64", bits, body.const(_TOP, "i64"))


def _half(body: Any, bits: Any) -> Any:
    return body.op("and", "i64", body.op("shr", "i64", bits, body.const(1, "i64")), body.const(_REST, "i64"))
