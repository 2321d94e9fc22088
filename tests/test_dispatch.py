"""The callable and the order of a call: binding, engines, plans and their rows, results, errors, accounts."""

from __future__ import annotations

import contextlib
import copy
import gc
import itertools
import os
import pickle
import select
import signal
import sys
import threading
import weakref
from dataclasses import dataclass

import numpy as np
import pytest
from oracles import memory_limit

import prebake
from prebake.vm.plan import planner
from prebake.vm.run import _dispatch, forks

SCALE = 2.0


@prebake.jit
def affine(x, w, b=1.0):
    return np.maximum(x @ w + b, 0)


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


def jitted(fn):
    """A decorated copy with plans of its own."""
    return prebake.jit(fn.__wrapped__ if isinstance(fn, _dispatch.JitFunction) else fn)


def data(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# --- being a function -----------------------------------------------------------------------------------------------

def test_it_looks_like_the_function_that_it_wraps():
    assert affine.__name__ == "affine"
    assert affine.__module__ == __name__
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
        import sys
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


# --- constants ------------------------------------------------------------------------------------------------------

def test_frozen_weights_are_packed_once_and_released():
    f = jitted(affine)
    x, w = data(9, 24), prebake.freeze(data(24, 40))
    before = _dispatch.pack_stats()[0]
    for _ in range(3):
        np.testing.assert_allclose(f(x, w), f.__wrapped__(x, w), rtol=1e-4, atol=1e-5)
    assert _dispatch.pack_stats()[0] == before + 1
    del w
    gc.collect()
    assert _dispatch.pack_stats()[0] == before


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
    before, alive = _dispatch.pack_stats()[0], {}
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
    assert _dispatch.pack_stats()[0] == before + len(alive)
    alive.clear()
    gc.collect()
    assert _dispatch.pack_stats()[0] == before


def test_writable_weights_are_never_packed():
    f, x, w = jitted(affine), data(5, 16), data(16, 32)
    before = _dispatch.pack_stats()[0]
    for factor in (1, 2, 3):
        w *= factor
        np.testing.assert_allclose(f(x, w), f.__wrapped__(x, w), rtol=1e-4, atol=1e-5)
    assert _dispatch.pack_stats()[0] == before


def test_weights_over_bytes_are_packed_while_their_array_lives():
    f, x = jitted(affine), data(5, 16)
    w = np.frombuffer(data(16, 32).tobytes(), np.float32).reshape(16, 32)
    before = _dispatch.pack_stats()[0]
    np.testing.assert_allclose(f(x, w), f.__wrapped__(x, w), rtol=1e-4, atol=1e-5)
    del w
    gc.collect()
    assert _dispatch.pack_stats()[0] == before


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


# --- accounts -------------------------------------------------------------------------------------------------------

def test_misses_are_counted_by_shape():
    f, w = jitted(affine), data(4, 2)
    for n in (3, 5, 3, 3):
        f(data(n, 4), w)
    misses = f.stats()["misses"]
    assert [m["count"] for m in misses] == [3, 1]
    assert misses[0]["shape"]["x.shape[0]"] == 3
    assert {m["reason"] for m in misses} == {"NO_BUNDLE"}
    assert {m["nearest"] for m in misses} == {None}


def test_shapes_beyond_the_table_are_counted_together():
    f = prebake.jit(np_free, options={"max_shapes": 4})
    for n in range(1, 11):
        f(np.ones(n))
    misses = f.stats()["misses"]
    assert sum(m["count"] for m in misses) == 10
    assert {"shape": {}, "reason": "NO_BUNDLE", "nearest": None, "count": 6} in misses


def test_all_functions_and_prometheus_text():
    scaled(np.ones(3))
    assert prebake.stats()["test_dispatch:scaled"]["calls"] >= 1
    lines = prebake.metrics().splitlines()
    assert any(line.startswith('prebake_calls_total{function="test_dispatch:scaled",engine="jit"} ') for line in lines)
    for line in lines:
        assert line.startswith("# ") or float(line.rpartition(" ")[2]) >= 0


def test_explain_does_not_run_the_function():
    f, x, w = jitted(affine), data(3, 4), data(4, 2)
    about = f.explain(x, w)
    assert (about.engine, about.reason, about.nearest) == ("jit", "NO_BUNDLE", None)
    assert "x.shape[0]" in about.yaml
    assert "jit" in str(about)
    assert f.stats()["calls"] == 0
    with prebake.engine("interpreter"):
        assert f.explain(x, w).engine == "interpreter"


def test_named_shapes_are_checked_on_every_engine():
    @prebake.jit(shapes={"x": "b d", "w": "d//2 k"})
    def halves(x, w):
        return x[:, :x.shape[1] // 2] @ w

    x = data(3, 8)
    for engine in ("jit", "interpreter", "python"):
        with prebake.engine(engine):
            assert halves(x, data(4, 2)).shape == (3, 2)
            with pytest.raises(ValueError, match=r"w\.shape\[0\] is 5, but 'd//2' is 4"):
                halves(x, data(5, 2))
    assert halves.stats()["misses"] == [] or "b" in halves.stats()["misses"][0]["shape"]


def test_a_runaway_specialisation_is_given_up(monkeypatch, capsys):
    from prebake.vm.plan import planner

    def endless(*args):
        while True:
            with contextlib.suppress(Exception):  # planners may handle errors of their own
                sum(range(100))

    f = prebake.jit(np_free, options={"jit_timeout_ms": 30})
    monkeypatch.setattr(planner, "plan_live", endless)
    monkeypatch.setenv("PREBAKE_LOG", "1")
    for _ in range(3):
        np.testing.assert_array_equal(f(np.ones(3)), [2, 2, 2])
    assert f.stats()["interpreter"] == 3
    text = capsys.readouterr().err
    assert text.count("gave up after") == 1 and "jit_timeout_ms" in text
    monkeypatch.undo()
    np.testing.assert_array_equal(f(np.ones(4)), [2, 2, 2, 2])
    assert f.stats()["jit"] == 1


def test_refusals_are_remembered_and_tried_again(monkeypatch):
    from prebake.vm.plan import planner

    tries = []

    def refuse(*args):
        tries.append(args)
        raise planner.PlanRefused("for the test")

    f = prebake.jit(np_free)
    monkeypatch.setattr(planner, "plan_live", refuse)
    for n in range(1, 30):
        f(np.ones(n))
    assert len(tries) == 8
    for _ in range(70):
        f(np.ones(3))
    assert len(tries) == 9


def test_a_fault_of_the_planner_is_loud_and_the_call_is_served(monkeypatch):
    from prebake.vm.plan import planner

    def broken(*args):
        raise ZeroDivisionError("a bug")

    f = prebake.jit(np_free)
    monkeypatch.setattr(planner, "plan_live", broken)
    with pytest.warns(RuntimeWarning, match="ZeroDivisionError: a bug"):
        np.testing.assert_array_equal(f(np.ones(3)), [2, 2, 2])
    strict = prebake.jit(np_free, options={"strict": True})
    with pytest.raises(prebake.InternalError, match="a bug"):
        strict(np.ones(3))


def test_each_compile_is_one_line_of_the_log(monkeypatch, capsys):
    monkeypatch.setenv("PREBAKE_LOG", "1")
    f = jitted(affine)
    for n in (3, 4, 5):
        f(data(n, 4), data(4, 2))
    lines = [line for line in capsys.readouterr().err.splitlines() if "Compiled" in line]
    assert len(lines) == 1
    assert lines[0].startswith("prebake: Compiled test_dispatch:affine for input shape (3, 4), (4, 2) -> (3, 2) in ")


# --- threads and forks ----------------------------------------------------------------------------------------------

def test_many_threads():
    f, w = jitted(affine), data(16, 16)
    failures = []

    def work(seed):
        for n in range(1, 60):
            x = data(n * (seed + 1), 16, seed=seed)
            if not np.allclose(f(x, w), f.__wrapped__(x, w), rtol=1e-4, atol=1e-5):
                failures.append((seed, n))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert f.stats()["calls"] == 6 * 59


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_works_in_a_forked_child():
    x, w = data(40, 16), data(16, 16)
    expected = affine(x, w)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, b"1" if np.array_equal(affine(x, w), expected) else b"0")
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(read, 1) == b"1"


def _plans_in_a_child(x):
    """What a forked child says of a function that it plans itself; '' when it does not end."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, b"1" if np.array_equal(prebake.jit(affine.__wrapped__)(x, x), affine.__wrapped__(x, x)) else b"0")
        finally:
            os._exit(0)
    os.close(write)
    found, _, _ = select.select([read], [], [], 20)
    if not found:
        os.kill(pid, signal.SIGKILL)
    answer = os.read(read, 1)
    os.close(read)
    os.waitpid(pid, 0)
    return answer


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("patience", [forks.PATIENCE_S, 0.0])
def test_a_child_that_is_forked_while_another_thread_plans(monkeypatch, patience):
    monkeypatch.setattr(forks, "PATIENCE_S", patience)
    x = data(5, 5)
    begun, ended = threading.Event(), threading.Event()
    trim = planner.trim_interned

    def slowly(*limit):
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            ended.wait(0.3)
        trim(*limit)

    monkeypatch.setattr(planner, "trim_interned", slowly)
    thread = threading.Thread(target=lambda: prebake.jit(affine.__wrapped__)(x, x))
    thread.start()
    assert begun.wait(20)
    try:
        assert _plans_in_a_child(x) == b"1"
    finally:
        ended.set()
        thread.join()
    assert _plans_in_a_child(x) == b"1"  # nobody holds anything


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


def test_statistics_while_other_threads_work():
    """Functions are decorated, and misses written down, by other threads while somebody asks for the numbers."""
    def doubled(x):
        return x * 2

    jitted = prebake.jit(doubled)
    jitted(np.ones(3))
    state = jitted._state
    done = threading.Event()
    kept = []

    def work():
        for i in itertools.count():
            if done.is_set():
                return
            state.settled[((("x.shape[0]", i % 5000),), "NO_BUCKET")] = 1
            if i % 10 == 0:
                kept.append(prebake.jit(doubled))
                del kept[:-300]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=work) for _ in range(2)]
    try:
        for thread in threads:
            thread.start()
        for _ in range(15):
            assert jitted.stats()["calls"] == 1
            prebake.stats()
    finally:
        done.set()
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()


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
