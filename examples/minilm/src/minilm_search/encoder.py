"""The encoder as plain NumPy over any batch and any length. `encode` is decorated; its kernels ship with the package."""

from __future__ import annotations

import numpy as np

import prebake
from prebake.ops import erf, layer_norm, softmax

EPS = 1e-12
MASKED = 1e9  # subtracted from the scores of padding


def dense(x, part):
    """x (..., in) -> (..., out)."""
    return x @ part.w + part.b


def norm(x, part):
    """Layer norm over the last axis."""
    return layer_norm(x, part.w, part.b, EPS)


def gelu(x):
    """Exact gelu, as BERT has it."""
    return x * 0.5 * (1.0 + erf(x * 0.7071067811865476))


def split_heads(x, heads):
    """(b, s, d) -> (b, heads, s, d / heads)."""
    b, s, d = x.shape
    return x.reshape(b, s, heads, d // heads).transpose(0, 2, 1, 3)


def attend(x, layer, heads, penalty):
    """Self-attention of x (b, s, d) with its output layer; penalty (b, 1, 1, s) is subtracted from the scores."""
    b, s, d = x.shape
    q = split_heads(dense(x, layer.query), heads)
    k = split_heads(dense(x, layer.key), heads)
    v = split_heads(dense(x, layer.value), heads)
    scores = q @ k.swapaxes(-1, -2) * (1.0 / (d // heads) ** 0.5) - penalty
    mixed = (softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(b, s, d)
    return dense(mixed, layer.mix)


@prebake.jit(shapes={"ids": "b s", "mask": "b s"})
def encode(model, ids, mask):
    """Embeddings (b, d) of unit length. ids, mask: (b, s) int64 token ids, and 1 where there is a token."""
    kept = mask.astype(np.float32)
    penalty = (1.0 - kept)[:, None, None, :] * MASKED
    x = norm(model.words[ids] + model.positions[:ids.shape[1]] + model.segment, model.norm)
    for layer in model.layers:
        x = norm(x + attend(x, layer, model.heads, penalty), layer.norm)
        x = norm(x + dense(gelu(dense(x, layer.up)), layer.down), layer.out_norm)
    pooled = np.sum(x * kept[:, :, None], axis=1) / np.sum(kept, axis=1, keepdims=True)
    return pooled / np.sqrt(np.sum(pooled * pooled, axis=1, keepdims=True))
