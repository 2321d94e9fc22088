"""Numbers of uint64 as arguments and constants, up to the largest: NumPy's values and dtypes; constants call nothing."""

from __future__ import annotations

import linecache
from collections.abc import Callable

import numpy as np
import pytest
from bundle_project import load_module

import prebake
from prebake.templates import levels

MOST, LARGE = 2**64 - 1, 2**63 + 5
X = np.random.default_rng(0).integers(0, 1 << 63, 40).astype(np.uint64) * np.uint64(2)

ON_TAPE = [
    f"np.uint64({MOST}) + a", f"a * {MOST}", f"{MOST} - a", f"a // np.uint64({LARGE})", f"a % np.uint64({LARGE})",
    f"a > {LARGE}", f"a == {LARGE}", f"a | np.uint64({LARGE})", "a ^ (a >> np.uint64(33))", "a % np.uint64(k)", "a * b", "a // b",
    "a % b", "a >> (b & np.uint64(63))", "a < b", "b + 1", "b", "b + b", "-b", "~b", "b > 3", "a if b > 3 else b",
    "np.full(3, b)", "b / 2", "np.maximum(a, b)", "np.where(a > b, a, b)", "a.astype(np.int64) + b", "a.astype(np.float32) * b",
    "np.sqrt(b)",
]
INTERPRETED = [f"a.astype(np.int64) * {MOST}", f"a.astype(float) * {MOST}", f"{MOST} + 1", "np.uint64(-k)", "a[b]", "np.zeros(b)"]

HASHING = """import numpy as np
import prebake

@prebake.jit
def mixed(a, seed):
    return (a * seed) ^ (a >> np.uint64(31)), seed + np.uint64(1)
"""


def compiled(expression: str) -> Callable:
    name, text = f"<uint64 {expression}>", f"def f(a, b, k):\n    return {expression}\n"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict = {"np": np}
    exec(compile(text, name, "exec"), space)
    return space["f"]


def outcome(function: Callable, *args: object) -> object:
    with np.errstate(all="ignore"):
        try:
            value = function(*args)
        except Exception as error:
            return type(error), str(error)
    values = value if isinstance(value, tuple) else (value,)
    return [(type(v), getattr(v, "dtype", None), np.asarray(v).tolist()) for v in values]


@pytest.mark.parametrize("number", [0, 1, 7, LARGE, MOST])
@pytest.mark.parametrize("expression", ON_TAPE)
def test_numbers(expression: str, number: int) -> None:
    plain = compiled(expression)
    function = prebake.jit(plain)
    args = (X, np.uint64(number), 5)
    assert outcome(function, *args) == outcome(plain, *args)
    assert function.stats()["jit"] == 1


@pytest.mark.parametrize("expression", INTERPRETED)
def test_what_only_python_can_say(expression: str) -> None:
    plain = compiled(expression)
    args = (X[:5], np.uint64(3), 5)
    assert outcome(prebake.jit(plain), *args) == outcome(plain, *args)


def test_constants_call_nothing() -> None:
    function = prebake.jit(compiled(f"(a ^ (a >> np.uint64(33))) * np.uint64({MOST - 4})"))
    assert not function.explain(X, np.uint64(1), 1).call_outs


@pytest.mark.parametrize("value", [0, X[:1].astype(np.int64), 2.5])
def test_differences_with_ends(value: object) -> None:
    plain = compiled("(np.diff(a, prepend=b), np.diff(a, n=2, append=b), np.diff(a.reshape(2, -1), axis=0, append=b))")
    function = prebake.jit(plain)
    args = (X[:6].astype(np.int32), value, 0)
    if isinstance(value, np.ndarray):
        args = (args[0], value.reshape(1), 0)
        plain = compiled("(np.diff(a, prepend=b), np.diff(a, n=2, append=b))")
        function = prebake.jit(plain)
    got, want = function(*args), plain(*args)
    for one, other in zip(got, want, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    assert function.stats()["jit"] == 1


def test_parts_of_a_number_raise_as_numpys() -> None:
    plain = compiled("np.array_split(a, 2)")
    assert outcome(prebake.jit(plain), np.array(3.0), 0, 0) == outcome(plain, np.array(3.0), 0, 0)


def test_in_a_bundle(tmp_path):
    module = load_module(tmp_path, "hashing", HASHING)
    profile, buckets = str(tmp_path / "profile.json"), str(tmp_path / "buckets.yaml")
    numbers = [np.uint64(n) for n in (3, 1 << 40, LARGE, MOST)]  # buckets name integers below 2**62
    with prebake.profile(profile), prebake.engine("jit"):
        for number in numbers:
            module.mixed(X, number)
    prebake.plan(profile, buckets, measure=False)
    built = prebake.build(buckets, str(tmp_path / "bundle"), targets=[levels.host_level().name], roots=[tmp_path])
    prebake.load_bundle(str(built))
    for number in numbers:
        with prebake.engine("python"):
            plain = outcome(module.mixed, X, number)
        with prebake.engine("prebuilt" if number < 1 << 62 else "jit"):
            assert outcome(module.mixed, X, number) == plain
        assert outcome(module.mixed, X, number) == plain
