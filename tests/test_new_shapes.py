"""A new shape under facts already planned plans nothing: sizes that differ, and slices that change inside loops, are one plan."""

from __future__ import annotations

import numpy as np
import pytest
from programs import PROGRAMS
from test_programs import SIZES

import prebake

# what is asked about extents has other answers at other sizes: powers of a radix, shapes that a loop computes, a bound of a sieve
PLANNED_BY_SIZE = {"stockham_fft", "block_sums", "sieve"}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [name for name, program in PROGRAMS.items() if program.tape and name not in PLANNED_BY_SIZE])
def test_one_plan_for_all_sizes(name):
    program = PROGRAMS[name]
    function = prebake.jit(program.function)
    sizes = SIZES.get(name, (9, 12, 13, 17, 24))
    with np.errstate(all="ignore"), prebake.engine("jit"):
        for n in sizes:
            function(*program.arguments(n, program.dtypes[0]))
            assert function._state.generation == 1, f"size {n} was planned"
    assert function.stats()["jit"] == len(sizes)


def shrinking(x, y):
    for i in range(1, x.shape[0] // 2):
        y[i:-i] = x[i:-i] + 0.5 * (x[i - 1:-i - 1] + y[i + 1:x.shape[0] - i + 1])
    return y[x.shape[0] // 3:].sum()


def test_slices_of_two_arrays_are_one_space():
    """x[1:-1] and y[1:-1] are equally long: their arrays are then, and what is done over both is one nest."""
    function = prebake.jit(lambda x, y, z: x[2:] * 2 + y[1:-1] * z[:-2])
    for n in (3, 4, 50, 1000):
        x, y, z = np.random.default_rng(n).random((3, n))
        before = function.stats()["kernels_launched"]
        with prebake.engine("jit"):
            got = function(x, y, z)
        np.testing.assert_array_equal(got, x[2:] * 2 + y[1:-1] * z[:-2])
        assert function.stats()["kernels_launched"] - before == 1
    with pytest.raises(ValueError):
        function(np.ones(5), np.ones(6), np.ones(5))
    np.testing.assert_array_equal(function(np.ones(3), np.ones(6), np.ones(6)), np.full(4, 3.0))  # one element broadcasts
    assert function._state.generation == 2  # equal, and one that broadcasts; the broken one has no plan


def test_changing_slices_are_one_plan():
    function = prebake.jit(shrinking)
    with prebake.engine("jit"):
        for n in (8, 9, 20, 33, 100):
            x, y = np.random.default_rng(n).random((2, n))
            other = y.copy()
            assert np.isclose(function(x, y), shrinking(x, other))
            np.testing.assert_allclose(y, other)
    assert function._state.generation <= 2
