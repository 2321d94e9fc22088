"""Profiles: what is counted, what is written, and what survives processes that die."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from dispatch_helpers import Base, Other, Third

import prebake
from prebake.vm.lang.bytecode import Program
from prebake.vm.plan.signature import Signature
from prebake.vm.run import recorder


def load(path):
    return json.loads(path.read_text())


def double(x):
    return x * 2.0


def repeat(x, n):
    return np.tile(x, n)


def shapes_of(profile, name, index=0):
    signature = profile["functions"][name]["signatures"][index]
    n = len(signature["symbols"])
    return {tuple(row[:n]): row[n] for row in signature["shapes"]}


def test_joint_shapes_are_counted(tmp_path):
    f = prebake.jit(double)
    f(np.ones((9, 9)))  # before: not in the profile
    with prebake.profile(tmp_path / "p.json"):
        for n in (3, 5, 3, 9):
            f(np.ones((n, 2 * n)))
        f(np.ones((9, 9)))
    f(np.ones((4, 4)))
    profile = load(tmp_path / "p.json")
    assert profile["version"] == 1
    found = profile["functions"]["test_recorder:double"]
    assert found["calls"] == 5 and found["unplanned"] == 0
    assert shapes_of(profile, "test_recorder:double") == {(3, 6): 2, (5, 10): 1, (9, 18): 1, (9, 9): 1}
    signature = found["signatures"][0]
    assert signature["symbols"] == ["x.shape[0]", "x.shape[1]"]
    assert Signature.from_json(signature["rows"]).rows[0].dtype == "f64"
    assert set(signature["sample"]) >= {"x.shape[0]", "x.shape[1]"}
    assert not any(".data" in name for name in signature["sample"])
    program = Program.from_bytes(base64.b64decode(found["msbc"]))
    assert program.digest == found["digest"] == f.bytecode.digest
    rows = signature["shapes"]
    assert all(ns >= 0 and 0 <= timed <= calls for *_, calls, ns, timed in rows)
    assert sum(row[-1] for row in rows) > 0


def test_dtypes_and_layouts_are_signatures_of_their_own(tmp_path):
    f = prebake.jit(double)
    with prebake.profile(tmp_path / "p.json"):
        f(np.ones((2, 3)))
        f(np.ones((2, 3), np.float32))
        f(np.ones((4, 6))[::2, ::2])
    signatures = load(tmp_path / "p.json")["functions"]["test_recorder:double"]["signatures"]
    assert sorted((s["rows"][0]["dtype"], s["rows"][0]["layout"]) for s in signatures) == [
        ("f32", "C"), ("f64", "C"), ("f64", "S")]


def test_no_values_are_written(tmp_path):
    f = prebake.jit(double)
    with prebake.profile(tmp_path / "p.json"):
        f(np.full(3, 1234567.125))
    assert "1234567" not in (tmp_path / "p.json").read_text()


def test_equal_counts_give_equal_bytes(tmp_path):
    texts = []
    for order in ((3, 5, 3), (5, 3, 3)):
        f = prebake.jit(double)
        session = recorder.Session()
        for n in order:
            f(np.ones((n, n)))
        profile = session.to_json()
        session.close()
        for function in profile["functions"].values():
            for signature in function["signatures"]:
                signature["sample"] = {}
                for row in signature["shapes"]:
                    row[-2:] = 0, 0  # times differ
        recorder.write_profile(str(tmp_path / "p.json"), profile)
        texts.append((tmp_path / "p.json").read_bytes())
    assert texts[0] == texts[1]


def test_functions_that_die_are_kept(tmp_path):
    with prebake.profile(tmp_path / "p.json"):
        prebake.jit(double)(np.ones(3))
        prebake.jit(double)(np.ones(3))
    assert shapes_of(load(tmp_path / "p.json"), "test_recorder:double") == {(3,): 2}


def test_rare_shapes_are_counted_as_other(tmp_path):
    f = prebake.jit(double, options={"max_shapes": 4})
    with prebake.profile(tmp_path / "p.json"):
        for n in range(1, 11):
            f(np.ones(n))
    signature = load(tmp_path / "p.json")["functions"]["test_recorder:double"]["signatures"][0]
    assert len(signature["shapes"]) == 4 and signature["other"] == 6


def shifted(x, y):
    x += y
    return x


def test_interpreted_calls_are_counted_as_unplanned(tmp_path):
    f = prebake.jit(shifted)
    with prebake.profile(tmp_path / "p.json"):
        base = np.ones(4)
        f(base[1:], base[:3])  # a written argument that overlaps another
    assert f.stats()["interpreter"] == 1, "planned by now: another function that is not, please"
    found = load(tmp_path / "p.json")["functions"]["test_recorder:shifted"]
    assert found["calls"] == 1 and found["unplanned"] == 1 and found["signatures"] == []


def test_calls_sent_to_an_engine_by_name_are_no_traffic(tmp_path):
    """A warm-up that compares with `engine("python")` must not halve the predicted hit rate."""
    f = prebake.jit(double)
    with prebake.profile(tmp_path / "p.json"):
        for name in ("python", "interpreter", "jit", "auto"):
            with prebake.engine(name):
                f(np.ones(3))
    found = load(tmp_path / "p.json")["functions"]["test_recorder:double"]
    assert found["calls"] == 2 and found["unplanned"] == 0
    assert shapes_of(load(tmp_path / "p.json"), "test_recorder:double") == {(3,): 2}


def test_merging_adds_up_and_a_changed_program_replaces():
    def part(digest, rows):
        return {"f": {"digest": digest, "options": {}, "calls": 2, "unplanned": 0, "signatures": [
            {"rows": [], "symbols": ["n"], "sample": {"n": rows[0][0]}, "shapes": rows, "other": 1}]}}

    merged: dict = {}
    recorder.merge_functions(merged, part("a", [[3, 1, 10, 1]]))
    recorder.merge_functions(merged, part("a", [[2, 5, 0, 0], [3, 2, 20, 1]]))
    assert merged["f"]["calls"] == 4
    assert merged["f"]["signatures"] == [{"rows": [], "symbols": ["n"], "sample": {"n": 2},
                                          "shapes": [[2, 5, 0, 0], [3, 3, 30, 2]], "other": 2}]
    recorder.merge_functions(merged, part("b", [[7, 1, 0, 0]]))
    assert merged["f"]["digest"] == "b" and merged["f"]["calls"] == 2


SCRIPT = """
    import os, sys, time
    import numpy as np
    import prebake

    @prebake.jit
    def work(x):
        return x + 1.0

    def main():
        for n in map(int, sys.argv[2:]):
            work(np.ones(n))
        if sys.argv[1] == "hang":
            print("ready", flush=True)
            time.sleep(60)
        if sys.argv[1] == "fork":
            pid = os.fork()
            if pid == 0:
                work(np.ones(99))
                sys.exit(0)
            os.waitpid(pid, 0)
        if sys.argv[1] == "pool":
            import multiprocessing
            with multiprocessing.get_context("fork").Pool(2) as pool:
                pool.map(call, [70, 71])
                pool.close()
                pool.join()

    def call(n):
        work(np.ones(n))

    if __name__ == "__main__":
        main()
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "service.py"
    path.write_text(textwrap.dedent(SCRIPT))
    profile = tmp_path / "profile.json"
    env = {**os.environ, "PREBAKE_PROFILE": str(profile), "PREBAKE_PROFILE_INTERVAL": "0.1",
           "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}

    def run(*args, **kwargs):
        return subprocess.Popen([sys.executable, str(path), *args], env=env, cwd=tmp_path, stdout=subprocess.PIPE,
                                **kwargs)

    return run, profile


def test_processes_merge_at_exit(script):
    run, profile = script
    for numbers in (("3", "4"), ("4",)):
        assert run("end", *numbers).wait(60) == 0
    assert shapes_of(load(profile), "service:work") == {(3,): 1, (4,): 2}
    assert not [name for name in os.listdir(f"{profile}.d") if name.endswith(".json")]


def test_a_killed_process_loses_at_most_its_last_interval(script):
    run, profile = script
    process = run("hang", "5", "6")
    assert process.stdout.readline() == b"ready\n"
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not (os.path.isdir(f"{profile}.d") and any(
            n.endswith(".json") for n in os.listdir(f"{profile}.d"))):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait(20)
    assert not profile.exists()
    assert run("end", "7").wait(60) == 0
    assert shapes_of(load(profile), "service:work") == {(5,): 1, (6,): 1, (7,): 1}


def test_forked_children_count_for_themselves(script):
    run, profile = script
    assert run("fork", "3").wait(60) == 0
    assert shapes_of(load(profile), "service:work") == {(3,): 1, (99,): 1}


def test_workers_of_a_pool_are_counted(script):
    run, profile = script
    assert run("pool", "3").wait(60) == 0
    assert shapes_of(load(profile), "service:work") == {(3,): 1, (70,): 1, (71,): 1}


def test_a_profile_that_is_no_profile_is_not_merged_into(script):
    run, profile = script
    profile.write_text("{half")
    assert run("end", "3").wait(60) == 0
    assert shapes_of(load(profile), "service:work") == {(3,): 1}


def test_functions_that_go_while_a_profile_is_made(monkeypatch):
    """The garbage collector may take a function in the middle of a merge: nothing breaks, nothing is lost."""
    import gc

    from prebake.vm.run import function, recorder

    def first(x):
        return x + 1

    def second(x):
        return x + 2

    def leave_behind(body):
        made = prebake.jit(body)
        made(np.ones(3))
        body.__dict__["itself"] = made  # only the collector takes them

    merge = recorder._merge_function

    def merge_and_collect(*args):
        gc.collect()
        merge(*args)

    session = recorder.Session()
    try:
        gc.disable()
        leave_behind(first)
        del first
        gc.collect()
        leave_behind(second)
        del second
        monkeypatch.setattr(recorder, "_merge_function", merge_and_collect)
        session.to_json()
        monkeypatch.undo()
        functions = session.to_json()["functions"]
    finally:
        gc.enable()
        function.sessions.remove(session)
    assert sorted(f["calls"] for name, f in functions.items() if "goes_while" in name or "functions_that_go" in name) == [1, 1]


def test_calls_of_variants_are_recorded_as_unplanned_while_they_live_and_after(tmp_path, monkeypatch):
    """They run other programs: no bucket of this one serves them, but they are calls of the function."""
    from prebake.vm.run import variants

    x = np.ones(3)
    with prebake.profile(tmp_path / "profile.json") as session:
        for _ in range(2):
            Base().run(x)
        for _ in range(3):
            Third().run(x)

        def counted():
            (found,) = [f for name, f in session.to_json()["functions"].items() if name.endswith("Base.run")]
            rows = [row[-3] for signature in found["signatures"] for row in signature["shapes"]]
            return found["calls"], found["unplanned"], sum(rows)

        assert counted() == (5, 3, 2)
        monkeypatch.setattr(variants, "MAX_VARIANTS", 1)
        for kind in (Other, Third, Other):  # each drops the one before
            kind().run(x)
        assert len(Base.run._state.variants) == 1
        assert counted() == (8, 6, 2)
