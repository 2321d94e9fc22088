"""Every operation of the random programs on complex operands, whose values random programs do not draw yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import generator_expressions as g
import numpy as np
import pytest
from generator_table import _spelled
from oracles import Outcome, forget, load, run

import prebake

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> np.ndarray:
    return RNG.integers(-8, 9, shape) / 4


def complexes(*shape: int, dtype: Any = np.complex128) -> np.ndarray:
    return (drawn(*shape) + 1j * drawn(*shape)).astype(dtype)


OPERANDS: dict[str, Any] = {
    "vector": complexes(5), "matrix": complexes(3, 3), "complex64": complexes(5, dtype=np.complex64),
    "fortran": np.asfortranarray(complexes(3, 3)), "reversed": complexes(4, 3)[::-1, ::-1], "nothing": np.zeros(0, complex),
    "NumPy's": np.complex128(1.5 - 2j), "Python's": 2 - 1j, "no axes": np.array(1 + 1j),
}
REAL: dict[str, Any] = {
    "float64": drawn(5), "int64": RNG.integers(1, 4, 5), "float32": drawn(5).astype(np.float32) + 3, "float": 0.5, "int": 3,
    "real matrix": drawn(3, 3) + 3, "bool": np.array([True, True, True, True, True]),
}


def operations() -> Iterator[tuple[str, list[list[Any]]]]:
    """(source, argument lists) in a fixed order."""
    for rows in (g.UNARY, g.REDUCE, g.MOVE, g.SCALAR, g.SCALAR_UNARY):
        for _, template, _ in rows:
            for text in _spelled(template):
                yield f"import numpy as np\n\ndef f(x):\n    return {text.format('x')}\n", [[v] for v in OPERANDS.values()]
    for rows in (g.BINARY, g.COMPARE, g.PRODUCT, g.JOIN, g.SCALAR_BINARY):
        for _, template, _ in rows:
            pairs = [[v, w] for v in OPERANDS.values() for w in (*OPERANDS.values(), *REAL.values())]
            pairs += [[w, v] for v in OPERANDS.values() for w in REAL.values()]
            yield f"import numpy as np\n\ndef f(x, y):\n    return {template.format('x', 'y')}\n", pairs


def difference(got: Outcome, want: Outcome) -> str:
    if got.error or want.error:
        alike = got.error and want.error and (issubclass(got.error, want.error) or issubclass(want.error, got.error))
        return "" if alike else f"raised {got.error}, expected {want.error}: {got.message or want.message}"
    if type(got.value) is not type(want.value):
        return f"type {type(got.value).__name__}, expected {type(want.value).__name__}"
    a, b = np.asarray(got.value), np.asarray(want.value)
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype} {a.shape}, expected {b.dtype} {b.shape}"
    if b.dtype.kind not in "fc":
        return "" if np.array_equal(a, b) else f"{a}, expected {b}"
    tolerance = 1e-4 if b.dtype in (np.complex64, np.float32) else 1e-9
    where = np.isfinite(b)  # of infinities and NaN each part has rules of its own
    scale = max(float(np.abs(b[where]).max(initial=0.0)), 1.0)
    fine = np.allclose(a[where], b[where], rtol=tolerance, atol=tolerance * scale) and not np.isfinite(a[~where]).any()
    return "" if fine else f"{a}, expected {b}"


def check(source: str, arguments: list[list[Any]]) -> None:
    original = load(source)
    try:
        for args in arguments:
            want = run(original, args)
            for engine in ("interpreter", "jit"):
                function = prebake.jit(original)
                with prebake.engine(engine):
                    got = run(function, args)
                if got.error is None or not issubclass(got.error, prebake.UnsupportedError):
                    assert difference(got, want) == "", (engine, source, args)
    finally:
        forget(original)


@pytest.mark.filterwarnings("ignore")
def test_some_complex_operations() -> None:
    """Every tenth operation."""
    for source, arguments in list(operations())[3::10]:
        check(source, arguments)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_complex_operations() -> None:
    for source, arguments in operations():
        check(source, arguments)
