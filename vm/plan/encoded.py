"""Constants as JSON-able values and back (results of plans, keys of dictionaries); imports nothing of the planner."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import dtype_from_name, dtype_text


def encode_value(value: object) -> object:
    """A JSON-able form of a constant: None, bool, int and str as they are, anything else as [tag, ...].

    Raises TypeError for values that are no constants.
    """
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return ["f", value.hex()]  # type: ignore[attr-defined]
    if kind is complex:
        return ["c", value.real.hex(), value.imag.hex()]  # type: ignore[attr-defined]
    if kind in (tuple, list):
        return ["t" if kind is tuple else "l", *map(encode_value, value)]  # type: ignore[call-overload]
    if kind is bytes:
        return ["b", value.hex()]  # type: ignore[attr-defined]
    if kind is slice:
        return ["s", *map(encode_value, (value.start, value.stop, value.step))]  # type: ignore[attr-defined]
    if value is Ellipsis:
        return ["e"]
    if isinstance(value, np.dtype):
        return ["d", dtype_text(value)]
    if isinstance(value, np.generic) and (value.dtype.kind in "biufc" or value.dtype.name == "bfloat16"):
        return ["n", dtype_text(value.dtype), value.tobytes().hex()]
    raise TypeError(f"{kind.__name__} is no constant")


def decode_value(data: Any) -> object:
    """The value that `encode_value` wrote. Raises ValueError on anything else."""
    if not isinstance(data, list):
        if data is None or isinstance(data, (bool, int, str)):
            return data
        raise ValueError(f"no encoded value: {data!r}")
    try:
        tag, *rest = data
        if tag == "f":
            return float.fromhex(rest[0])
        if tag == "c":
            return complex(float.fromhex(rest[0]), float.fromhex(rest[1]))
        if tag == "t":
            return tuple(map(decode_value, rest))
        if tag == "l":
            return list(map(decode_value, rest))
        if tag == "b":
            return bytes.fromhex(rest[0])
        if tag == "s":
            return slice(*map(decode_value, rest))
        if tag == "e":
            return Ellipsis
        if tag == "d":
            return dtype_from_name(rest[0])
        if tag == "n":
            return np.frombuffer(bytes.fromhex(rest[1]), dtype=dtype_from_name(rest[0]))[0]
    except (TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"no encoded value: {data!r}") from error
    raise ValueError(f"unknown value tag {data[0]!r}")
