"""Workload C's operations under prebake: what `operations.over(numpy)` says, decorated."""

from __future__ import annotations

import numpy as np

import prebake

EPS = 1e-5


@prebake.jit
def add(a, b):
    return a + b


@prebake.jit
def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


@prebake.jit
def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@prebake.jit
def chain(x):
    y = x * 1.5 + 0.25
    y = (y - x) * y + 2.0
    y = np.maximum(y, x) * 0.5 - x
    return np.minimum(y * y, 100.0)


@prebake.jit
def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@prebake.jit
def layer_norm(x, gain, bias):
    centred = x - x.mean(axis=-1, keepdims=True)
    var = (centred * centred).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(var + EPS) * gain + bias


FUNCTIONS = {f.__name__: f for f in (add, gelu, sigmoid, chain, softmax, layer_norm)}
