"""The callable and the order of a call: binding, engines, plans and their rows."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
import weakref
from dataclasses import dataclass

import numpy as np
import pytest
from dispatch_helpers import affine, data, jitted

import prebake

SCALE = 2.0


@prebake.jit
def options_of_python(x, /, y, *, z=3.0):
    return x * y + z


@prebake.jit
def scaled(x):
    return x * SCALE


@dataclass
class Layer:
    w: np.ndarray
    b: np.ndarray


class Model:
    def __init__(self, layers):
        self.layers = layers

    @prebake.jit
    def forward(self, x):
        """Every layer in turn."""
        for layer in self.layers:
            x = np.tanh(x @ layer.w + layer.b)
        return x


# --- being a function -----------------------------------------------------------------------------------------------

def test_it_looks_like_the_function_that_it_wraps():
    assert affine.__name__ == "affine"
    assert affine.__module__ == "dispatch_helpers"
    assert Model.forward.__doc__ == "Every layer in turn."
    assert affine.__wrapped__ is affine.fn
    assert isinstance(affine.bytecode, prebake.Program)


def test_decorating_never_fails():
    def generator(x):
        yield x

    for options in ({"no_such_option": 1}, {"engine": "warp"}):
        assert callable(prebake.jit(affine.__wrapped__, options=options))
    broken = prebake.jit(generator)
    with pytest.raises(prebake.UnsupportedError):
        broken(np.ones(3))
    with pytest.raises(prebake.ConfigError, match="did you mean 'strict'"):
        prebake.jit(affine.__wrapped__, options={"strickt": True})(np.ones((2, 2)), np.ones((2, 2)))


@pytest.mark.parametrize(("args", "kwargs"), [
    ((), {}), ((1,), {}), ((1, 2, 3), {}), ((1, 2), {"y": 2}), ((1, 2), {"w": 2}), ((1,), {"x": 2, "y": 1}),
    ((), {"x": 1, "y": 2}),
])
def test_arguments_that_do_not_fit_raise_pythons_own_error(args, kwargs):
    with pytest.raises(TypeError) as expected:
        options_of_python.__wrapped__(*args, **kwargs)
    with pytest.raises(TypeError) as found:
        options_of_python(*args, **kwargs)
    assert str(found.value) == str(expected.value)


def test_keywords_and_defaults():
    f, x = jitted(options_of_python), data(5)
    for args, kwargs in (((x, 2.0), {}), ((x,), {"y": 2.0}), ((x, 2.0), {"z": 4.0}), ((x,), {"z": x, "y": x})):
        np.testing.assert_array_equal(f(*args, **kwargs), f.__wrapped__(*args, **kwargs))
    assert f.stats()["jit"] == 4


def test_changed_defaults_are_seen():
    def shifted(x, by=1.0):
        return x + by

    f, x = prebake.jit(shifted), np.zeros(3)
    np.testing.assert_array_equal(f(x), [1, 1, 1])
    shifted.__defaults__ = (5.0,)
    np.testing.assert_array_equal(f(x), [5, 5, 5])


def test_methods_bind():
    model = Model([Layer(data(4, 4), data(4)), Layer(data(4, 3, seed=1), data(3))])
    x = data(6, 4)
    expected = Model.forward.__wrapped__(model, x)
    np.testing.assert_allclose(model.forward(x), expected, rtol=1e-5)
    np.testing.assert_allclose(Model.forward(model, x), expected, rtol=1e-5)
    np.testing.assert_allclose(model.forward.__call__(x=x), expected, rtol=1e-5)


class Callable:
    def __init__(self, w):
        self.w = w

    @prebake.jit
    def __call__(self, x):
        return np.maximum(x @ self.w, 0)


def test_objects_that_can_be_called():
    net = prebake.freeze(Callable(data(4, 3)))
    x = data(5, 4)
    np.testing.assert_allclose(net(x), np.maximum(x @ net.w, 0), rtol=1e-5)
    assert Callable.__dict__["__call__"].stats()["jit"] == 1


def test_static_and_class_methods():
    class Holder:
        factor = 3.0

        @prebake.jit
        @staticmethod
        def double(x):
            return x * 2.0

    np.testing.assert_array_equal(Holder.double(np.ones(2)), [2, 2])
    np.testing.assert_array_equal(Holder().double(np.ones(2)), [2, 2])


def test_pickles_by_name_copies_as_itself_and_can_be_referenced_weakly():
    assert pickle.loads(pickle.dumps(affine)) is affine
    assert copy.deepcopy(affine) is affine
    assert copy.copy(affine) is affine
    assert weakref.ref(affine)() is affine
    again = pickle.loads(pickle.dumps(prebake.jit(np_free)))
    assert again.fn is np_free


def np_free(x):
    return x + 1


def test_is_collected_with_its_closure():
    big = np.zeros(10)

    def make():
        held = np.ones(3)
        reference = weakref.ref(held)
        f = prebake.jit(lambda x: x + held)
        f(big[:3])
        return weakref.ref(f), reference

    function, held = make()
    gc.collect()
    assert function() is None
    assert held() is None


# --- engines --------------------------------------------------------------------------------------------------------

def test_every_engine_gives_the_same_and_is_counted():
    f, x, w = jitted(affine), data(3, 4), data(4, 2)
    expected = affine.__wrapped__(x, w)
    for name, key in (("python", "python"), ("interpreter", "interpreter"), ("jit", "jit"), ("auto", "jit")):
        with prebake.engine(name):
            np.testing.assert_allclose(f(x, w), expected, rtol=1e-5)
        assert f.stats()[key] > 0
    stats = f.stats()
    assert stats["calls"] == 4 == sum(stats[k] for k in ("prebuilt", "jit", "interpreter", "python"))
    assert all(type(stats[k]) is int for k in stats if k != "misses")


def test_engine_prebuilt_raises_on_a_miss_and_names_the_reason():
    f = jitted(affine)
    with prebake.engine("prebuilt"), pytest.raises(prebake.PrebakeError, match="NO_BUNDLE"):
        f(data(3, 4), data(4, 2))
    assert f.stats()["calls"] == 0


def test_engine_is_of_the_thread_and_names_are_checked():
    f, x = jitted(scaled), np.ones(3)
    seen = []
    with prebake.engine("python"):
        thread = threading.Thread(target=lambda: seen.append((f(x), f.stats())))
        thread.start()
        thread.join()
    assert seen[0][1]["python"] == 0
    with pytest.raises(prebake.ConfigError, match="did you mean 'python'"), prebake.engine("pyton"):
        pass


def test_engine_option_and_the_context_over_it():
    f = prebake.jit(scaled.__wrapped__, options={"engine": "interpreter"})
    f(np.ones(2))
    assert f.stats()["interpreter"] == 1
    with prebake.engine("jit"):
        f(np.ones(2))
    assert f.stats()["jit"] == 1


def test_python_engine_runs_the_original_frames():
    seen = []

    def spy(x):
        seen.append(sys._getframe().f_code.co_name)
        return x

    f = prebake.jit(spy)
    with prebake.engine("python"):
        f(1)
    assert seen == ["spy"]


def test_trace_steps_through_instructions():
    f = jitted(scaled)
    with prebake.trace() as steps:
        f(np.ones(2))
    assert [index for _, index in steps] == list(range(len(f.bytecode.code)))
    seen = []
    with prebake.trace(lambda program, index, registers: seen.append(program.code[index].op)):
        f(np.ones(2))
    assert seen == [instruction.op for instruction in f.bytecode.code]


def test_fallback_python_warns_once_and_counts():
    def with_generator(x):
        return sum(v for v in x) + float(str(1))

    f = prebake.jit(with_generator, fallback="python")
    with pytest.warns(RuntimeWarning, match="runs in Python"):
        assert f([1, 2]) == 4.0
    assert f([1, 2]) == 4.0
    assert f.stats()["python"] == 2


# --- plans and their rows -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 9, 31, 64])
def test_one_plan_serves_shapes(n):
    x, w = data(n, 4), data(4, 2)
    np.testing.assert_allclose(affine(x, w), affine.__wrapped__(x, w), rtol=1e-5, atol=1e-6)


def test_layouts_and_dtypes_get_what_they_need():
    f = jitted(affine)
    w = data(4, 3)
    base = data(10, 8)
    for x in (base[:, :4], base[::2, ::2], np.asfortranarray(base[:, :4]), base[::-1, 3::-1],
              np.broadcast_to(data(4), (5, 4)), base[:, :4].astype(np.float64), (base[:, :4] * 10).astype(np.int32)):
        expected = f.__wrapped__(x, w)
        found = f(x, w)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert f.stats()["interpreter"] == 0


def test_misaligned_and_swapped_arrays_are_interpreted():
    f = jitted(scaled)
    raw = np.zeros(33, np.uint8)
    odd = raw[1:33].view(np.float64)
    odd[:] = [1, 2, 3, 4]
    np.testing.assert_array_equal(f(odd), odd * 2)
    swapped = np.arange(4.0).astype(">f8")
    np.testing.assert_array_equal(f(swapped), swapped * 2)
    assert f.stats()["interpreter"] == 2


def test_captured_values_are_read_again(monkeypatch):
    f, x = jitted(scaled), np.ones(3)
    np.testing.assert_array_equal(f(x), [2, 2, 2])
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    np.testing.assert_array_equal(f(x), [5, 5, 5])
    monkeypatch.setitem(globals(), "SCALE", np.arange(3.0))
    np.testing.assert_array_equal(f(x), [0, 1, 2])


def test_static_values_are_compared_with_their_types():
    @prebake.jit
    def choose(x, mode):
        return x + 1 if mode else x - 1

    x = np.zeros(2)
    for mode in (True, False, None, "", "a", 1, 0):
        np.testing.assert_array_equal(choose(x, mode), choose.__wrapped__(x, mode))


def test_containers_unroll_and_their_structure_is_a_guard():
    @prebake.jit
    def total(params, x):
        for layer in params["layers"]:
            x = x * layer["a"] + layer["b"]
        return x

    for n in (1, 2, 3, 2):
        params = {"layers": [{"a": data(3, seed=i), "b": 0.5 * i} for i in range(n)]}
        np.testing.assert_allclose(total(params, data(3)), total.__wrapped__(params, data(3)), rtol=1e-6)
    params = {"layers": ({"b": 1.0, "a": 2.0},)}
    np.testing.assert_allclose(total(params, data(3)), total.__wrapped__(params, data(3)), rtol=1e-6)


def test_integers_beyond_64_bits_and_numpy_scalars():
    @prebake.jit
    def plus(x, n):
        return x + n

    x = np.arange(3, dtype=np.float64)
    for n in (1, -7, 2**40, 2**62, 2**64, 10**30, 1.5, np.float32(0.1), np.float64(0.1), np.int8(3), np.uint64(2**63),
              np.float16(0.1), np.bool_(True), True):
        expected = plus.__wrapped__(x, n)
        found = plus(x, n)
        assert found.dtype == expected.dtype, n
        np.testing.assert_array_equal(found, expected)


def test_read_only_inputs_that_are_new_each_time_do_not_make_plans_without_end():
    f = jitted(scaled)
    for n in range(1, 40):
        x = np.frombuffer(np.arange(n, dtype=np.float64).tobytes())
        np.testing.assert_array_equal(f(x), x * 2)
    assert f._state.generation <= 4
    assert f.stats()["jit"] == 39


def test_plans_are_bounded():
    f = prebake.jit(np_free, options={"max_plans": 3})
    for dtype in (np.float32, np.float64, np.int32, np.int64, np.int16, np.int8):
        np.testing.assert_array_equal(f(np.ones(4, dtype)), np.full(4, 2, dtype))
    assert len(f._entries()[1]) == 3
    assert f.stats()["jit"] == 6
    assert sum(miss["count"] for miss in f.stats()["misses"]) == 6


@pytest.mark.parametrize("engine", ["interpreter", "jit"])
def test_containers_that_hold_themselves_or_are_very_deep(engine):
    def first(c, x):
        return c, x + 1

    x = np.ones(3)
    own: list = [x]
    own.append(own)
    wide: list = []
    wide.extend([wide] * 60)
    named: dict = {"w": x}
    named["self"] = named
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    for container in (own, wide, named, deep):
        with prebake.engine(engine):
            same, y = prebake.jit(first)(container, x)
        assert same is container and np.array_equal(y, x + 1)
    while deep:  # the interpreter of Python would free them by recursion
        deep = deep[0]
