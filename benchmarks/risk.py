"""Workload A: the risk model, x (b, 128) -> 512 -> 256 -> 64 -> 1, ReLU between, sigmoid at the end; b varies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import prebake

WIDTHS = (128, 512, 256, 64, 1)


def make_weights(seed: int = 7) -> list[tuple[np.ndarray, np.ndarray]]:
    """[(w (in, out), b (out,))] float32, He-initialised."""
    rng = np.random.default_rng(seed)
    return [((rng.standard_normal((i, o)) * np.sqrt(2 / i)).astype(np.float32),
             (rng.standard_normal(o) * 0.1).astype(np.float32)) for i, o in zip(WIDTHS, WIDTHS[1:], strict=False)]


def make_requests(count: int, seed: int = 11) -> list[np.ndarray]:
    """`count` requests of b in 1..256 rows, uniformly."""
    rng = np.random.default_rng(seed)
    pool = rng.standard_normal((256, WIDTHS[0])).astype(np.float32)
    return [pool[:b].copy() for b in rng.integers(1, 257, count)]


def flops(b: int) -> int:
    """Floating-point operations of the four products at batch b."""
    return 2 * b * sum(i * o for i, o in zip(WIDTHS, WIDTHS[1:], strict=False))


def score(layers: Any, x: np.ndarray) -> np.ndarray:
    """Risk of each row, (b, 1) in 0..1: plain NumPy."""
    last = len(layers) - 1
    for i, (w, b) in enumerate(layers):
        x = x @ w + b
        if i < last:
            x = np.maximum(x, 0)
    return 1 / (1 + np.exp(-x))


jit_score = prebake.jit(score)


def peer(name: str, layers: list[tuple[np.ndarray, np.ndarray]]) -> Callable[[np.ndarray], np.ndarray]:
    """The same model in PyTorch (`torch`, `torch.compile`), JAX or Numba; takes and returns NumPy arrays."""
    if name.startswith("torch"):
        import torch
        torch.set_num_threads(1)
        tensors = [(torch.from_numpy(w), torch.from_numpy(b)) for w, b in layers]

        def forward(x: Any) -> Any:
            for w, b in tensors[:-1]:
                x = torch.relu(torch.addmm(b, x, w))
            return torch.sigmoid(torch.addmm(tensors[-1][1], x, tensors[-1][0]))
        run = torch.compile(forward, dynamic=True) if name == "torch.compile" else forward

        def answer(x: np.ndarray) -> np.ndarray:
            with torch.inference_mode():
                return run(torch.from_numpy(x)).numpy()  # type: ignore[no-any-return]
        return answer
    if name == "jax":
        import jax
        import jax.numpy as jnp
        inside = [(jnp.asarray(w), jnp.asarray(b)) for w, b in layers]

        @jax.jit
        def traced(x: Any) -> Any:
            for w, b in inside[:-1]:
                x = jnp.maximum(x @ w + b, 0)
            return 1 / (1 + jnp.exp(-(x @ inside[-1][0] + inside[-1][1])))
        return lambda x: np.asarray(traced(x))
    import numba

    @numba.njit
    def layer(x, w, b):
        return np.maximum(np.dot(x, w) + b, np.float32(0))

    @numba.njit
    def last(x, w, b):
        return np.float32(1) / (np.float32(1) + np.exp(-(np.dot(x, w) + b)))

    def loops(x: np.ndarray) -> np.ndarray:
        for w, b in layers[:-1]:
            x = layer(x, w, b)
        return last(x, *layers[-1])  # type: ignore[no-any-return]
    return loops


def onnx_bytes(layers: list[tuple[np.ndarray, np.ndarray]]) -> bytes:
    """The same model as ONNX (Gemm, Relu, Sigmoid)."""
    from onnx import TensorProto, helper, numpy_helper
    nodes, weights, current = [], [], "x"
    for i, (w, b) in enumerate(layers):
        weights += [numpy_helper.from_array(w, f"w{i}"), numpy_helper.from_array(b, f"b{i}")]
        nodes.append(helper.make_node("Gemm", [current, f"w{i}", f"b{i}"], [f"g{i}"]))
        last = i == len(layers) - 1
        current = "y" if last else f"r{i}"
        nodes.append(helper.make_node("Sigmoid" if last else "Relu", [f"g{i}"], [current]))
    graph = helper.make_graph(
        nodes, "risk", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", WIDTHS[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", 1])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
