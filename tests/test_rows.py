"""Rows of containers and frozen weights, as the dispatcher's fast loop takes them: what changed is seen at each call."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import prebake

RNG = np.random.default_rng(5)


def values(*shape):
    return RNG.random(shape).astype(np.float32)


@prebake.jit
def chain(layers, x):
    for w, b in layers:
        x = x * w + b
    return x


def check(layers, x):
    np.testing.assert_array_equal(chain(layers, x), chain.fn(layers, x))


def model(count=40, n=8):
    return prebake.freeze([(values(n), values(n)) for _ in range(count)])


def test_items_of_a_list_are_read_at_each_call():
    layers, x = model(), values(8)
    check(layers, x)
    for at in (0, 17, 39):
        layers[at] = prebake.freeze((values(8), values(8)))
        check(layers, x)
    layers[3] = (layers[4][0], layers[5][1])
    check(layers, x)
    layers.append(layers[0])
    check(layers, x)
    layers.pop()
    layers.pop()
    check(layers, x)
    layers[2] = [*layers[2]]
    check(layers, x)
    layers[2] = (values(8), layers[3][1])  # may change
    check(layers, x)
    layers[2][0][...] = 3
    check(layers, x)


def test_dictionaries_and_attributes_are_read_at_each_call():
    class Part:
        def __init__(self):
            self.w, self.rest = values(8), {"b": values(8), "deep": [values(8), (values(8), 2.0)]}

    @prebake.jit
    def f(p, x):
        return x * p.w + p.rest["b"] - p.rest["deep"][0] * p.rest["deep"][1][0] * p.rest["deep"][1][1]

    part, x = prebake.freeze(Part()), values(8)
    for change in (lambda: None, lambda: setattr(part, "w", prebake.freeze(values(8))),
                   lambda: part.rest.update(b=prebake.freeze(values(8))), lambda: part.rest.update(b=values(8)),
                   lambda: part.rest["deep"].__setitem__(1, (part.w, 3.0)), lambda: part.rest["deep"].__setitem__(1, (part.w, 3)),
                   lambda: part.rest.update(more=1), lambda: part.rest.pop("more"),
                   lambda: setattr(part, "rest", {**part.rest, "b": part.w})):
        change()
        for _ in range(2):
            np.testing.assert_array_equal(f(part, x), f.fn(part, x))
    del part.rest["b"]
    with pytest.raises(KeyError):
        f(part, x)


def test_a_frozen_array_that_is_reshaped_in_place():
    """NumPy lets anybody change the shape, strides and dtype that an array object shows, of read-only arrays, too."""
    layers, x = model(5), values(8)
    check(layers, x)
    layers[2][0].shape = (2, 4)
    with pytest.raises(ValueError):
        chain.fn(layers, x)
    with pytest.raises(ValueError):
        chain(layers, x)
    layers[2][0].shape = (8,)
    check(layers, x)
    layers[3][1].shape = (1, 8)
    check(layers, x)


def test_constants_of_many_axes_and_of_none():
    @prebake.jit
    def f(ws, x):
        return x * ws[0] + ws[1] - ws[2]

    for make in (list, tuple):
        ws, x = prebake.freeze(make([values(2, 3, 4), values(4), values()])), values(2, 3, 4)
        for _ in range(3):
            np.testing.assert_array_equal(f(ws, x), f.fn(ws, x))
        other = make([ws[0], prebake.freeze(values(3, 1)), ws[2]])
        np.testing.assert_array_equal(f(other, x), f.fn(other, x))


def test_a_class_that_calls_itself_a_tuple():
    """Rows behind a tuple read it as one; whoever only has the name must not come there."""
    Fake = type("tuple", (), {"__module__": "builtins", "__len__": lambda self: 2,
                              "__getitem__": lambda self, i: self.items[i]})
    assert f"{Fake.__module__}:{Fake.__qualname__}" == "builtins:tuple"

    @prebake.jit(fallback="python")
    def f(pair, x):
        return x * pair[0] + pair[1]

    x, pair = values(8), prebake.freeze((values(8), values(8)))
    np.testing.assert_array_equal(f(pair, x), f.fn(pair, x))
    fake = Fake()
    fake.items = pair
    for _ in range(3):
        np.testing.assert_array_equal(f(fake, x), f.fn(pair, x))


def test_new_buffers_where_old_ones_died():
    """A frozen buffer's address is remembered; another object may come to lie there."""
    x = values(8)
    for _ in range(50):
        layers = model(6)
        check(layers, x)
        base = weakref.ref(layers[0][0].base)
        layers[0] = (np.frombuffer(bytearray(values(8).tobytes()), np.float32), layers[0][1])
        layers[0][0].flags.writeable = False
        check(layers, x)
        if base() is not None:
            gc.collect()
        assert base() is None, "the plan keeps no weights alive"


def test_no_reference_is_lost_or_kept():
    layers, x = model(30), values(8)
    check(layers, x)
    parts = [layers, layers[3], layers[3][0], layers[29][1], x]
    before = [sys.getrefcount(part) for part in parts]
    for _ in range(100):
        chain(layers, x)
    bad = [*layers[:-1], (layers[-1][0], "text")]
    for _ in range(20):
        with pytest.raises(Exception):  # noqa: B017 - whatever NumPy says
            chain(bad, x)
    del bad
    gc.collect()
    assert [sys.getrefcount(part) for part in parts] == before


def test_a_list_emptied_by_another_thread_while_kernels_run():
    """What a call holds it keeps until it ends, whoever takes it out of its list meanwhile."""
    x, stop, failures = values(300_000), threading.Event(), []
    layers = prebake.freeze([(values(300_000), values(300_000)) for _ in range(4)])

    def disturb():
        while not stop.is_set():
            layers[1] = prebake.freeze((values(300_000), values(300_000)))

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for _ in range(40):
            result = chain(layers, x)
            if not np.isfinite(result).all() or result.max() > 20:
                failures.append(result)
    finally:
        stop.set()
        thread.join()
    assert not failures


@pytest.mark.parametrize("n", [1, 100, 128, 200, 1000, 5000])
def test_small_results_come_from_memory_of_earlier_ones(n):
    """Results of half a kilobyte and more; their owner sees ordinary arrays, and two that live never share memory."""
    @prebake.jit
    def f(x):
        return x + 1

    x = values(n)
    kept = [f(x) for _ in range(5)]
    assert len({r.ctypes.data for r in kept}) == 5
    for r in kept:
        np.testing.assert_array_equal(r, x + 1)
        assert r.flags.owndata and r.flags.writeable and r.base is None
    del kept, r
    again = f(x)
    again.resize((2 * n,), refcheck=False)
    assert (again[n:] == 0).all() and (again[:n] == x + 1).all()
