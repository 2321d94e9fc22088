"""MiniLM's encoder in PyTorch and JAX, from the weights of examples/minilm: what workload B measures beside prebake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

EPS, MASKED = 1e-12, 1e9


def peer(name: str, model: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """encode(ids, mask) -> embeddings as NumPy arrays, by `torch`, `torch.compile` (dynamic shapes) or `jax`."""
    if name.startswith("torch"):
        return _torch(model, compiled=name == "torch.compile")
    if name == "jax":
        return _jax(model)
    raise NotImplementedError(f"{name} has no products of arrays of four axes")


def _torch(model: Any, compiled: bool) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    import torch
    from torch.nn import functional
    torch.set_num_threads(1)

    def dense_weights(part: Any) -> tuple[Any, Any]:  # functional.linear takes (out, in)
        return torch.from_numpy(np.ascontiguousarray(part.w.T)), torch.from_numpy(part.b)

    def norm_weights(part: Any) -> tuple[Any, Any]:
        return torch.from_numpy(part.w), torch.from_numpy(part.b)
    words, positions, segment = (torch.from_numpy(a) for a in (model.words, model.positions, model.segment))
    first, width, heads = norm_weights(model.norm), model.segment.shape[0], model.heads
    layers = [([dense_weights(p) for p in (at.query, at.key, at.value, at.mix, at.up, at.down)],
               [norm_weights(at.norm), norm_weights(at.out_norm)]) for at in model.layers]

    def norm(x: Any, part: tuple[Any, Any]) -> Any:
        return functional.layer_norm(x, (width,), *part, EPS)

    def encode(ids: Any, mask: Any) -> Any:
        b, s = ids.shape
        kept = mask.to(torch.float32)
        penalty = (kept - 1.0)[:, None, None, :] * MASKED
        x = norm(words[ids] + positions[:s] + segment, first)
        for (query, key, value, mix, up, down), (after_attention, after_layer) in layers:
            q, k, v = (functional.linear(x, *part).view(b, s, heads, -1).transpose(1, 2) for part in (query, key, value))
            mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=penalty)
            x = norm(x + functional.linear(mixed.transpose(1, 2).reshape(b, s, width), *mix), after_attention)
            x = norm(x + functional.linear(functional.gelu(functional.linear(x, *up)), *down), after_layer)
        pooled = (x * kept[:, :, None]).sum(1) / kept.sum(1, keepdim=True)
        return functional.normalize(pooled, dim=1)
    run = torch.compile(encode, dynamic=True) if compiled else encode

    def answer(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return run(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()  # type: ignore[no-any-return]
    return answer


def _jax(model: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    import jax
    import jax.numpy as jnp
    heads = model.heads

    def pair(part: Any) -> tuple[Any, Any]:
        return jnp.asarray(part.w), jnp.asarray(part.b)
    weights = {**{key: jnp.asarray(getattr(model, key)) for key in ("words", "positions", "segment")}, "norm": pair(model.norm),
               "layers": [{key: pair(getattr(at, key)) for key in
                           ("query", "key", "value", "mix", "norm", "up", "down", "out_norm")} for at in model.layers]}

    def dense(x: Any, part: tuple[Any, Any]) -> Any:
        return x @ part[0] + part[1]

    def norm(x: Any, part: tuple[Any, Any]) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred / jnp.sqrt((centred * centred).mean(-1, keepdims=True) + EPS) * part[0] + part[1]

    @jax.jit
    def encode(weights: Any, ids: Any, mask: Any) -> Any:
        b, s = ids.shape
        kept = mask.astype(jnp.float32)
        penalty = (1.0 - kept)[:, None, None, :] * MASKED
        x = norm(weights["words"][ids] + weights["positions"][:s] + weights["segment"], weights["norm"])
        for at in weights["layers"]:
            q, k, v = (dense(x, at[key]).reshape(b, s, heads, -1).transpose(0, 2, 1, 3) for key in ("query", "key", "value"))
            scores = jax.nn.softmax(q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5 - penalty)
            x = norm(x + dense((scores @ v).transpose(0, 2, 1, 3).reshape(x.shape), at["mix"]), at["norm"])
            x = norm(x + dense(jax.nn.gelu(dense(x, at["up"]), approximate=False), at["down"]), at["out_norm"])
        pooled = (x * kept[:, :, None]).sum(1) / kept.sum(1, keepdims=True)
        return pooled / jnp.sqrt((pooled * pooled).sum(1, keepdims=True))
    return lambda ids, mask: np.asarray(encode(weights, ids, mask))
