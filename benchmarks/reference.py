"""The reference functions of the compile budgets: an MLP, a row softmax, a transformer layer."""

from __future__ import annotations

from typing import Any

import numpy as np


def mlp(layers: Any, x: np.ndarray) -> np.ndarray:
    """(b, d) -> (b, 1)."""
    for w, b in layers[:-1]:
        x = np.maximum(x @ w + b, 0)
    w, b = layers[-1]
    return 1 / (1 + np.exp(-(x @ w + b)))


def row_softmax(x: np.ndarray) -> np.ndarray:
    """(b, n) -> (b, n)."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x: np.ndarray, gain: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    mean = x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * gain + bias


def gelu(x: np.ndarray) -> np.ndarray:
    """The tanh form."""
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def transformer_layer(p: Any, x: np.ndarray, heads: int) -> np.ndarray:
    """(b, s, d) -> (b, s, d): attention and a two-layer MLP, each with residual and layer norm."""
    b, s, d = x.shape
    q = (x @ p["wq"] + p["bq"]).reshape(b, s, heads, d // heads).transpose(0, 2, 1, 3)
    k = (x @ p["wk"] + p["bk"]).reshape(b, s, heads, d // heads).transpose(0, 2, 1, 3)
    v = (x @ p["wv"] + p["bv"]).reshape(b, s, heads, d // heads).transpose(0, 2, 1, 3)
    scores = row_softmax(q @ k.transpose(0, 1, 3, 2) * (d // heads) ** -0.5)
    mixed = (scores @ v).transpose(0, 2, 1, 3).reshape(b, s, d)
    x = layer_norm(x + mixed @ p["wo"] + p["bo"], p["g1"], p["c1"])
    hidden = gelu(x @ p["w1"] + p["b1"])
    return layer_norm(x + hidden @ p["w2"] + p["b2"], p["g2"], p["c2"])


def arguments(name: str, batch: int) -> tuple:
    """Seeded float32 arguments of a reference function at a batch size; weights are plain arrays."""
    rng = np.random.default_rng(3)

    def normal(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) * 0.1).astype(np.float32)

    if name == "mlp":
        widths = (128, 512, 256, 64, 1)
        return [(normal(i, o), normal(o)) for i, o in zip(widths, widths[1:], strict=False)], normal(batch, 128)
    if name == "row_softmax":
        return (normal(batch, 512),)
    d = 384
    p = {k: normal(d, d) for k in ("wq", "wk", "wv", "wo")} | {k: normal(d) for k in (
        "bq", "bk", "bv", "bo", "g1", "c1", "g2", "c2", "b2")}
    p |= {"w1": normal(d, 4 * d), "b1": normal(4 * d), "w2": normal(4 * d, d)}
    return p, normal(1, batch, d), 12


FUNCTIONS = {"mlp": mlp, "row_softmax": row_softmax, "transformer_layer": transformer_layer}
