"""(alpha * A) @ v: the matrix is not made for one vector, unless somebody else reads it; loads of every second element."""

from __future__ import annotations

import numpy as np
import pytest

import prebake


def scaled(alpha, a, v):
    return alpha * a @ v


def two_scaled(alpha, beta, a, b, v):
    return alpha * a @ v + beta * b @ v


def shared(alpha, a, v, w):
    c = alpha * a
    return c @ v, c @ w


def kept(alpha, a, v):
    c = alpha * a
    return c @ v, c


def into_itself(a, v):
    v[:] = (a * 2) @ v
    return v


def overwritten(a, v):
    c = a + 1
    a[:] = 0
    return c @ v


def rows_in_a_loop(a, v):
    out = np.zeros(a.shape[0], a.dtype)
    for i in range(a.shape[0]):
        out[i] = (a[i, :i] * 2) @ v[:i]
    return out


def launched(function, *args):
    before = function.stats()["kernels_launched"]
    with prebake.engine("jit"):
        got = function(*args)
    return got, function.stats()["kernels_launched"] - before


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (5, 0), (0, 5), (64, 300), (301, 7), (40, 2100)])
def test_values(shape, dtype):
    rng = np.random.default_rng(1)
    function, double = prebake.jit(scaled), prebake.jit(two_scaled)
    whole = rng.standard_normal((2 * shape[0], 2 * shape[1] + 1)).astype(dtype)
    v = rng.standard_normal(shape[1]).astype(dtype)
    tolerance = {"rtol": 1e-12, "atol": 1e-12} if dtype is np.float64 else {"rtol": 1e-5, "atol": 1e-4}
    for a in (whole[:shape[0], :shape[1]].copy(), np.asfortranarray(whole[:shape[0], :shape[1]]), whole[::2, 1::2],
              whole[:shape[0], shape[1] - 1::-1][:, :shape[1]] if shape[1] else whole[:shape[0], :0]):
        for alpha in (1.5, dtype(0.1)):
            want = scaled(alpha, a, v)
            got, _ = launched(function, alpha, a, v)
            assert got.dtype == want.dtype and got.shape == want.shape
            np.testing.assert_allclose(got, want, **tolerance)
            np.testing.assert_allclose(double(alpha, 2.0, a, a[::-1], v), two_scaled(alpha, 2.0, a, a[::-1], v), **tolerance)


def test_the_matrix_is_made_for_those_who_read_it():
    rng = np.random.default_rng(2)
    a, v, w = rng.random((30, 40)), rng.random(40), rng.random(40)
    function = prebake.jit(scaled)
    got, count = launched(function, 2.0, a, v)
    assert count == 1
    np.testing.assert_allclose(got, scaled(2.0, a, v))
    for other, args in ((shared, (2.0, a, v, w)), (kept, (2.0, a, v))):
        function = prebake.jit(other)
        got, count = launched(function, *args)
        assert count > 1
        for x, y in zip(got, other(*args), strict=True):
            np.testing.assert_allclose(x, y)


@pytest.mark.parametrize("program", [into_itself, overwritten, rows_in_a_loop])
def test_what_is_written_meanwhile(program):
    rng = np.random.default_rng(3)
    function = prebake.jit(program)
    for n in (1, 2, 9, 50):
        a, v = rng.random((n, n)), rng.random(n)
        mine, theirs = (a.copy(), v.copy()), (a.copy(), v.copy())
        with prebake.engine("jit"):
            got = function(*mine)
        np.testing.assert_allclose(got, program(*theirs), rtol=1e-12)
        for x, y in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12)


def test_parts_of_complex_numbers():
    """Every second element is loaded many at a time, and nothing behind the last one."""
    function = prebake.jit(lambda z: (z.real * 2 + 1, z.imag - z.real))
    for dtype in (np.complex128, np.complex64):
        for n in range(40):
            rng = np.random.default_rng(n)
            z = (rng.random(n + 1) + 1j * rng.random(n + 1)).astype(dtype)[1:]
            with prebake.engine("jit"):
                got = function(z)
            np.testing.assert_array_equal(got[0], z.real * 2 + 1)
            np.testing.assert_array_equal(got[1], z.imag - z.real)
