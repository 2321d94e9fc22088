"""uint64: bits of int64 where that is the same, NumPy's own functions where it is not; every value to the last bit."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
import pytest
from kernel_build import results_in_c
from test_typed import compiled

import prebake


def values() -> dict[str, Any]:
    """The operands that expressions name: half of the numbers have the highest bit set."""
    rng = np.random.default_rng(0)
    return {"u": rng.integers(0, 2**64, (4, 5), dtype=np.uint64), "w": np.array([1, 2, 2**63 + 5, 7, 2**64 - 1], np.uint64),
            "s": rng.integers(-9, 9, (4, 5)), "f": rng.normal(size=(4, 5)),
            "c": rng.integers(0, 255, (4, 5), dtype=np.uint8), "b": rng.random((4, 5)) > 0.5}


def equal(got: Any, want: Any) -> bool:
    """The same types, dtypes, shapes and numbers."""
    if isinstance(want, tuple):
        return len(got) == len(want) and all(map(equal, got, want))
    return (type(got) is type(want) and np.asarray(got).dtype == np.asarray(want).dtype and np.shape(got) == np.shape(want)
            and np.array_equal(got, want))


EXPRESSIONS = """
u + w
u * 3 + 1
u - w * u
u & 255
u ^ (u << 13)
(u >> 7) ^ u
u // 3, u % 7, u / w
u < w, u == w, u >= 5
np.maximum(u, w), np.minimum(u, 3)
u.max(), u.min(axis=0), u.argmax(axis=1)
u.sum(), u.sum(axis=1), np.sum(u, axis=0)
u.mean(), np.sort(u, axis=1), np.median(u)
u + s
u + 1j
u * 0.5
u.astype(np.float64), u.astype(np.int64), u.astype(np.uint8), s.astype(np.uint64)
u[b], u[::-1, 1:], u.T.copy()
np.where(b, u, 3), np.concatenate([u, u]), np.stack([w, w])
u[1, 2] + u[2, 3], u[1, 2] * 3
u[1, 2] >> 3
c.sum(), c.sum(axis=0), np.cumsum(c)
c.sum() / c.size
c.sum() * 0.5 + c.mean()
np.zeros(3, np.uint64) + 1
float(c.sum())
np.uint64(3) * u
u.copy().ravel()[2]
-u, ~u, +u
np.array([1,2,3], dtype=np.uint64)
np.bitwise_count(u)
u ** 2
len(u), u.ndim, u.nbytes
abs(u), np.sqrt(u)
u.any(), (u > 2**20).sum()
""".strip().splitlines()

STORES = """
u += w
u ^= u << 7
u[0] = w
u[b] = 3
u[1:] = u[:-1]
for k in range(3): u[k+1] += u[k] * 3
u[:, 0] = s[:, 0]
u >>= 3
u //= w
""".strip().splitlines()

# nothing plans these: the interpreter answers
INTERPRETED = ("return np.where(b, u, s)", "return u[w[:2] % 4]", "f[:] = u", "return int(u[0, 0])",
               "return np.asarray(u, dtype=np.float64)",
               "return np.array(u, np.int32)")


def operands(text: str) -> list[str]:
    """The operands that a text names."""
    return [name for name in values() if re.search(rf"(?<![.\w]){name}\b", text)]


def check(body: str, is_planned: bool = True) -> None:
    """One call on the JIT against NumPy: result, arguments, exception."""
    names = operands(body)
    fn = compiled(body, names)
    args = [values()[name] for name in names]
    want_args, got_args = copy.deepcopy(args), copy.deepcopy(args)
    with np.errstate(all="ignore"):
        want = fn(*want_args)
        jitted = prebake.jit(fn)
        with prebake.engine("jit"):
            got = jitted(*got_args)
    assert equal(got, want), f"got {got!r}, expected {want!r}"
    assert all(map(equal, got_args, want_args))
    assert jitted.stats()["jit"] == is_planned, jitted.explain(*args).detail


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions(expression: str) -> None:
    check(f"return {expression}")


@pytest.mark.parametrize("statement", STORES)
def test_stores(statement: str) -> None:
    check(statement)


@pytest.mark.parametrize("body", INTERPRETED)
def test_what_is_not_planned(body: str) -> None:
    check(body, is_planned=False)


def test_as_c() -> None:
    cases = ((e, compiled(f"return {e}", operands(e)), [values()[name] for name in operands(e)]) for e in EXPRESSIONS)
    for expression, got, want in results_in_c(cases):
        assert equal(got, want) or np.array_equal(np.asarray(got, object), np.asarray(want, object)), expression


def keyed(weights, x):
    return {"e": weights["Q"] * 2 + x, "a": weights.get("L").sum()}


@pytest.mark.filterwarnings("error")
def test_words_that_are_no_dtypes() -> None:
    """Keys such as 'Q' and 'e' are names of dtypes too, in other places."""
    x = np.arange(6.0).reshape(2, 3)
    jitted = prebake.jit(keyed)
    got = jitted({"Q": x, "L": x, "a": x}, x)
    assert equal((got["e"], got["a"]), (x * 3, x.sum()))
    assert jitted.stats()["jit"] == 1


def worded(u, x):
    return u.astype("uint64") + u.sum(dtype="Q"), np.zeros(3, "u8"), x.astype("e") * x.astype("float16"), np.sum(x, dtype="half")


def test_words_that_are_dtypes() -> None:
    args = [np.arange(5, dtype=np.uint8), np.linspace(0, 9, 7)]
    jitted = prebake.jit(worded)
    assert equal(jitted(*args), worded(*args))
    assert jitted.stats()["jit"] == 1


def test_python_numbers_that_fit_no_signed_integer_are_no_matter_of_registers():
    def f(x, y, a):
        y += 1  # after this the interpreter cannot take over
        return a & x.sum(), x[0] + a

    fast = prebake.jit(f)
    for a in (5, 0, 2**40):
        with prebake.engine("jit"):
            got = fast(np.ones(3, np.uint64), np.ones(3), a)
        assert got == f(np.ones(3, np.uint64), np.ones(3), a)
        assert all(type(value) is np.uint64 for value in got)
    with prebake.engine("jit"), pytest.raises(OverflowError):
        fast(np.ones(3, np.uint64), np.ones(3), -1)
    assert fast.stats()["interpreter"] == 0


def stored(x, y):
    x[0] = y
    x[1:3] = y
    for i in range(3, x.shape[0]):
        x[i] = y + i
    return x


def test_python_numbers_stored_into_uint64() -> None:
    jitted = prebake.jit(stored)
    for y in (3, 0, 2**40):
        with prebake.engine("jit"):
            assert equal(jitted(np.zeros(5, np.uint64), y), stored(np.zeros(5, np.uint64), y))
    assert jitted.stats()["jit"] == 3
    with prebake.engine("jit"), pytest.raises(OverflowError):
        jitted(np.zeros(5, np.uint64), -1)
