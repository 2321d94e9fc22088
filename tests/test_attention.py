"""Attention block by block: the same results, one block of scores in memory, and what does not fit is left alone."""

from __future__ import annotations

import numpy as np
import pytest
from plan_build import Builder
from plan_models import softmax, transformer_layer
from test_fuse import compare, kinds

import prebake
import prebake.vm.plan.attention as attention
from prebake.vm.plan.extents import symbol
from prebake.vm.plan.steps import Contract, ForStep, Nest, walk


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(attention, "LEAST_ROWS", 5)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(list(shape)).standard_normal(shape).astype(np.float32)


def soft(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def masked(q, k, v, penalty):
    return soft(q @ k.swapaxes(-1, -2) * 0.25 - penalty) @ v


def causal(q, k, v):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    seen = np.arange(q.shape[-2])[:, None] >= np.arange(k.shape[-2])
    return soft(np.where(seen, scores, np.float32(-1e9))) @ v


def heads_of_rows(x, wq, wk, wv):
    s, d = x.shape
    q, k, v = [(x @ w).reshape(s, 4, d // 4).transpose(1, 0, 2) for w in (wq, wk, wv)]
    return (soft(q @ k.swapaxes(-1, -2)) @ v).transpose(1, 0, 2).reshape(s, d)


def without_softmax(q, k, v):
    return np.maximum(q @ k.swapaxes(-1, -2), 0) @ v


def by_hand(q, k, v):  # one row of scores is all -inf: nan, as NumPy has it
    scores = q @ k.swapaxes(-1, -2)
    scores = np.where(scores > 1e3, scores, np.float32(-np.inf))
    return soft(scores) @ v


SHAPES = [(1, 1, 1, 1, 4), (2, 3, 37, 37, 8), (3, 2, 5, 90, 16), (2, 2, 64, 7, 4), (1, 12, 33, 33, 32), (0, 2, 3, 3, 4),
          (2, 2, 0, 3, 4), (4, 5, 2, 2, 3)]


@pytest.mark.parametrize("function", [masked, causal, without_softmax, by_hand])
@pytest.mark.parametrize("off", [(), ("attention",)])
def test_batches_heads_and_lengths(function, off) -> None:
    fast = prebake.jit(function, options={"disable_fusions": list(off)})
    with prebake.engine("jit"), np.errstate(all="ignore"):
        for b, h, s, t, d in SHAPES:
            args = [normal(b, h, s, d), normal(b, h, t, d), normal(b, h, t, d)]
            if function is masked:
                args.append(normal(b, 1, 1, t))
            if function is by_hand:
                args[0][..., :1, :] = 1e4
                args[1] = np.abs(args[1])
            got, want = fast(*args), function(*args)
            assert got.dtype == want.dtype and got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)
    assert fast.stats()["jit"] == len(SHAPES)


def test_heads_lie_between_heads() -> None:
    fast = prebake.jit(heads_of_rows)
    with prebake.engine("jit"):
        for rows in (1, 2, 40, 75):
            args = [normal(rows, 16), *(normal(16, 16) * f for f in (0.1, 0.2, 1.0))]
            np.testing.assert_allclose(fast(*args), heads_of_rows(*args), rtol=2e-4, atol=2e-5)


def test_the_whole_score_matrix_is_never_in_memory() -> None:
    peak = {}
    for name, off in (("on", []), ("off", ["attention"])):
        fast = prebake.jit(masked, options={"disable_fusions": off})
        with prebake.engine("jit"):
            fast(normal(1, 4, 256, 8), normal(1, 4, 256, 8), normal(1, 4, 256, 8), normal(1, 1, 1, 256))
        peak[name] = fast.stats()["peak_arena_bytes"]
    assert peak["off"] > 4 * 256 * 256 * 4 and peak["on"] < 40_000


def test_a_layer_becomes_loops_and_divides_late() -> None:
    plan = compare(transformer_layer(), {"x.shape[0]": 30})
    loops = [step for step in walk(plan.steps) if isinstance(step, ForStep) and isinstance(step.body[-1], Nest)
             and isinstance(step.body[0], Contract) and not step.body[0].b.buffer.constant]
    (loop,) = loops
    assert kinds(loop.body) == ["Contract", "Nest", "Nest", "Contract", "Nest"]
    assert [op.op for op in loop.body[-1].ops] == ["div"]
    (note,) = plan.fired["attention"]
    assert "divided after" in note


def test_scores_that_are_read_again_stay() -> None:
    b = Builder()
    s = symbol("x.shape[0]")
    x, y, z = b.arg("x", [s, 4]), b.arg("y", [s, 4]), b.arg("z", [s, 4])
    scores = b.matmul(x, b.transpose(y, (1, 0)))
    b.ret(b.matmul(softmax(b, scores), z), scores)
    plan = compare(b, {"x.shape[0]": 30})
    assert "attention" in plan.fired and "no place" in plan.fired["attention"][0]
