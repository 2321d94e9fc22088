"""What a call needs at most and how many kernels it launches: counted on every engine, below the unfused program's memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import prebake
from prebake.pgo.tier import compile_code
from prebake.vm.plan.code_json import dispatch_spec
from prebake.vm.plan.lower import lower_plan
from prebake.vm.run import _dispatch

RNG = np.random.default_rng(11)


def values(*shape):
    return RNG.random(shape).astype(np.float32)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def norm(x, g, b):
    mean = x.mean(axis=-1, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * g + b


def perceptron(x, w1, b1, w2, b2):
    return np.maximum(x @ w1 + b1, 0) @ w2 + b2


def attention(q, k, v):
    s = q @ k.swapaxes(-1, -2) * np.float32(0.125)
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True)) @ v


def smoothed(x, steps):
    for _ in range(steps):
        x = (x[1:-1] + x[:-2] + x[2:]) / 3
    return x


CASES = {
    "gelu": (gelu, (values(900, 512),)),
    "softmax": (softmax, (values(900, 512),)),
    "norm": (norm, (values(900, 512), values(512), values(512))),
    "perceptron": (perceptron, (values(2000, 64), values(64, 512), values(512), values(512, 32), values(32))),
    "attention": (attention, (values(8, 300, 64), values(8, 300, 64), values(8, 300, 64))),
    "smoothed": (smoothed, (values(300_000), 4)),
}


def unfused_peak(function, args):
    """Bytes that NumPy holds at most while it runs the function, its result included."""
    function(*args)
    tracemalloc.start()
    try:
        function(*args)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def with_kernel(f):
    """The function with its plan compiled, served as a bundle's kernel is."""
    (entry,) = f._entries()[1]
    code = lower_plan(entry.note)
    table, name = compile_code(code)
    made = _dispatch.Entry(entry.row_tuples, dispatch_spec(code), 1024)
    assert made.use_kernels(table, [(name, {})]) == 1
    f._set_prebuilt([made])


@pytest.mark.parametrize("name", CASES)
def test_peak_is_below_the_unfused_programs(name):
    function, args = CASES[name]
    f = prebake.jit(function)
    result = f(*args)
    np.testing.assert_allclose(result, function(*args), rtol=1e-3, atol=1e-5)
    tape = f.stats()
    assert (tape["jit"], tape["interpreter"]) == (1, 0)
    limit = unfused_peak(function, args)
    assert tape["peak_arena_bytes"] + result.nbytes < limit
    with_kernel(f)
    np.testing.assert_allclose(f(*args), result, rtol=1e-3, atol=1e-5)
    both = f.stats()
    assert both["prebuilt"] == 1 and both["peak_arena_bytes"] + result.nbytes < limit
    assert both["kernels_launched"] == tape["kernels_launched"] + 1, "a bundle's kernel is one launch"


@pytest.mark.parametrize("name", ["gelu", "softmax", "norm"])
def test_what_is_fused_needs_no_memory_of_the_inputs_size(name):
    function, args = CASES[name]
    f = prebake.jit(function)
    f(*args)
    assert f.stats()["peak_arena_bytes"] < args[0].nbytes / 4
    plain = prebake.jit(function, options={"disable_fusions": ["chain", "reduce_epilogue", "row_softmax", "row_norm"]})
    plain(*args)
    assert plain.stats()["peak_arena_bytes"] >= args[0].nbytes
    assert plain.stats()["kernels_launched"] > f.stats()["kernels_launched"]


def test_the_peak_is_the_largest_calls():
    f = prebake.jit(perceptron)
    peaks = []
    for n in (10, 1000, 20):
        x, *rest = CASES["perceptron"][1]
        f(x[:n], *rest)
        peaks.append(f.stats()["peak_arena_bytes"])
    assert peaks[0] < peaks[1] == peaks[2]
    row = prebake.stats()[f.name]
    assert row["peak_arena_bytes"] >= peaks[2]
    text = prebake.metrics()
    for metric in ("prebake_peak_arena_bytes", "prebake_kernels_launched_total"):
        assert f'{metric}{{function="{f.name}"}} ' in text


def test_kernels_are_counted_for_each_call_of_a_plan():
    f = prebake.jit(softmax)
    x = values(5, 7)
    f(x)
    one = f.stats()["kernels_launched"]
    assert one >= 1
    for n in range(6, 16):
        f(values(n, 7))
    assert f.stats()["kernels_launched"] == 11 * one


@pytest.mark.parametrize("engine", ["interpreter", "python"])
def test_engines_without_kernels_launch_none_and_have_no_arena(engine):
    f = prebake.jit(softmax)
    with prebake.engine(engine):
        f(values(5, 7))
    stats = f.stats()
    assert (stats[engine], stats["kernels_launched"], stats["peak_arena_bytes"]) == (1, 0, 0)


def test_a_plan_that_is_not_served_counts_nothing():
    """The budget refuses before anything runs."""
    f = prebake.jit(perceptron, options={"memory_bytes": 64})
    with pytest.raises(MemoryError, match="memory_bytes"):
        f(*CASES["perceptron"][1])
    assert f.stats()["kernels_launched"] == 0
