"""The garbage collector rests while a plan is made, and is left as it was found."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import prebake
from prebake.vm.run import collector
from prebake.vm.run.collector import paused_collector


@pytest.fixture(autouse=True)
def collecting():
    was = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was else gc.disable)()


def test_restored_after_errors_and_inside_each_other():
    with pytest.raises(ZeroDivisionError), paused_collector():
        with paused_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
        1 / 0  # noqa: B018
    assert gc.isenabled()


def test_stays_off_where_it_was_off():
    gc.disable()
    with paused_collector():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_the_last_thread_switches_it_on():
    inside, leave = threading.Event(), threading.Event()

    def other():
        with paused_collector():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with paused_collector():
        thread.start()
        assert inside.wait(10)
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_a_child_collects():
    with paused_collector():
        collector._reset_after_fork()  # as a child does, in which no thread plans
        assert gc.isenabled() and collector._paused == 0
        collector._paused = 1  # the block ends here alone: in a child nobody leaves it
    assert gc.isenabled()


def test_no_collection_while_a_call_plans():
    def softmax(x):
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    x = np.ones((3, 4), np.float32)
    with prebake.engine("jit"):
        prebake.jit(softmax)(x)  # everything is imported
        function, seen = prebake.jit(softmax), []
        _ = function.bytecode

        def note(phase, info):
            seen.append(phase)

        threshold = gc.get_threshold()
        gc.set_threshold(50, 1000, 1000)
        gc.collect()
        gc.callbacks.append(note)
        try:
            function(x)
        finally:
            gc.callbacks.remove(note)
            gc.set_threshold(*threshold)
    assert function.stats()["jit"] == 1
    assert seen.count("start") < 20  # hundreds with the collector on; a few before and after planning


def test_rests_while_a_first_call_compiles_and_plans(monkeypatch):
    from prebake.vm.lang import frontend
    from prebake.vm.plan import lower, planner

    seen = []

    def watched(module, name):
        inner = getattr(module, name)

        def outer(*args, **kwargs):
            seen.append((name, gc.isenabled()))
            return inner(*args, **kwargs)

        monkeypatch.setattr(module, name, outer)

    watched(frontend, "compile_function")
    watched(planner, "plan_live")
    watched(lower, "lower_plan")

    @prebake.jit
    def double(x):
        return x + x

    with prebake.engine("jit"):
        assert double(np.ones(3)).tolist() == [2, 2, 2]
    assert seen == [("compile_function", False), ("plan_live", False), ("lower_plan", False)]
    assert gc.isenabled()
