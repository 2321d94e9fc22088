"""Functions in which every implemented fusion fires, for the tests that switch fusions off."""

from __future__ import annotations

import numpy as np


def normal(*shape):
    """Seeded float32 values."""
    return np.random.default_rng(list(shape)).standard_normal(shape).astype(np.float32)


def chain(x, y):
    z = (x * 1.5 + y) * x - 0.25
    return np.tanh(z) + np.sqrt(np.abs(y))


def mlp(x, w1, b1, w2, b2):
    return 1 / (1 + np.exp(-(np.maximum(x @ w1 + b1, 0) @ w2 + b2)))


def softmax_rows(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def norm_after_product(x, w, r, gain, bias):
    y = x @ w + r
    mean = y.mean(axis=-1, keepdims=True)
    var = ((y - mean) ** 2).mean(axis=-1, keepdims=True)
    return (y - mean) / np.sqrt(var + 1e-5) * gain + bias


def statistics(x):
    return (x * x).sum(axis=0), np.abs(x).max(axis=1), (x - x.mean()).sum()


def attention(x, wq, wk, wv):
    q, k, v = x @ wq, x @ wk, x @ wv
    scores = softmax_rows(q @ k.T * 0.25)
    return scores @ v


def bag(table, ids, weights):
    return (table[ids] * weights[:, :, None]).sum(axis=1)


def in_loop(x, n):
    for i in range(n):
        x = np.tanh(x) * 0.5 + x[::-1] * (i + 1)
    return x


# name -> (function, arguments by batch size)
FUNCTIONS = {
    "chain": (chain, lambda b: (normal(b, 7), normal(7))),
    "mlp": (mlp, lambda b: (normal(b, 9), normal(9, 17), normal(17), normal(17, 3), normal(3))),
    "softmax_rows": (softmax_rows, lambda b: (normal(b, 33),)),
    "norm_after_product": (norm_after_product, lambda b: (normal(b, 9), normal(9, 21), normal(b, 21), normal(21), normal(21))),
    "statistics": (statistics, lambda b: (normal(b, 6),)),
    "attention": (attention, lambda b: (normal(b, 8), normal(8, 8), normal(8, 8), normal(8, 8))),
    "bag": (bag, lambda b: (normal(30, 6), np.random.default_rng(b).integers(-30, 30, (b, 5)), normal(b, 5))),
    "in_loop": (in_loop, lambda b: (normal(b, 5), 3)),
}
