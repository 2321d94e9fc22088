"""C text of values: literals, conversions between memory and native dtypes, steps of reductions."""

from __future__ import annotations

import math
import struct

from ..templates.tapecode import NATIVE_OF

C_TYPES = {"bool": "pb_bool", "i32": "int32_t", "i64": "int64_t", "f32": "float", "f64": "double", "ptr": "char *"}


def literal(value: int | float, dtype: str) -> str:
    """A C constant expression of exactly this value."""
    if dtype in ("f32", "f64"):
        number = float(value)
        if dtype == "f32" and math.isfinite(number):
            number = _as_f32(number)
        suffix = "f" if dtype == "f32" else ""
        if math.isnan(number):
            return f'__builtin_nan{suffix}("")'
        if math.isinf(number):
            return f"{'-' if number < 0 else ''}__builtin_inf{suffix}()"
        text = f"{number.hex()}{suffix}"
        return f"({text})" if text.startswith("-") else text
    number = int(value)
    if number == -(2**63):
        return "INT64_MIN"
    text = f"{number}LL" if abs(number) >= 2**31 else str(number)
    return f"({text})" if number < 0 else text


def _as_f32(number: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def cast(frm: str, to: str, value: str) -> str:
    """C text of a conversion between native dtypes, as NumPy's astype."""
    return value if frm == to else f"pb_cast_{frm}_{to}({value})"


def load(memory: str, native: str, element: str) -> str:
    """C text of a memory element in a native dtype."""
    wide = NATIVE_OF[memory]
    return cast(wide, native, element if wide == memory and memory != "bool" else f"pb_widen_{memory}({element})")


def store(native: str, memory: str, value: str) -> str:
    """C text of a native value as a memory element."""
    if memory == "f16" and native == "f64":  # rounded once
        return f"pb_narrow_f16_f64({value})"
    wide = NATIVE_OF[memory]
    value = cast(native, wide, value)
    return value if wide == memory else f"pb_narrow_{memory}({value})"


def combine(reduce: str, dtype: str, a: str, b: str) -> str:
    """C text of one step of a reduction."""
    name = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "or", "all": "and"}[reduce]
    return f"pb_{name}_{dtype}({a}, {b})"


def identity(reduce: str, dtype: str) -> str:
    """C text of the value of an empty reduction."""
    if reduce in ("sum", "any"):
        return "0"
    if reduce in ("prod", "all"):
        return "1"
    low = {"bool": "0", "i32": "INT32_MIN", "i64": "INT64_MIN", "f32": "-__builtin_inff()", "f64": "-__builtin_inf()"}
    high = {"bool": "1", "i32": "INT32_MAX", "i64": "INT64_MAX", "f32": "__builtin_inff()", "f64": "__builtin_inf()"}
    return (low if reduce == "max" else high)[dtype]
