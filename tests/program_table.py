"""The table that the programs register in, and the seeded inputs they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Program:
    """One program. arguments(n, dtype): a fresh argument list of size n.

    kind: 'array' (whole-array expressions), 'slices' (loops over slices), 'triangular', 'data' (data-dependent),
    'call-out'. big: the size that benchmarks take. tape: whether the JIT runs it from end to end, or the interpreter.
    """

    function: Callable[..., Any]
    arguments: Callable[[int, Any], tuple]
    kind: str
    big: int
    tape: bool = True
    dtypes: tuple[Any, ...] = (np.float64, np.float32)

    @property
    def name(self) -> str:
        return self.function.__name__


PROGRAMS: dict[str, Program] = {}


def program(kind: str, arguments: Callable[[int, Any], tuple], *, big: int, tape: bool = True,
            dtypes: tuple[Any, ...] = (np.float64, np.float32)) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function under its name; it stays a plain function."""
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = Program(function, arguments, kind, big, tape, dtypes)
        return function
    return add


def vector(n: int, dtype: Any, seed: int = 0) -> np.ndarray:
    """n seeded values in (0, 1)."""
    return np.random.default_rng(seed).random(n).astype(dtype)


def matrix(rows: int, columns: int, dtype: Any, seed: int = 0) -> np.ndarray:
    """Seeded values in (0, 1), C order."""
    return np.random.default_rng(seed).random((rows, columns)).astype(dtype)


def values(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Seeded values in (0, 1) of any shape."""
    return np.random.default_rng(seed).random(shape).astype(dtype)


def complexes(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Seeded complex values of the width of a float dtype."""
    rng = np.random.default_rng(seed)
    width = np.complex64 if np.dtype(dtype) == np.float32 else np.complex128
    return (rng.random(shape) + 1j * rng.random(shape)).astype(width)


def positive_definite(n: int, dtype: Any, seed: int = 0) -> np.ndarray:
    """A well-conditioned symmetric matrix."""
    m = np.random.default_rng(seed).random((n, n))
    return (m @ m.T / max(n, 1) + 2 * np.eye(n)).astype(dtype)
