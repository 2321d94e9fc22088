"""Signs of zero of maximum, minimum and clip: NumPy's in every order of operands, on the tape and in C.

Of two zeros NumPy's loops yield the second (of float16 the first), `clip` with scalar bounds keeps the clipped one. Of
fmax and fmin the sign differs between the body and the tail of NumPy's own loops: nothing is promised.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from kernel_build import results_in_c
from test_half import equal
from test_typed import compiled

import prebake

_FUNCTIONS = ("np.maximum", "np.minimum")
EXPRESSIONS = (
    *(f"{f}({a}, {b})" for f in _FUNCTIONS for a, b in (
        ("x", "y"), ("y", "x"), ("x", "s"), ("s", "x"), ("x", "0.0"), ("0.0", "x"), ("-0.0", "x"), ("x", "-0.0"), ("x", "0"),
        ("0", "x"), ("s", "s"), ("x[0]", "s"), ("s", "x[0]"), ("x[:, :1]", "y"), ("y[:1]", "x"))),
    "np.maximum(0, x) * 2 + y", "np.minimum(np.maximum(0.0, x), y)", "np.maximum(-0.0, np.minimum(x, 0.0)) * 0.5",
    "np.clip(x, 0, 1)", "np.clip(x, -1.0, -0.0)", "np.clip(x, s, 1)", "np.clip(x, -0.0, 0.0) * 3", "np.clip(x, None, 0)",
    "np.clip(x, 0, None)", "np.clip(x, y, 1)", "np.clip(x, -1, y)", "np.clip(x, y, y + 1)", "x.clip(0, 1)", "np.clip(s, 0, 1)",
)


def values(dtype: type) -> dict[str, Any]:
    """Mostly zeros of either sign; a row is longer than a vector of any level, with a tail."""
    rng = np.random.default_rng(3)
    x, y = (rng.choice(np.array([0.0, -0.0, 1.0, -1.0, np.nan], dtype), (3, 75), p=[0.4, 0.4, 0.08, 0.08, 0.04]) for _ in "xy")
    return {"x": x, "y": y, "s": dtype(-0.0)}


DTYPES = (np.float16, np.float32, np.float64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_on_the_tape(expression: str, dtype: type) -> None:
    fn = compiled(f"return {expression}", ["x", "y", "s"])
    args = list(values(dtype).values())
    jitted = prebake.jit(fn)
    with prebake.engine("jit"):
        got = jitted(*copy.deepcopy(args))
    want = fn(*args)
    assert equal(got, want), f"signs {np.signbit(got)}, expected {np.signbit(want)}"
    assert jitted.stats()["jit"] == 1, jitted.explain(*args).detail


@pytest.mark.parametrize("dtype", DTYPES)
def test_as_c(dtype: type) -> None:
    cases = ((e, compiled(f"return {e}", ["x", "y", "s"]), list(values(dtype).values())) for e in EXPRESSIONS)
    for expression, got, want in results_in_c(cases):
        assert equal(got, want), f"{expression}: signs {np.signbit(got)}, expected {np.signbit(want)}"
