"""What is told of a call's arguments: their shapes, and keys by which refused plans are remembered."""

from __future__ import annotations

from typing import Any

import numpy as np


def fingerprint(args: tuple, depth: int = 8, room: list[int] | None = None) -> tuple[object, object]:
    """(key with shapes, key without) of arguments, by which refusals are remembered. Containers may hold themselves."""
    room = [1000] if room is None else room  # items that are looked at
    exact: list[object] = []
    kind: list[object] = []
    for value in args:
        if isinstance(value, np.ndarray):
            flags_ = value.flags
            about = (type(value), value.dtype, value.ndim, flags_.c_contiguous, flags_.writeable, flags_.aligned)
            kind.append(about)
            exact.append((about, value.shape))
        elif isinstance(value, (bool, int, float, str, type(None))):
            kind.append(type(value))
            exact.append((type(value), value))
        elif isinstance(value, (tuple, list)) and len(value) <= min(64, room[0]) and depth:
            room[0] -= len(value)
            inner = fingerprint(tuple(value), depth - 1, room)
            kind.append((type(value), inner[1]))
            exact.append((type(value), inner[0]))
        else:
            kind.append(type(value))
            exact.append(type(value))
    return tuple(exact), tuple(kind)


def shape_of_args(function: Any, args: tuple) -> tuple[tuple[str, int], ...]:
    """(('x.shape[0]', 3), ...) of the array arguments."""
    found: list[tuple[str, int]] = []
    names = function.fn.__code__.co_varnames
    for name, value in zip(names, args, strict=False):
        if isinstance(value, np.ndarray):
            found += [(f"{name}.shape[{axis}]", extent) for axis, extent in enumerate(value.shape)]
    return tuple(found)


def describe_args(args: tuple) -> str:
    """'(32, 784), (784, 10)' of the arrays among the arguments."""
    shapes = [str(value.shape) for value in args if isinstance(value, np.ndarray)]
    return ", ".join(shapes) or "no arrays"
