"""Reductions over no axes: of scalars, of arrays without axes, and over `axis=()`; what has one element is that element."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from oracles import load

import prebake

VALUES = [np.zeros(3), np.ones(3), np.array([0.0, -1, 1]), np.array([np.nan, 0, 0])]
EXPRESSIONS = """
np.count_nonzero(x[0])
np.count_nonzero(x.mean())
np.count_nonzero(x.sum() + x[1])
np.count_nonzero(float(x[0]))
np.count_nonzero(np.array(x.max()))
np.count_nonzero(x[0], keepdims=True)
np.count_nonzero(x, axis=())
np.sum(np.where(x > 0, x, 0), axis=())
np.sum(x[0] > 0)
np.sum(np.where(x[0] > 0, 2.5, 0))
np.mean(x[0] > 0)
np.prod(x[0] > 0)
np.any(x[0])
np.all(x.mean())
np.any(x, axis=())
np.max(x[0])
np.argmax(x[0])
x[0].any()
np.sum(x.mean(), dtype=bool)
np.mean(x[0])
np.std(x[0])
np.cumsum(x.mean())
""".strip().splitlines()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("engine", ["jit", "interpreter"])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_as_numpy(expression: str, engine: str) -> None:
    function = load(f"import numpy as np\n\ndef f(x):\n    return {expression}")
    fast = prebake.jit(function)
    for dtype in ("float64", "float32", "int64", "int8", "bool"):
        for values in VALUES:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                x = values.astype(dtype)
                want = function(x)
            with prebake.engine(engine):
                got = fast(x)
            assert type(got) is type(want)
            assert np.asarray(got).dtype == np.asarray(want).dtype
            np.testing.assert_array_equal(got, want)


def test_sparse_rows() -> None:
    rng = np.random.default_rng(5)
    for axis in (0, 1, (0, 1), (), None):
        function = load(f"import numpy as np\n\ndef f(x):\n    return np.count_nonzero(x, axis={axis})")
        for shape in ((1, 1), (3, 70), (70, 3), (0, 2), (2, 0), (40, 40)):
            x = (rng.random(shape) < 0.02) * 1.0
            np.testing.assert_array_equal(prebake.jit(function)(x), function(x))


@pytest.mark.parametrize("name", ("add", "multiply", "minimum"))
@pytest.mark.parametrize("shape", ((), (1,), (3,), (2, 3)))
def test_accumulating_over_no_axis(name, shape):
    """NumPy takes None for the one axis of an array that has one, and refuses others."""
    f = load(f"import numpy as np\n\ndef f(x):\n    return np.{name}.accumulate(x, axis=None)\n")
    x, jitted = np.arange(np.prod(shape, dtype=int) + 1.0)[1:].reshape(shape), prebake.jit(f)
    if len(shape) == 1:
        np.testing.assert_array_equal(jitted(x), f(x), strict=True)
        assert jitted.stats()["jit"] == 1
    else:
        with pytest.raises((TypeError, ValueError)) as wanted:
            f(x)
        with pytest.raises(wanted.type, match=str(wanted.value)):
            jitted(x)
