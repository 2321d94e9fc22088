"""Whole NumPy programs, unchanged, on the interpreter and the JIT: value, dtype, shape, effect on arguments."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from programs import PROGRAMS, Program

import prebake

SIZES = {"lenet": (28, 20), "stockham_fft": (16, 64), "adi": (7, 12), "nbody": (5, 12)}
TOLERANCE = {np.dtype(np.float64): 1e-9, np.dtype(np.complex128): 1e-9, np.dtype(np.float32): 2e-3}


def sizes(program: Program) -> tuple[int, int]:
    """Two small sizes, one of them odd."""
    return SIZES.get(program.name, (9, 12))


def close(got: Any, want: Any, dtype: Any) -> bool:
    """Equal in type, dtype and shape, and in value within the width that the program computes in."""
    if isinstance(want, (tuple, list)):
        return type(got) is type(want) and len(got) == len(want) and all(
            close(g, w, dtype) for g, w in zip(got, want, strict=True))
    if not isinstance(want, (np.ndarray, np.generic)):
        return type(got) is type(want) and (got == want or np.isclose(got, want, rtol=TOLERANCE[np.dtype(dtype)]))
    if type(got) is not type(want) or got.dtype != want.dtype or got.shape != want.shape:
        return False
    if want.dtype.kind not in "fc":
        return np.array_equal(got, want)
    tolerance = TOLERANCE[np.dtype(dtype)]
    finite = np.abs(want[np.isfinite(want)])
    scale = float(finite.max()) if finite.size else 0.0
    return np.allclose(got, want, rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def check(program: Program, args: tuple, engine: str, dtype: Any) -> dict[str, Any]:
    """Run a program and NumPy on copies of the arguments; returns the function's statistics."""
    want_args, got_args = copied(args), copied(args)
    with np.errstate(all="ignore"):
        want = program.function(*want_args)
        function = prebake.jit(program.function)
        with prebake.engine(engine):
            got = function(*got_args)
    assert close(got, want, dtype)
    for number, (g, w) in enumerate(zip(got_args, want_args, strict=True)):
        assert close(g, w, dtype), f"argument {number} differs"
    return function.stats()


def copied(args: tuple) -> tuple:
    """The arguments in fresh memory, with their strides."""
    return tuple(like(value, value.copy()) if isinstance(value, np.ndarray) else copy.deepcopy(value) for value in args)


def like(model: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The values in memory laid out as `model` is (negative strides and gaps included)."""
    if model.flags.c_contiguous:
        return values
    span = model
    while isinstance(span.base, np.ndarray):
        span = span.base
    memory = np.zeros(span.size, span.dtype)
    offset = model.__array_interface__["data"][0] - span.__array_interface__["data"][0]
    out = np.ndarray(model.shape, model.dtype, memory, offset, model.strides)
    out[...] = values
    return out


def strided(value: Any) -> Any:
    """Every second element of a longer array."""
    if not isinstance(value, np.ndarray) or not value.ndim:
        return value
    wide = np.zeros((value.shape[0] * 2, *value.shape[1:]), value.dtype)
    wide[::2] = value
    return wide[::2]


def reversed_(value: Any) -> Any:
    """A view that runs backwards over the values laid down in reverse."""
    return value[::-1].copy()[::-1] if isinstance(value, np.ndarray) and value.ndim else value


def fortran(value: Any) -> Any:
    """Fortran order."""
    return np.asfortranarray(value) if isinstance(value, np.ndarray) else value


LAYOUTS: dict[str, Callable[[Any], Any]] = {"strided": strided, "reversed": reversed_, "fortran": fortran}


@pytest.mark.parametrize("engine", ["interpreter", "jit"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_matches_numpy(name, engine):
    program = PROGRAMS[name]
    for dtype in program.dtypes:
        for size in sizes(program):
            stats = check(program, program.arguments(size, dtype), engine, dtype)
            if engine == "jit":
                assert stats["jit"] == program.tape, f"on the tape: {bool(stats['jit'])}, expected {program.tape}"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", [name for name, program in PROGRAMS.items() if program.tape])
def test_layouts(name, layout):
    program = PROGRAMS[name]
    args = tuple(map(LAYOUTS[layout], program.arguments(sizes(program)[0], program.dtypes[0])))
    stats = check(program, args, "jit", program.dtypes[0])
    assert stats["jit"] == 1


@pytest.mark.parametrize("name", [name for name, program in PROGRAMS.items() if program.tape])
def test_one_plan_serves_sizes(name):
    """A second size of the same kind runs on the tape too, and gives that size's answer."""
    program = PROGRAMS[name]
    function = prebake.jit(program.function)
    dtype = program.dtypes[0]
    with np.errstate(all="ignore"), prebake.engine("jit"):
        for size in sizes(program):
            want_args, got_args = program.arguments(size, dtype), program.arguments(size, dtype)
            want = program.function(*want_args)
            assert close(function(*got_args), want, dtype)
            assert all(close(g, w, dtype) for g, w in zip(got_args, want_args, strict=True))
    assert function.stats()["jit"] == 2
