"""`jit(tier_up=True)`: hot plans become compiled kernels in the background; calls never wait and never fail for it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
from dispatch_helpers import pack_stats

import prebake
from prebake.pgo import object_cache
from prebake.pgo import tier as compiler
from prebake.vm.run import _dispatch, log, tier

OFTEN = 64  # the first call at which the dispatcher looks


@pytest.fixture(autouse=True)
def soon():
    _dispatch.set_hot_calls(OFTEN)
    log._once.clear()
    yield
    _dispatch.set_hot_calls(256)
    wait()


def wait(seconds=90.0):
    end = time.monotonic() + seconds
    while not tier.is_idle():
        assert time.monotonic() < end, "the compiler does not come back"
        time.sleep(0.01)


def heat(f, *args):
    for _ in range(OFTEN + 1):
        result = f(*args)
    wait()
    return result


def planned(f):
    return f._entries()[1]


def dense(x, w, b):
    y = np.maximum(x @ w + b, 0)
    return y - y.max(axis=1, keepdims=True)


def arguments(n):
    rng = np.random.default_rng(n)
    return rng.random((n, 20), np.float32), rng.random((20, 30), np.float32), rng.random(30, np.float32)


def test_a_hot_plan_becomes_a_kernel_for_all_shapes_under_its_facts():
    f = prebake.jit(dense, tier_up=True)
    heat(f, *arguments(5))
    (entry,) = planned(f)
    assert entry.is_prebuilt and entry.kernel_names == [compiler.NAME]
    before = f.stats()
    for n in (5, 6, 40, 3):
        args = arguments(n)
        np.testing.assert_allclose(f(*args), dense(*args), rtol=1e-5, atol=1e-5)
    after = f.stats()
    assert after["jit"] - before["jit"] == 4 and after["kernels_launched"] - before["kernels_launched"] == 4
    assert (before["tier_up"], after["tier_up"]) == (0, 4) and "4 of them by kernels compiled" in str(after)
    assert 'prebake_tier_up_calls_total{function="test_tier_up:dense"}' in prebake.metrics()
    assert after["calls"] == OFTEN + 5 and after["prebuilt"] == after["interpreter"] == 0
    assert sum(miss["count"] for miss in after["misses"]) == after["calls"], "a call of the tape and of the kernel, both missed"


def test_frozen_weights_keep_their_packs():
    f = prebake.jit(dense, tier_up=True)
    x, w, b = arguments(7)
    w, b = prebake.freeze([w, b])
    heat(f, x, w, b)
    assert planned(f)[0].is_prebuilt
    gc.collect()
    packs = pack_stats()
    np.testing.assert_allclose(f(x, w, b), dense(x, w, b), rtol=1e-5, atol=1e-5)
    assert pack_stats() == packs, "one layout of a CPU level: what the tape packed serves the kernel"


def test_errors_and_guards_are_those_of_the_tape():
    def pick(x, i):
        y = x * 2
        return y[i]

    f, g = prebake.jit(pick, tier_up=True), prebake.jit(pick)
    x = np.arange(5.0)
    heat(f, x, 3)
    heat(g, x, 3)
    assert planned(f)[0].is_prebuilt and not planned(g)[0].is_prebuilt
    for h in (f, g):
        assert h(x, -1) == 8
        with pytest.raises(IndexError):
            h(x, 5)
        assert h(np.arange(4), 1) == 2  # another dtype: another plan
    mine, tape = f.stats(), g.stats()
    assert [mine[k] for k in ("calls", "jit", "interpreter")] == [tape[k] for k in ("calls", "jit", "interpreter")]


def test_without_the_option_nothing_is_compiled(monkeypatch):
    monkeypatch.setattr(compiler, "compile_code", lambda code, verified: pytest.fail("compiled"))
    f = prebake.jit(dense)
    heat(f, *arguments(5))
    assert not planned(f)[0].is_prebuilt and planned(f)[0].hot is None


def test_failures_are_logged_once_and_the_tape_goes_on(monkeypatch, tmp_path):
    place = tmp_path / "log"
    monkeypatch.setenv("PREBAKE_LOG", str(place))
    monkeypatch.setenv("CC", "no-such-compiler")
    f = prebake.jit(dense, tier_up=True)
    args = arguments(5)
    np.testing.assert_allclose(heat(f, *args), dense(*args), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(heat(f, *args), dense(*args), rtol=1e-5, atol=1e-5)
    assert not planned(f)[0].is_prebuilt
    lines = [line for line in place.read_text().splitlines() if "tier-up" in line]
    assert len(lines) == 1 and "no-such-compiler" in lines[0] and "the tape stays" in lines[0]


def test_explain_tells_how_far_it_is(monkeypatch):
    args = arguments(5)
    f = prebake.jit(dense, tier_up=True)
    f(*args)
    told = f.explain(*args)
    assert told.engine == "jit" and "no shape was called often enough" in told.detail
    heat(f, *args)
    told = f.explain(*args)
    assert (told.engine, told.kernel, told.reason) == ("tier_up", compiler.NAME, "NO_BUNDLE")
    assert "compiled in the background" in told.detail
    monkeypatch.setenv("CC", "no-such-compiler")
    g = prebake.jit(dense, tier_up=True)
    heat(g, *args)
    told = g.explain(*args)
    assert told.engine == "jit" and "tier-up failed" in told.detail and "no-such-compiler" in told.detail


def test_a_kernel_that_differs_from_the_interpreter_is_not_used(monkeypatch):
    """As in a build: compared at the shapes that were called, in a process of its own."""
    real, jobs = compiler.run_jobs, []

    def wrong(library, given, folder):
        (job,) = given
        jobs.append(job)
        assert real(library, given, folder) == ""
        return real(library, [replace(job, msbc=prebake.jit(other).bytecode.to_bytes())], folder)

    def other(x, w, b):
        y = np.maximum(x @ w + b, 0)
        return y - y.min(axis=1, keepdims=True)

    monkeypatch.setattr(compiler, "run_jobs", wrong)
    f = prebake.jit(dense, tier_up=True)
    args = arguments(5)
    for n in (9, 9, 4):
        f(*arguments(n))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        np.testing.assert_allclose(heat(f, *args), dense(*args), rtol=1e-5, atol=1e-5)
    assert [w for w in told if "differs from the interpreter" in str(w.message) and "Please report" in str(w.message)]
    assert not planned(f)[0].is_prebuilt and f.stats()["tier_up"] == 0
    (job,) = jobs
    assert [corner["x.shape[0]"] for corner in job.corners] == [5, 9]


def test_calls_do_not_wait(monkeypatch):
    import threading

    begun, go = threading.Event(), threading.Event()

    def slow(code, verified):
        begun.set()
        assert go.wait(60)
        raise RuntimeError("enough")

    monkeypatch.setattr(compiler, "compile_code", slow)
    f = prebake.jit(dense, tier_up=True)
    args = arguments(5)
    for _ in range(OFTEN + 1):
        f(*args)
    assert begun.wait(60)
    np.testing.assert_allclose(f(*args), dense(*args), rtol=1e-5, atol=1e-5)
    go.set()
    wait()
    assert not planned(f)[0].is_prebuilt


def test_functions_and_plans_that_are_gone_meanwhile(monkeypatch):
    real, seen = compiler.compile_code, []

    def and_then(code, verified):
        found = real(code, verified)
        seen.append(1)
        f._clear()  # as when a name is rebound
        return found

    monkeypatch.setattr(compiler, "compile_code", and_then)
    f = prebake.jit(dense, tier_up=True)
    args = arguments(5)
    heat(f, *args)
    assert seen and planned(f) == []
    np.testing.assert_allclose(f(*args), dense(*args), rtol=1e-5, atol=1e-5)


def test_the_second_process_finds_it_in_the_cache(monkeypatch):
    heat(prebake.jit(dense, tier_up=True), *arguments(5))
    writes = []
    monkeypatch.setattr(object_cache, "write", lambda key, data: writes.append(key))
    f = prebake.jit(dense, tier_up=True)
    heat(f, *arguments(5))
    assert planned(f)[0].is_prebuilt and not writes


SCRIPT = """
import os, sys, time
import numpy as np, prebake
from prebake.vm.run import _dispatch, tier
_dispatch.set_hot_calls(64)

