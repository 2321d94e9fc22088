"""Views that NumPy hands out read-only are read-only results of plans too, and so is what is taken from them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import prebake
from prebake.vm.plan.code_json import dispatch_spec
from prebake.vm.plan.lower import lower_plan
from prebake.vm.plan.planner import plan_live

CASES = {
    "broadcast": lambda x: np.broadcast_to(x, (4, *x.shape)),
    "broadcast of a new array": lambda x: np.broadcast_to(x * 2, (4, *x.shape)),
    "broadcast to its own shape": lambda x: np.broadcast_to(x, x.shape),
    "new, to its own shape": lambda x: np.broadcast_to(x + 1, x.shape),
    "part of a broadcast": lambda x: np.broadcast_to(x, (4, *x.shape))[1:, ::2].T,
    "more axes": lambda x: np.expand_dims(np.swapaxes(np.broadcast_to(x, (4, *x.shape)), 0, 1), 1),
    "flipped": lambda x: np.flip(np.broadcast_to(x, (4, *x.shape))),
    "the same array": lambda x: np.asarray(np.broadcast_to(x, (4, *x.shape))),
    "diagonal": lambda x: np.diagonal(x),
    "method": lambda x: x.diagonal(),
    "diag": lambda x: np.diag(x),
    "diagonal of a new array": lambda x: np.diagonal(x + 1),
    "windows": lambda x: sliding_window_view(x, 2, axis=0),
    "complex": lambda x: np.broadcast_to(x + 1j, (2, *x.shape)),
    "copy": lambda x: np.broadcast_to(x, (4, *x.shape)).copy(),
    "flattened": lambda x: np.broadcast_to(x, (4, *x.shape)).reshape(-1),
    "computed": lambda x: np.broadcast_to(x, (4, *x.shape)) + 1,
    "beside others": lambda x: (np.broadcast_to(x, (4, *x.shape)), x.T, x[1:], x),
    "beside its owner": lambda x: [np.diagonal(x), x],
}


def described(value):
    if isinstance(value, (tuple, list)):
        return tuple(map(described, value))
    return value.flags.writeable, value.shape, value.dtype, value.tolist()


@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_flags_are_numpys(name, writable):
    x = np.arange(9.0).reshape(3, 3)
    x.flags.writeable = writable
    f = prebake.jit(CASES[name])
    with prebake.engine("jit"):
        result = f(x)
    assert described(result) == described(CASES[name](x))
    assert f.stats()["jit"] == 1


def test_a_view_of_an_argument_is_still_a_view():
    x = np.arange(9.0).reshape(3, 3)
    result = prebake.jit(CASES["diagonal"])(x)
    x[1, 1] = 50
    assert result[1] == 50 and np.shares_memory(result, x)
    with pytest.raises(ValueError, match="read-only"):
        result[0] = 1


def test_bundles_keep_it():
    """A bundle's records are this JSON."""
    f = prebake.jit(CASES["beside others"])
    spec = dispatch_spec(lower_plan(plan_live(f.bytecode, (np.ones((3, 3)),), f.read_capture)))
    kept = [item.get("read_only", False) for item in spec["result"]["items"]]
    assert kept == [True, False, False, False]
