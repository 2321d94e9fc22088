"""`prebake.debug` in decorated functions: dumps are written and break points stop, whichever engine is asked for."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import prebake
from prebake.debug import dump_tensor

ENGINES = ("auto", "jit", "interpreter", "python")


@prebake.jit
def dumped(x, names=("first", "second")):
    total = 0.0
    for i in range(2):
        y = prebake.debug.dump_tensor(x * (i + 2), f"y{i}")
        total = total + y.sum()
    dump_tensor(x)
    dump_tensor((x, x + 1), name="../two/x")
    return total


def helper(a):
    inner = a + 1
    prebake.debug.breakpoint()
    return inner * 2


@prebake.jit
def stopped(x, k=3):
    y = x * k
    if k > 5:
        late = y + 1
        y = late
    prebake.debug.breakpoint(y, k)
    z = helper(y)
    return z


def line_of(function, text):
    """The number of the line of a function that holds a text."""
    code = function.__code__
    with open(code.co_filename, encoding="utf-8") as file:
        lines = file.read().splitlines()
    return next(n for n in range(code.co_firstlineno, len(lines)) if text in lines[n - 1])


@pytest.mark.parametrize("engine", ENGINES)
def test_dumps_are_written_and_the_result_is_numpys(engine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("prebake.vm.run.debug._counts", {})
    x = np.arange(4, dtype=np.float32)
    with prebake.engine(engine):
        result = dumped(x)
    assert result == (x * 2).sum() + (x * 3).sum()
    assert sorted(os.listdir(tmp_path)) == ["_two_x.npz", "tensor.npz", "y0.npz", "y1.npz"]
    with np.load("y1.npz") as file:
        assert np.array_equal(file["y1"], x * 3) and file["y1"].dtype == np.float32
    with np.load("_two_x.npz") as file:
        assert [np.array_equal(file[f"arr_{i}"], x + i) for i in (0, 1)] == [True, True]


@pytest.mark.parametrize("engine", ENGINES[:3])
def test_a_break_point_stops_at_its_line_with_the_locals(engine, monkeypatch, capsys):
    seen = []

    def hook():
        frame = sys._getframe(1)
        seen.append((frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno, dict(frame.f_locals), frame.f_globals))

    monkeypatch.setattr(sys, "breakpointhook", hook)
    x = np.arange(3.0)
    with prebake.engine(engine):
        result = stopped(x)
    assert np.array_equal(result, (x * 3 + 1) * 2)
    (path, name, line, held, names), (_, inner_name, inner_line, inner, _) = seen
    assert (path, name, line) == (__file__, "stopped", line_of(stopped.fn, "breakpoint(y, k)"))
    assert names["helper"] is helper and "late" not in held
    assert np.array_equal(held["y"], x * 3) and held["x"] is x and held["k"] == 3 and held["tensors"] == (held["y"], 3)
    assert (inner_name, inner_line) == ("helper", line_of(helper, "breakpoint()"))
    assert np.array_equal(inner["a"], x * 3) and np.array_equal(inner["inner"], x * 3 + 1) and "y" not in inner
    assert capsys.readouterr().err == "tensors[0] float64[3]\ntensors[1] 3\n"


SCRIPT = """import numpy as np
import prebake.debug

@prebake.jit
def scaled(x):
    y = x * 3
    prebake.debug.breakpoint()
    return y + 1

for engine in ("auto", "python"):
    with prebake.engine(engine):
        scaled(np.arange(3.0))
"""


def test_pdb_shows_the_users_line(tmp_path):
    """In a process of its own: pytest has a pdb of its own too."""
    (tmp_path / "script.py").write_text(SCRIPT)
    env = {key: value for key, value in os.environ.items() if key != "PYTHONBREAKPOINT"}
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=env, text=True, timeout=60,
                          input="p y.tolist()\nc\n" * 2, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("scaled()") == 2 and done.stdout.count("[0.0, 3.0, 6.0]") == 2
    assert "script.py(7)scaled()" in done.stdout and "debug.py(" not in done.stdout
