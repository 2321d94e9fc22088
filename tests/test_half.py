"""float16: every operation rounds as NumPy's does, on the tape and in C; what accumulates is NumPy's own."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from kernel_build import results_in_c
from test_typed import compiled, names_in, same

import prebake


def values() -> dict[str, Any]:
    """The operands that expressions name."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(5, 6)).astype(np.float16)
    x[0, :4] = [np.inf, np.nan, -0.0, 6e-8]
    return {"x": x, "v": rng.normal(size=6).astype(np.float16), "f": rng.normal(size=(5, 6)).astype(np.float32),
            "a": rng.normal(size=(5, 6)) * 1000, "n": rng.integers(-9, 9, (5, 6)), "i8": np.arange(-3, 3, dtype=np.int8),
            "b": x > 0, "i": np.float16(0.1)}


# results are compared bit for bit
EXACT = """
x + v
x * v - x
x * 0.1
x * 3 + 0.1
x / 3
x / v + x
(x + v) * (x - v)
x < 0.1
x == v
-x
abs(x)
np.maximum(x, 0.1)
np.sqrt(np.abs(x))
np.square(x) + 1
x ** 2
x.astype(np.float32) * 0.1
a.astype(np.float16)
f.astype(np.float16) + x
np.asarray(a, dtype=np.float16), np.array(f, dtype=np.float16)
n.astype(np.float16)
x.astype(np.int32)
x + f
x + n
x + a
x + i8
x * i
i * i + i
i + 1
i / 3.0
x[1, 2] * x[2, 3] + x[3, 1]
float(x[1, 2]) + 1.0
np.where(b, x, 0.1)
np.clip(x, -0.3, 0.7)
np.full((3, 2), 0.1, dtype=np.float16)
np.zeros(4, np.float16) + 0.1
np.array([0.1, 2.0], dtype=np.float16)
np.concatenate([x, f])
x.max(axis=1), x.min(), np.argmax(x, axis=0), np.any(x, axis=0)
x[b], x[::-1, 1:], x.T.copy()
np.floor(x), np.rint(x), np.sign(x), x // 0.3
np.isnan(x), np.isfinite(x), np.signbit(x)
x.sum(), x.sum(axis=0), np.sum(x, axis=1), x.mean(axis=1), np.mean(x)
x.var(axis=0), np.std(v), np.cumsum(v), np.prod(v)
v @ v, x @ v, np.dot(x, v), np.matmul(x, x.T)
np.sort(v), np.median(v), np.linalg.norm(v)
np.sqrt(i8 * i8) * 0.1
np.sqrt(i8 * i8).sum()
f.sum(axis=0, dtype=np.float16)
""".strip().splitlines()

# functions: NumPy's own float32 ones may differ in the last place, which may round to the next float16
NEAR = """
np.exp(x) * 2
np.tanh(x + v)
np.log(np.abs(x) + 1)
1 / (1 + np.exp(-x))
np.exp(i8)
x ** 3
np.hypot(x, v)
np.exp(x - x[1:].max(axis=1, keepdims=True).max())
""".strip().splitlines()


def equal(got: Any, want: Any) -> bool:
    """The same types, dtypes, shapes and bits (every NaN alike)."""
    if isinstance(want, tuple):
        return len(got) == len(want) and all(map(equal, got, want))
    if type(got) is not type(want) or np.asarray(got).dtype != np.asarray(want).dtype or np.shape(got) != np.shape(want):
        return False
    return bool(np.array_equal(got, want, equal_nan=np.asarray(want).dtype.kind == "f")
                and np.array_equal(np.signbit(np.nan_to_num(got)), np.signbit(np.nan_to_num(want))))


def close(got: Any, want: Any) -> bool:
    """The same up to one place."""
    return got.dtype == want.dtype and np.allclose(got.astype("f8"), want.astype("f8"), rtol=2e-3, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("expression", EXACT + NEAR)
def test_on_the_tape(expression: str) -> None:
    names = [name for name in names_in(expression + " i8 i b x v f a n") if name in values()]
    names = [name for name in values() if name in names and name in set(_words(expression))]
    fn = compiled(f"return {expression}", names)
    args = [values()[name] for name in names]
    with np.errstate(all="ignore"):
        want = fn(*copy.deepcopy(args))
        jitted = prebake.jit(fn)
        with prebake.engine("jit"):
            got = jitted(*copy.deepcopy(args))
    assert (equal if expression in EXACT else close)(got, want), f"got {got!r}, expected {want!r}"
    assert jitted.stats()["jit"] == 1, jitted.explain(*args).detail


def _words(text: str) -> list[str]:
    import re
    return re.findall(r"(?<![.\w])[A-Za-z_]\w*", text)


STORES = """
x += v
x *= 0.1
x[1:] = x[:-1] * 0.3
x[0] = 0.1
x[b] = 0.1
x[:, 0] = a[:, 0]
x[[1, 2]] += i
f[:] = x * 0.1
f += x
for k in range(1, 5): x[k] = x[k - 1] * 0.5 + v * 0.1
for k in range(5): i = i * 1.5 + x[k, 4]; v[k] = i
""".strip().splitlines()


@pytest.mark.parametrize("statement", STORES)
def test_stores(statement: str) -> None:
    names = [name for name in values() if name in set(_words(statement))]
    fn = compiled(statement, names)
    args = [values()[name] for name in names]
    args[0] = np.nan_to_num(args[0], posinf=5)
    want_args, got_args = copy.deepcopy(args), copy.deepcopy(args)
    with np.errstate(all="ignore"):
        fn(*want_args)
        jitted = prebake.jit(fn)
        with prebake.engine("jit"):
            jitted(*got_args)
    assert all(map(equal, got_args, want_args)), f"got {got_args}, expected {want_args}"
    assert jitted.stats()["jit"] == 1, jitted.explain(*args).detail


def test_as_c() -> None:
    names = {e: [name for name in values() if name in set(_words(e))] for e in EXACT}
    cases = ((e, compiled(f"return {e}", names[e]), [values()[name] for name in names[e]]) for e in EXACT)
    for expression, got, want in results_in_c(cases):
        assert equal(got, want) or same(got, want), f"{expression}: got {got!r}, expected {want!r}"
