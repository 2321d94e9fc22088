"""Lists, tuples and dictionaries as arguments, results and operands: their types, and what the caller sees of changes."""

from __future__ import annotations

import collections
import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracles import load

import prebake

Pair = collections.namedtuple("Pair", "a b")
SEQUENCES = [[1, 2.5], (1, 2), [[1, 2], [3, 4]], Pair(1, 2), [np.ones(2), np.zeros(3)], (np.ones(2), 3), [2.5, np.float32(2)]]
MAPPINGS = [{"a": np.ones(2), "b": [1, 2]}, collections.OrderedDict(a=np.ones(2), b=1)]
OF_SEQUENCES = """
x[::-1]
x[1:]
x[:]
x[1:] + x[:1]
x[:1] + (1,)
[1, 2] + x
(1, 2) + x
x * 2
[*x]
[v for v in x[::-1]]
tuple(v for v in x)
list(reversed(x))
list(zip(x, x))
list(enumerate(x))[0]
len(x), x[0]
range(3)[1:]
np.shape(x)
np.ndim(x)
np.size(x)
np.asarray(x)
np.float32(x)
x
""".strip().splitlines()
ON_SEQUENCES = """
x.append(3)
return x
---
y = x
y.append(1)
return x
---
y = x[:]
y[0] = 9
return y, x
---
y = x[:]
y += [1]
return y, x
---
x += [1]
return x
---
y = x
y += [2]
return x, y
---
y = [1]
z = y
z += x
return y, z
---
y = (1, 2)
z = y
z += (3,)
return y, z
---
x *= 2
return x
---
y = x * 2
y[0] = 3
return x, y
---
y = [1]
for i in range(len(x)):
    y += [i]
return y
---
y = x + x
y.reverse()
return y
---
x.pop()
return x
"""
ON_MAPPINGS = """
return list(x), list(x.keys()), list(x.items())
---
x["a"] += 1
return x
---
y = dict(a=x["a"])
y["c"] = 1
return y, x
---
x.update({"q": 1})
return x
---
return x.get("z", 3), x.get("a"), "a" in x, len(x)
---
return x["zz"]
"""
SCALARS = [2, 2.5, True, np.float32(2), np.int8(3), None]
OF_SCALARS = """
np.clip(2, 0, x)
np.clip(x, 0, 3)
np.clip(x, np.int8(1), 3)
np.float32(x)
np.float64(x)
np.int16(x)
np.bool_(x)
np.shape(x)
np.size(x)
""".strip().splitlines()


def body(text: str) -> str:
    return "import numpy as np\n\n\ndef f(x):\n" + "".join(f"    {line}\n" for line in text.strip().splitlines())


def check(source: str, arguments: list) -> None:
    """Result, its type, exception and what is left of the argument are Python's own, on both engines."""
    function = load(source)
    for argument in arguments:
        want = outcome(function, theirs := copy.deepcopy(argument))
        for engine in ("jit", "interpreter"):
            with prebake.engine(engine):
                got = outcome(prebake.jit(function), ours := copy.deepcopy(argument))
            assert_same(got, want)
            assert_same(ours, theirs)


def outcome(function: Callable, argument: object) -> Any:
    try:
        return function(argument)
    except Exception as error:
        return type(error)


def assert_same(got: Any, want: Any) -> None:
    assert type(got) is type(want), (got, want)
    if isinstance(want, dict):
        assert_same(list(got.items()), list(want.items()))
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            assert_same(one, other)
    elif isinstance(want, (np.ndarray, np.generic)):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    else:
        assert got == want


@pytest.mark.parametrize("expression", OF_SEQUENCES)
def test_of_sequences(expression: str) -> None:
    check(body(f"return {expression}"), SEQUENCES)


@pytest.mark.parametrize("program", ON_SEQUENCES.split("---\n"))
def test_on_sequences(program: str) -> None:
    check(body(program), SEQUENCES)


@pytest.mark.parametrize("program", ON_MAPPINGS.split("---\n"))
def test_on_mappings(program: str) -> None:
    check(body(program), MAPPINGS)


@pytest.mark.parametrize("expression", OF_SCALARS)
def test_of_scalars(expression: str) -> None:
    check(body(f"return {expression}"), SCALARS)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "complex64"])
@pytest.mark.parametrize("expression", ["np.array([x[0], 1])", "np.array([x[0], 1.5])", "np.array([1j, x[0]])",
                                        "np.linspace(0, x[1], 3)", "np.append(x, 1.5)", "np.hstack([x, 1.5])",
                                        "np.dot(x, 2.5)", "np.where(x > 2, 1.5, x)", "np.full(3, x[0])"])
def test_dtypes_of_numbers_among_arrays(expression: str, dtype: str) -> None:
    check(body(f"return {expression}"), [np.arange(4).astype(dtype)])


def test_numbers_without_a_value() -> None:
    check(body("return np.float32(), np.int64(), np.bool_()"), [1])


def test_sums_of_matrices() -> None:
    check(body("return np.sum(x), np.max(x)"), [np.matrix([[1, 2], [3, 4]])])
