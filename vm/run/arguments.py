"""What is told of a call's arguments: their shapes."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Shape: TypeAlias = "tuple[tuple[str, int], ...]"  # (symbol, extent), ...


def shape_of_args(function: Any, args: tuple) -> Shape:
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
