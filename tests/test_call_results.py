"""What a call keeps, makes and raises: packed constants, results and their memory, errors."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from dispatch_helpers import affine, data, jitted, pack_stats, scaled
from oracles import memory_limit

import prebake
from prebake.vm.run import _dispatch

# --- constants ------------------------------------------------------------------------------------------------------

def test_frozen_weights_are_packed_once_and_released():
    f = jitted(affine)
    x, w = data(9, 24), prebake.freeze(data(24, 40))
    before = pack_stats()[0]
    for _ in range(3):
        np.testing.assert_allclose(f(x, w), f.__wrapped__(x, w), rtol=1e-4, atol=1e-5)
    assert pack_stats()[0] == before + 1
    del w
    gc.collect()
    assert pack_stats()[0] == before


def test_a_new_model_in_the_same_memory_is_packed_again():
    f, x = jitted(affine), data(5, 16)
    for seed in range(20):
        w = prebake.freeze(data(16, 32, seed=seed))
        np.testing.assert_allclose(f(x, w), f.__wrapped__(x, w), rtol=1e-4, atol=1e-5)
        del w


def test_large_packs_come_and_go_in_any_order():
    """Large packs share regions of huge pages: one that goes must not take a neighbour's memory with it."""
    rng = np.random.default_rng(3)
    shapes = [(256, 300), (400, 256), (7, 11), (300, 640), (512, 512)]
    functions = [jitted(affine) for _ in shapes]
    before, alive = pack_stats()[0], {}
    for step in range(60):
        at = int(rng.integers(len(shapes) * 2))
        if at in alive and rng.random() < 0.5:
            del alive[at]
            gc.collect()
        elif at not in alive:
            alive[at] = prebake.freeze(data(*shapes[at % len(shapes)], seed=step))
        for key, w in alive.items():
            f, x = functions[key % len(shapes)], data(3, w.shape[0])
            np.testing.assert_allclose(f(x, w), f.__wrapped__(x, w), rtol=1e-3, atol=1e-4)
        w = None
    assert pack_stats()[0] == before + len(alive)
    alive.clear()
    gc.collect()
    assert pack_stats()[0] == before


def test_writable_weights_are_never_packed():
    f, x, w = jitted(affine), data(5, 16), data(16, 32)
    before = pack_stats()[0]
    for factor in (1, 2, 3):
        w *= factor
        np.testing.assert_allclose(f(x, w), f.__wrapped__(x, w), rtol=1e-4, atol=1e-5)
    assert pack_stats()[0] == before


def test_weights_over_bytes_are_packed_while_their_array_lives():
    f, x = jitted(affine), data(5, 16)
    w = np.frombuffer(data(16, 32).tobytes(), np.float32).reshape(16, 32)
    before = pack_stats()[0]
    np.testing.assert_allclose(f(x, w), f.__wrapped__(x, w), rtol=1e-4, atol=1e-5)
    del w
    gc.collect()
    assert pack_stats()[0] == before


# --- results --------------------------------------------------------------------------------------------------------

def test_results_are_ordinary_arrays():
    x = data(300, 300)
    y = scaled(x)
    assert y.flags.owndata and y.base is None and y.flags.writeable and y.flags.c_contiguous
    assert y.ctypes.data % 64 == 0
    y.resize((600, 300), refcheck=False)
    assert y.shape == (600, 300)


def test_large_results_are_recycled_but_never_while_they_live():
    f, x = jitted(scaled), data(512, 256)
    first = f(x)
    address = first.ctypes.data
    second = f(x)
    assert second.ctypes.data != address
    view = first[5:]
    del first
    assert f(x).ctypes.data != address
    np.testing.assert_array_equal(view, x[5:] * 2)
    del view
    assert f(x).ctypes.data == address


def test_result_pool_is_bounded_and_can_be_switched_off():
    try:
        prebake.configure(result_pool_bytes=1 << 20)
        kept = [scaled(np.ones(1 << 16)) for _ in range(8)]
        del kept
        assert _dispatch.result_pool_bytes() <= 1 << 20
        prebake.configure(result_pool_bytes=0)
        assert _dispatch.result_pool_bytes() == 0
        y = scaled(np.ones(1 << 16))
        del y
        assert _dispatch.result_pool_bytes() == 0
    finally:
        prebake.configure(result_pool_bytes=None)


