"""uint64 by value, on every pair of telling numbers: no call of NumPy on the tape and in C, every bit NumPy's."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
import pytest
from kernel_build import results_in_c
from test_typed import compiled

import prebake
from prebake.vm.plan.reading import LiveReader
from prebake.vm.plan.steps import CallStep
from prebake.vm.plan.typed import type_program

_NUMBERS = [0, 1, 2, 3, 7, 63, 64, 65, 2**31, 2**32 + 1, 2**53 + 1, 2**62, 2**63 - 513, 2**63 - 1, 2**63, 2**63 + 1, 2**63 + 1025,
            2**63 + 2**62 + 5, 2**64 - 2048, 2**64 - 1025, 2**64 - 1024, 2**64 - 2, 2**64 - 1]
_SIGNED = [-2**63, -2**63 + 1, -65, -64, -1, 0, 1, 2, 63, 64, 65, 2**53 + 1, 2**62, 2**63 - 1]


def values() -> dict[str, Any]:
    """Arrays that broadcast to all pairs."""
    u = np.array(_NUMBERS, np.uint64)
    f = np.array([0.0, -0.0, 0.5, 1.99, 2**31, 2**53, 2**63 - 1024, 2**63, 2**63 + 2048, 2**64 - 2048, 1e19])
    return {"u": u[:, None].copy(), "w": u.copy(), "s": np.array(_SIGNED), "c": np.arange(200, 256, dtype=np.uint8),
            "h": np.arange(-3, 3, dtype=np.int16), "b": np.array([True, False]), "f": f, "g": f[:6].astype(np.float32)}


EXPRESSIONS = """
u < w, u <= w, u > w, u >= w, u == w, u != w
u < s, u <= s, u > s, u >= s, u == s, u != s
s < u, s <= u, s > u, s >= u, s == u, s != u
u < 5, u <= 0, u > 2**40, u >= 0, u == 3, u != 3, 5 < u, 7 >= u
u < -1, u <= -3, u > -1, u >= -7, u == -1, u != -1, -1 < u
u < c, u >= h, u == b, u < f, u >= g, u == 0.5
np.less(u, w), np.greater_equal(u, s), np.equal(u, 3)
np.maximum(u, w), np.minimum(u, w), np.fmax(u, w), np.fmin(u, w), np.maximum(u, 3), np.minimum(2**61, u)
np.maximum(u, s), np.minimum(u, f)
u // w, u % w, u // 8, u % 64, u // 1, u % 1, u // 2**61, u % 2**61, u // 7, u % 10, 1000 // u, 2**61 % u, u // 0, u % 0
u // s, u % f
u << w, u >> w, u << 3, u >> 63, u >> 64, u >> 0, u >> 1, u >> 62, 3 << u, 2**61 >> u, u >> c, u << b
u + s, u - s, u * s, s - u
u + f, u * 0.5, u - g, u * g, f / (u + 1)
u / w, u / 3, s / (u + 1), 1 / (u + 1)
u.astype(np.float64), u.astype(np.float32), u.astype(np.int64), u.astype(np.int32), u.astype(np.uint8), u.astype(bool)
f.astype(np.uint64), g.astype(np.uint64), s.astype(np.uint64), c.astype(np.uint64), b.astype(np.uint64)
np.sqrt(u), np.sqrt(u.astype(np.float32))
(u ^ (u >> 33)) * 0xff51afd7 % 1000 < w // 3
u + w[3], w[-1] - u
(u >> 11).astype(np.float64) * 2.0**-53
""".strip().splitlines()
NEAR = ("np.log(u + 1)", "np.exp(u * 1e-19)", "np.tanh(u)")


def equal(got: Any, want: Any) -> bool:
    if isinstance(want, tuple):
        return len(got) == len(want) and all(map(equal, got, want))
    return (type(got) is type(want) and got.dtype == want.dtype and got.shape == want.shape
            and np.array_equal(got, want, equal_nan=got.dtype.kind == "f"))


def called(expression: str) -> tuple[Any, list[Any]]:
    names = [name for name in values() if re.search(rf"(?<![.\w]){name}\b", expression)]
    return compiled(f"return {expression}", names), [values()[name] for name in names]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("expression", [*EXPRESSIONS, *NEAR])
def test_on_the_tape(expression: str) -> None:
    fn, args = called(expression)
    want = fn(*copy.deepcopy(args))
    jitted = prebake.jit(fn)
    with prebake.engine("jit"):
        got = jitted(*args)
    if expression in NEAR:
        np.testing.assert_allclose(got, want, rtol=1e-14)
    else:
        for g, w, part in zip(got, want, expression.split(", "), strict=False) if isinstance(want, tuple) else ():
            assert equal(g, w), f"{part}: {g!r}, expected {w!r}"
        assert equal(got, want)
    assert jitted.stats()["jit"] == 1, jitted.explain(*args).detail
    plan = type_program(jitted.bytecode, LiveReader(jitted.bytecode, args, lambda index: np))
    assert not [step for step in plan.steps if isinstance(step, CallStep)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_as_c() -> None:
    for expression, got, want in results_in_c((e, *called(e)) for e in EXPRESSIONS):
        assert equal(got, want), expression


@pytest.mark.parametrize("expression", ["u + -1", "u // -2", "np.maximum(u, -1)", "u << s", "u & s"])
def test_what_numpy_refuses(expression: str) -> None:
    fn, args = called(expression)
    with pytest.raises((OverflowError, TypeError)) as want:
        fn(*args)
    for engine in ("jit", "interpreter"):
        with prebake.engine(engine), pytest.raises(want.type):
            prebake.jit(fn)(*args)


@pytest.mark.parametrize("statement", ["u >>= 3", "u //= w[3]", "u %= 10", "u <<= 1", "f += w[:11]", "f *= w[:11]"])
def test_in_place(statement: str) -> None:
    names = [name for name in values() if re.search(rf"(?<![.\w]){name}\b", statement)]
    fn = compiled(statement, names)
    want, got = ([values()[name] for name in names] for _ in "ab")
    fn(*want)
    jitted = prebake.jit(fn)
    with prebake.engine("jit"):
        jitted(*got)
    assert equal(tuple(got), tuple(want))
    assert jitted.stats()["jit"] == 1, jitted.explain(*got).detail
