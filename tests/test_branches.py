"""Branches on values whose sides leave, return or raise things of different kinds: on the tape, as NumPy has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from generator_expressions import NEAR
from oracles import Report, check_engines

import prebake

HIGH, LOW = np.arange(1.0, 7.0), np.full(6, 0.1)
Z = np.arange(6.0) - 1j

CASES: dict[str, tuple[str, list[Any]]] = {
    # what is read after a branch differs in kind: the rest of the program is typed behind each side
    "shapes": ("if x.sum() > 2:\n    t = x\nelse:\n    t = x[:2]\nreturn t.sum(), t.shape[0]", [HIGH, LOW]),
    "array or number": ("if x.sum() > 2:\n    t = x * 2\nelse:\n    t = 3\nreturn t + x", [HIGH, LOW]),
    "dtypes": ("if x[0] > 0.5:\n    t = x.astype(np.float32)\nelse:\n    t = x\nreturn t * 2, t.dtype == np.float32",
               [HIGH, LOW]),
    "tuples": ("if x.sum() > 2:\n    t = (x, 1)\nelse:\n    t = (x[1:], 2.0)\nreturn t[0].sum() * t[1]", [HIGH, LOW]),
    "inner branches": ("if x.sum() > 2:\n    if x[0] > 1.5:\n        t = x[1:]\n    else:\n        t = x[2:] * 2\n    s = t + 1\n"
                       "else:\n    s = x[:1]\nreturn s.sum()", [HIGH, LOW, HIGH + 1]),
    "effects in the rest": ("if x.sum() > 2:\n    t = x[1:]\nelse:\n    t = x[:2]\nt += 1\nx[0] = t.size\nreturn t.sum()",
                            [HIGH, LOW]),
    "an argument or not": ("if x.sum() > 2:\n    x = np.roll(x, 1)\n    x[...] -= 1\nreturn x", [HIGH, LOW]),
    "an argument or not, written": ("y = x\nif x.sum() > 2:\n    y = x + 1\ny[0] = 5\nreturn y", [HIGH, LOW]),
    "an argument behind an early return": (
        "if x.size < x[0]:\n    return x * 2\nif x.sum() > 2:\n    x = np.roll(x, 1)\nreturn x", [HIGH, LOW, HIGH * 9]),
    # returns of different kinds
    "returned shapes": ("if x.sum() > 2:\n    return x\nreturn x[:2]", [HIGH, LOW]),
    "returned structure": ("if x.sum() > 2:\n    return x + 1, 3\nreturn None", [HIGH, LOW]),
    "returned from a loop": ("for i in range(x.shape[0]):\n    if x[i] > 0.5:\n        return i, x[i]\nreturn x * 2",
                             [HIGH, LOW]),
    "returned late sizes": ("for i in range(x.shape[0]):\n    if x[i] > 0.5:\n        return x[:i + 1] * 2\n"
                            "return x.astype(np.float32)",
                            [HIGH, LOW, np.array([0.1, 0.2, 0.9])]),
    "returned selections": ("if x.sum() > 2:\n    return x[x > 1]\nreturn x[x < 1] + 1, 2.5", [HIGH, LOW]),
    "returned numbers": ("if x.sum() > 2:\n    return 1\nif x[0] > 0.05:\n    return 2.0\nreturn np.float32(1)",
                         [HIGH, LOW, LOW / 4]),
    "complex numbers": ("if x[0].real > 1:\n    return x[0] * 2, 1\nreturn x[1]", [Z, Z + 2, Z.astype(np.complex64)]),
    "one selection, returned twice": ("y = x[x < 3] * 2\nif x[0] > 0.5:\n    return y, 1\nreturn y, 2.0", [HIGH, LOW]),
    "one selection beside others": ("y = x[x < 3]\nh = x[:2] if x[0] > 0.5 else x > 1\nreturn y, h, y", [HIGH, LOW, HIGH * 9]),
    "complex arrays, returned twice": ("y = x * 1j\nif x[0] > 0.5:\n    return y, 1\nreturn y, None, y", [HIGH, LOW]),
    # a side that raises
    "raise": ("if x[0] < 0.5:\n    raise ValueError('small')\nreturn x * 2", [HIGH, LOW]),
    "text of values": ("if x[0] < 0.5:\n    raise ValueError(f'{x[0]} is small')\nreturn x", [HIGH, LOW]),
    "raise after an effect": ("x *= 2\nif x[0] < 0.5:\n    raise KeyError('small')\nreturn x", [HIGH, LOW]),
    "raise in a loop": ("for i in range(x.shape[0]):\n    x[i] += 1\n    if x[i] < 1.5:\n"
                        "        raise ArithmeticError('small')\nreturn x",
                        [HIGH, LOW]),
}
INTERPRETED: dict[str, tuple[str, list[Any]]] = {  # where the interpreter takes over on one side
    "unassigned": ("if x.sum() > 2:\n    t = 1.5\nreturn x * t", [HIGH, LOW]),
    "out of bounds": ("if x.sum() < 2:\n    return x[100]\nreturn x", [HIGH, LOW]),
    "assert": ("assert x.sum() > 2, 'small'\nreturn x + 1", [HIGH, LOW]),
}


def check(body: str, calls: list[Any]) -> Report:
    source = "import numpy as np\n\ndef f(x):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    report = Report()
    arguments = [[x] for x in calls] * 2
    assert check_engines(source, arguments, grade=NEAR, report=report) == []
    assert not report.refused
    return report


@pytest.mark.parametrize("name", CASES)
def test_on_the_tape(name: str) -> None:
    report = check(*CASES[name])
    assert report.on_tape == report.calls["jit"], report.text()


@pytest.mark.parametrize("name", INTERPRETED)
def test_one_side_interpreted(name: str) -> None:
    report = check(*INTERPRETED[name])
    assert report.on_tape == report.calls["jit"] // 2, report.text()


def test_the_text_of_an_error_after_an_effect() -> None:
    """The interpreter cannot run such a call again: the error is made from the program's constants, without values."""
    @prebake.jit
    def f(x: np.ndarray) -> np.ndarray:
        x += 1
        if x[0] > 2:
            raise LookupError("too large")
        if x[0] < 1:
            raise ValueError(f"{x[0]:.1f} is small")
        return x

    with prebake.engine("jit"):
        assert f(np.zeros(2))[0] == 1
        with pytest.raises(LookupError) as caught:
            f(np.full(2, 5.0))
        assert str(caught.value) == "too large"
        with pytest.raises(ValueError) as small:
            f(np.full(2, -5.0))
        assert str(small.value) == "{...} is small"
    assert f.stats()["interpreter"] == 0