def test_trees_views_and_the_argument_itself():
    @prebake.jit
    def parts(x):
        y = x * 2.0
        return x, x[1:], {"y": y, "n": x.shape[0]}, [y[::2], (y.T, 3, None, "s")]

    x = data(6, 4)
    same, view, named, listed = parts(x)
    assert same is x
    assert view.base is x and view.strides == x[1:].strides
    np.testing.assert_array_equal(view, x[1:])
    assert named["n"] == 6 and type(named["n"]) is int
    np.testing.assert_array_equal(named["y"], x * 2)
    np.testing.assert_array_equal(listed[0], (x * 2)[::2])
    assert listed[0].base is named["y"]
    np.testing.assert_array_equal(listed[1][0], (x * 2).T)
    assert listed[1][1:] == (3, None, "s")


def test_scalars_have_numpys_types():
    @prebake.jit
    def several(x):
        return x.sum(), x.shape[0], x.max() > 0, x.shape[0] / 2

    for dtype in (np.float32, np.float64, np.int8, np.int64):
        x = np.arange(5).astype(dtype)
        for found, expected in zip(several(x), several.__wrapped__(x), strict=True):
            assert type(found) is type(expected)
            assert found == expected


def test_writes_into_arguments_and_overlap():
    @prebake.jit
    def twice(x, y):
        x *= 2
        return x + y

    b = np.ones(8)
    np.testing.assert_array_equal(twice(b[:4], b[2:6]), [4, 4, 3, 3])
    np.testing.assert_array_equal(b, [2, 2, 2, 2, 1, 1, 1, 1])
    locked = np.ones(4)
    locked.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        twice(locked, b[:4])


# --- errors ---------------------------------------------------------------------------------------------------------

def test_an_error_points_at_the_users_line():
    @prebake.jit
    def pick(x, index):
        y = x * 2.0
        return y[index]  # the line

    x = np.arange(4.0)
    np.testing.assert_array_equal(pick(x, np.array([0, -1])), [0, 6])
    with pytest.raises(IndexError) as caught:
        pick(x, np.array([4]))
    text = "".join(__import__("traceback").format_exception(caught.value))
    assert "# the line" in text


def test_a_loop_without_a_way_out_is_refused_when_it_is_compiled():
    @prebake.jit
    def spin(x):
        while True:
            x = x + 1

    for ask in (lambda: spin.bytecode, lambda: spin(np.ones(3)), lambda: spin(np.ones(3))):
        with pytest.raises(prebake.VerifyError, match="this while loop never ends"):
            ask()


def test_an_error_after_a_write_keeps_what_was_written():
    @prebake.jit
    def store(x, index):
        x[0] = 7.0
        return x[index]

    x = np.zeros(4)
    with pytest.raises(IndexError):
        store(x, np.array([9]))
    assert x[0] == 7.0


def test_memory_budget():
    def chain(x, w):
        return (x @ w) @ w

    w = data(64, 64)
    f = prebake.jit(chain, options={"memory_bytes": 16})
    with pytest.raises(MemoryError, match="memory_bytes"):
        f(data(512, 64), w)
    free = prebake.jit(chain)
    free(data(512, 64), w)
    assert free.stats()["peak_arena_bytes"] > 16


def test_temporaries_that_no_memory_holds_are_the_interpreters_task():
    def f(u):
        for _ in range(3):
            u = np.maximum.outer(np.setdiff1d(u[1:-1], u), np.argwhere(u))  # empty, but bounded by gigabytes
        return u

    u = np.arange(289, dtype=np.float32).reshape(17, 17)
    fast = prebake.jit(f)
    with memory_limit(1 << 30):
        assert fast(u).shape == f(u).shape == (0, 0, 3)
    assert fast.stats()["peak_arena_bytes"] < 1 << 30
