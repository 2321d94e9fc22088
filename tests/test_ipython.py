"""The notebook extension, in a shell of IPython."""

from __future__ import annotations

import pytest

pytest.importorskip("IPython")

CELL = """import numpy as np

def helper(x):
    return np.maximum(x, 0)

def model(x, w):
    return helper(x @ w) + 1

y = model(np.ones((2, 3)), np.ones((3, 4)))
"""


@pytest.fixture
def shell(monkeypatch, tmp_path):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    from IPython.core.interactiveshell import InteractiveShell

    InteractiveShell.clear_instance()
    made = InteractiveShell()
    made.run_line_magic("load_ext", "prebake")
    yield made
    made.run_line_magic("unload_ext", "prebake")
    InteractiveShell.clear_instance()


def run(shell, text, success=True):
    result = shell.run_cell(text)
    assert result.success == success, result
    return result


def test_a_cell_is_compiled_run_and_shown(shell, capsys):
    run(shell, "%%prebake\n" + CELL)
    out = capsys.readouterr().out
    assert shell.user_ns["y"].tolist() == [[4.0] * 4] * 2
    assert out.count("=== ") == 2 and "BINARY_ADD_TENSOR" in out
    assert "product f64" in out and "jit 1" in out and "not prebuilt 1 times: NO_BUNDLE" in out
    assert "no plan yet" in out  # the helper was inlined
    run(shell, "model(np.ones((2, 3)), np.ones((3, 4)))\n%prebake model hits")
    out = capsys.readouterr().out
    assert "2 calls" in out and "BINARY_ADD_TENSOR" not in out


def test_cells_of_other_kinds_are_left_alone(shell, capsys):
    run(shell, "def plain(x):\n    return x\n%prebake plain nothing")
    assert type(shell.user_ns["plain"]).__name__ == "function" and not shell.ast_transformers
    assert capsys.readouterr().out == "plain: not a function of prebake\nnothing: no such name\n"
    run(shell, "%%prebake plans\n1")
    assert "does not know 'plans'" in capsys.readouterr().out


REFUSED = "%%prebake {}\ndef bad(x):\n    print(x)\n    return x\n\nbad(1)\n"


def test_refusals_point_at_the_cell(shell, capsys):
    run(shell, REFUSED.format("bytecode"), True)
    out = capsys.readouterr()
    assert "printing is not supported" in out.out + out.err and "print(x)" in out.out + out.err
    with pytest.warns(RuntimeWarning, match="printing is not supported"):
        run(shell, REFUSED.format("--fallback hits"))
    assert "printing is not supported" in capsys.readouterr().out
