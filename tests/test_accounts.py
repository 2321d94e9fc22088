"""Accounts of calls (statistics, misses, refusals, the log), and calls from many threads and forked children."""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import signal
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from dispatch_helpers import affine, data, jitted, np_free, scaled

import prebake
from prebake.vm.plan import planner
from prebake.vm.run import forks, function

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
    assert prebake.stats()["dispatch_helpers:scaled"]["calls"] >= 1
    lines = prebake.metrics().splitlines()
    assert any(line.startswith('prebake_calls_total{function="dispatch_helpers:scaled",engine="jit"} ') for line in lines)
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
    assert lines[0].startswith("prebake: Compiled dispatch_helpers:affine for input shape (3, 4), (4, 2) -> (3, 2) in ")


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


def test_statistics_while_other_threads_work(monkeypatch):
    """Functions are decorated, and misses written down, by other threads while somebody asks for the numbers."""
    monkeypatch.setattr(function, "states", weakref.WeakSet())  # those of other tests would have no end of it
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
    end = time.monotonic() + 3  # the threads are in each other's way: a busy machine takes long
    try:
        for thread in threads:
            thread.start()
        for done_so_far in range(15):
            assert jitted.stats()["calls"] == 1
            prebake.stats()
            if done_so_far > 3 and time.monotonic() > end:
                break
    finally:
        done.set()
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()
