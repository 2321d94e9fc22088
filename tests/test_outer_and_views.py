"""Outer forms of ufuncs over operands of any rank; results that are the argument itself, or a view of it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from oracles import load

import prebake

OUTER = ["multiply", "add", "subtract", "maximum", "power", "hypot", "less", "logical_or", "floor_divide"]
OPERANDS = ["x, 2", "2.5, x", "x, x", "x, x.ravel()", "x.sum(), x", "3, 2", "x, [1, 2]", "x, x.ravel()[:0]"]
ARRAYS = [np.arange(1, 4.0), np.ones((2, 3), np.float32), np.array(2.0), np.arange(1, 5, dtype=np.int8).reshape(2, 2),
          np.ones((2, 1), np.complex64), np.ones((2, 2), np.uint64)]
VIEWS = """
x.T
x[...]
x[:]
np.asarray(x)
x.ravel()
x.reshape(-1)
x.reshape(x.shape)
np.squeeze(x)
x.squeeze()
np.transpose(x)
np.flip(x)
np.real(x)
np.atleast_1d(x)
np.ascontiguousarray(x)
np.broadcast_to(x, (2,) + x.shape)
np.array_split(x, 2)[0]
x.astype(x.dtype, copy=False)
np.copy(x)
x + 0
""".strip().splitlines()
LAYOUTS = [np.arange(6.0), np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(3, 2).T, np.arange(12.0)[::2],
           np.arange(6.0)[::-1], np.zeros((0, 3)), np.ones((1, 3)), np.broadcast_to(np.arange(3.0), (2, 3))]


def outcome(function, x):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(x)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("engine", ["jit", "interpreter"])
@pytest.mark.parametrize("operands", OPERANDS)
@pytest.mark.parametrize("name", OUTER)
def test_outer(name: str, operands: str, engine: str) -> None:
    function = load(f"import numpy as np\n\ndef f(x):\n    return np.{name}.outer({operands})\n")
    for x in ARRAYS:
        want = outcome(function, x)
        with prebake.engine(engine):
            got = outcome(prebake.jit(function), x)
        assert type(got) is type(want)
        if not isinstance(want, type):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("engine", ["jit", "interpreter"])
@pytest.mark.parametrize("expression", VIEWS)
def test_views(expression: str, engine: str) -> None:
    function = load(f"import numpy as np\n\ndef f(x):\n    return {expression}\n")
    for x in LAYOUTS:
        want = outcome(function, x)
        with prebake.engine(engine):
            got = outcome(prebake.jit(function), x)
        assert (got is x) == (want is x)
        if not isinstance(want, type):
            assert np.shares_memory(got, x) == np.shares_memory(want, x)
            assert got.flags.writeable == want.flags.writeable
            np.testing.assert_array_equal(got, want)


def test_no_axis_is_no_axis_of_trapezoid() -> None:
    function = load("import numpy as np\n\ndef f(x):\n    return np.trapezoid(x, axis=None)\n")
    with prebake.engine("jit"):
        assert outcome(prebake.jit(function), np.ones(3)) is outcome(function, np.ones(3)) is TypeError


@pytest.mark.parametrize("call", [
    "np.dot(x[:, :2], x[:, :2], out=x[:, :2])", "np.matmul(x[:, :2], x[:, :2], out=np.zeros((2, 2)))",
    "np.dot(x, x.T, out=np.zeros((2, 2), x.dtype))", "np.dot(x, x.T, np.zeros((2, 2)))",
    "np.matmul(x, x.T, out=np.zeros((2, 2), complex))", "np.dot(x, x.T, out=np.zeros((2, 2), x.dtype, order='F'))",
    "np.dot(x[0], x[1], out=np.zeros((), x.dtype))", "np.matmul(x[:, :2], x[:, :2], out=x[:, :2])",
    "np.dot(x, x[0], out=np.zeros(2, x.dtype))"])
def test_products_into_arrays(call: str) -> None:
    function = load(f"import numpy as np\n\ndef f(x):\n    y = {call}\n    return y\n")
    for dtype in ("float64", "int8", "float32", "complex128", "bool"):
        ours, theirs = (np.arange(6).reshape(2, 3).astype(dtype) for _ in range(2))
        want = outcome(function, theirs)
        with prebake.engine("jit"):
            got = outcome(prebake.jit(function), ours)
        assert type(got) is type(want)
        np.testing.assert_array_equal(ours, theirs)
        if isinstance(want, type):
            assert issubclass(got, TypeError if issubclass(want, TypeError) else want)
        else:
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
