"""PREBAKE_DUMP=times: every step of the tape is timed, and nothing is while nobody asks."""

from __future__ import annotations

import numpy as np

import prebake
from prebake.vm.run import times


def _made(is_timed: bool, monkeypatch) -> tuple[list, np.ndarray]:
    monkeypatch.setenv("PREBAKE_DUMP", "times" if is_timed else "")
    made: list = []
    monkeypatch.setattr(times, "report_at_exit", lambda *made_of: made.append(made_of[1:]))

    @prebake.jit
    def model(x, w):
        return np.exp(x @ w).sum(axis=1)

    x, w = np.ones((5, 8), np.float32), np.ones((8, 6), np.float32)
    with prebake.engine("jit"):
        for _ in range(3):
            out = model(x, w)
    return made, out


def test_each_step_is_timed(monkeypatch):
    made, out = _made(True, monkeypatch)
    ((code, tape, program),) = made
    steps = tape.step_times()
    assert len(steps) >= 2
    for _, count, elapsed_ns, least_ns in steps:
        assert count == 3 and 0 < least_ns * count <= elapsed_ns
    text = times.times_text(code, tape, program)
    assert all("  # test_times.py:" in line and line.endswith("return np.exp(x @ w).sum(axis=1)")
               for line in text.splitlines()[1:])
    assert "product f32 (?, 8) @ (8, 6)" in text or "product f32 (?, ?) @ (?, ?)" in text
    assert "exp -> sum" in text
    np.testing.assert_allclose(out, np.full(5, 6 * np.exp(np.float32(8))), rtol=1e-5)


def test_without_the_flag_nothing_is_timed(monkeypatch):
    made, _ = _made(False, monkeypatch)
    assert made == []
