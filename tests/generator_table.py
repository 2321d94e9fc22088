"""Programs of one operation: every production of the random programs, on every kind of operand that may meet it.

Random programs drop what raises; here errors count too. Scalars of NumPy and of Python, arrays with no axes, extents of
0 and 1, every layout: whatever an operation does with them is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import generator_expressions as g
import numpy as np

_PAIRED = ("f64", "i32", "float", "int", "array0", "float16", "float32", "float64", "int8", "int64", "uint64", "bool",
           "none", "one", "matrix", "integers", "row", "column", "no_rows", "cube", "nothing")
_INDEXES = ("i32", "int", "int0", "int64", "none", "integers", "nothing", "bools", "one")


def operands() -> dict[str, Any]:
    """Operands by name."""
    rng = np.random.default_rng(0)

    def drawn(*shape: int, dtype: str = "float64") -> np.ndarray:
        return (rng.integers(-8, 9, shape) / (4 if dtype[0] == "f" else 1)).astype(dtype)

    named: dict[str, Any] = {
        "f64": np.float64(2.5), "f32": np.float32(-0.0), "i32": np.int32(3), "bools": np.bool_(True), "float": 0.5, "int": 3,
        "truth": True, "array0": np.array(1.5), "int0": np.array(2),
    }
    for dtype in ("float32", "float64", "int8", "int64", "uint8", "bool", "int16", "float16", "uint64"):
        named[dtype] = drawn(5, dtype=dtype)
    named |= {
        "none": np.zeros(0), "one": np.ones(1, np.float32), "matrix": drawn(3, 3), "fortran": np.asfortranarray(drawn(3, 3)),
        "reversed": drawn(4, 3, dtype="float32")[::-1, ::-1], "row": np.ones((1, 4), np.float32), "column": np.ones((4, 1)),
        "no_rows": np.zeros((0, 3), np.float32), "no_columns": np.zeros((3, 0)), "nothing": np.zeros((0, 0), np.int64),
        "integers": drawn(2, 3, dtype="int32"), "masks": drawn(3, 2, dtype="bool"), "cube": drawn(2, 3, 4),
        "ones": np.ones((1, 3, 1), np.float32), "broadcast": np.broadcast_to(np.float64(1.5), (3, 3)),
    }
    return named


def _spelled(template: str) -> Iterator[str]:
    """The template with every axis and flag it may name."""
    for axis in ("0", "-1", "None", "1") if "{a}" in template else ("",):
        for keep in ("", ", keepdims=True") if "{k}" in template else ("",):
            for two in ("(0, 1)", "(-1, 0)") if "{t}" in template else ("",):
                yield template.replace("{a}", axis).replace("{k}", keep).replace("{t}", two)


def table_programs() -> Iterator[tuple[str, int, list[list[Any]]]]:
    """(source, grade, argument lists) of every operation, in a fixed order."""
    known = operands()
    seen: set[str] = set()
    for rows in (g.UNARY, g.UNARY_INT, g.REDUCE, g.MOVE, g.SCALAR, g.SCALAR_UNARY):
        for _, template, grade in rows:
            for text in _spelled(template):
                if text not in seen:
                    seen.add(text)
                    source = f"import numpy as np\n\ndef f(x):\n    return {text.format('x')}\n"
                    yield source, grade, [[value] for value in known.values()]
    for rows in (g.BINARY, g.BINARY_INT, g.COMPARE, g.LOGIC, g.PRODUCT, g.JOIN, g.GATHER, g.SCALAR_BINARY):
        second = _INDEXES if rows is g.GATHER else _PAIRED
        for _, template, grade in rows:
            if template not in seen:
                seen.add(template)
                source = f"import numpy as np\n\ndef f(x, y):\n    return {template.format('x', 'y')}\n"
                yield source, grade, [[known[a], known[b]] for a in _PAIRED for b in second]
