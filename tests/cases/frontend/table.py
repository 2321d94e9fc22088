"""The list of the programs beside this file, and what their arguments are made of.

`CASES` lists (function, arguments). Arguments are made anew by `arguments()`, so that programs may write into them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

CASES: list[tuple[Callable, tuple]] = []


def case(*args: object) -> Callable[[Callable], Callable]:
    """Register a program with arguments; strings like 'f32[3,4]' stand for arrays."""
    def register(fn: Callable) -> Callable:
        CASES.append((fn, args))
        return fn
    return register


def array(text: str) -> np.ndarray:
    """'f32[3,4]' -> a reproducible array; 'i64', 'bool', 'c128' likewise."""
    kind, _, dims = text.partition("[")
    shape = tuple(int(d) for d in dims.rstrip("]").split(",") if d)
    rng = np.random.default_rng(sum(text.encode()))
    dtype = np.dtype({"f32": "f4", "f64": "f8", "f16": "f2", "i64": "i8", "i32": "i4", "u8": "u1", "i8": "i1",
                      "bool": "?", "c128": "c16"}[kind])
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.kind == "c":
        return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(0, 10, shape).astype(dtype)


def arguments(args: tuple) -> list:
    """Fresh arguments of a case."""
    return [_fresh(a) for a in args]


def _fresh(value: object) -> object:
    if isinstance(value, str) and value.endswith("]"):
        return array(value)
    if callable(value):
        return value()
    if isinstance(value, (tuple, list)):
        return type(value)(_fresh(v) for v in value)
    if isinstance(value, dict):
        return {k: _fresh(v) for k, v in value.items()}
    return value