@prebake.jit(tier_up=True)
def f(x):
    return np.tanh(x) * 3 + %s

x = np.arange(50.0)
for _ in range(65):
    f(x)
if sys.argv[1] == "fork":
    child = os.fork()
    for _ in range(200):
        assert np.allclose(f(x), np.tanh(x) * 3 + %s)
    @prebake.jit(tier_up=True)
    def g(x):
        return x - 2
    for _ in range(65):
        g(x)
    end = time.monotonic() + 100
    while not tier.is_idle() and time.monotonic() < end:
        time.sleep(0.01)
    for h in (f, g):
        assert h._entries()[1][0].is_prebuilt, h
    assert np.allclose(f(x), np.tanh(x) * 3 + %s)
    if child:
        assert os.waitpid(child, 0)[1] == 0
    else:
        os._exit(0)
print("fine")
"""


@pytest.mark.parametrize("how", ["exit", "fork"])
def test_exit_and_fork_while_it_compiles(tmp_path, how):
    """At exit nothing is waited for and nothing is left behind; in a child the work goes on."""
    (tmp_path / "script.py").write_text(SCRIPT.replace("%s", "1" if how == "exit" else "2"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(scratch),
                   "PREBAKE_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "script.py", how], cwd=tmp_path, env=environment, capture_output=True, text=True,
                          timeout=200)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "fine", "")
    if how == "fork":
        assert not list(scratch.glob("prebake-tier-*"))


def test_threads_say_that_they_have_no_effect():
    f = prebake.jit(lambda x: x + 1, threads=3)
    with pytest.warns(RuntimeWarning, match="threads=3 has no effect yet"):
        assert f(1) == 2
    assert prebake.jit(lambda x: x + 1, threads=1)(1) == 2
