"""Workload C: single operations, written once over an array module and its `where it differs` for each peer.

`gelu`, `sigmoid`, `chain`, `softmax`, `layer_norm`, `add` take float32 arrays. `xp` is numpy or jax.numpy; PyTorch gets its own
functions (what its users call), ONNX Runtime one node each where there is one, Numba a loop a function (what its users write).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

EPS = 1e-5
FLOPS_EXP = 20  # operations of a polynomial exp or tanh, for the floor


class Cell(NamedTuple):
    """One cell of the table: an operation over shapes; floating-point operations and bytes moved for each element."""

    operation: str
    shape: tuple[int, ...]
    flops: int
    moved: int

    @property
    def name(self) -> str:
        return f"{self.operation} {'x'.join(map(str, self.shape))}"

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


CELLS = tuple(Cell(operation, shape, flops, moved) for operation, flops, moved, shapes in (
    ("add", 1, 12, ((8,), (1024,), (32768,))),
    ("gelu", FLOPS_EXP + 8, 8, ((1024,), (32768,), (1 << 20,))),
    ("sigmoid", FLOPS_EXP + 3, 8, ((1024,), (32768,), (1 << 20,))),
    ("chain", 10, 8, ((1024,), (32768,), (1 << 20,))),
    ("softmax", FLOPS_EXP + 4, 8, ((8, 128), (64, 512), (1024, 1024))),
    ("layer_norm", 8, 8, ((8, 128), (64, 512), (1024, 1024))),
) for shape in shapes)


def arrays(cell: Cell, rng: Any) -> tuple[Any, ...]:
    """The cell's arguments, float32, values of ordinary size."""
    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape, dtype="float32")
    if cell.operation == "add":
        return normal(*cell.shape), normal(*cell.shape)
    if cell.operation == "layer_norm":
        return normal(*cell.shape), normal(cell.shape[-1]), normal(cell.shape[-1])
    return (normal(*cell.shape),)


def over(xp: Any) -> dict[str, Callable]:
    """The operations over an array module with NumPy's names."""
    def add(a: Any, b: Any) -> Any:
        return a + b

    def gelu(x: Any) -> Any:
        return 0.5 * x * (1 + xp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + xp.exp(-x))

    def chain(x: Any) -> Any:
        y = x * 1.5 + 0.25
        y = (y - x) * y + 2.0
        y = xp.maximum(y, x) * 0.5 - x
        return xp.minimum(y * y, 100.0)

    def softmax(x: Any) -> Any:
        e = xp.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
        centred = x - x.mean(axis=-1, keepdims=True)
        var = (centred * centred).mean(axis=-1, keepdims=True)
        return centred / xp.sqrt(var + EPS) * gain + bias

    return {f.__name__: f for f in (add, gelu, sigmoid, chain, softmax, layer_norm)}


def torch_functions() -> dict[str, Callable]:
    """PyTorch's own functions where it has them."""
    import torch
    import torch.nn.functional as F
    functions: dict[str, Callable] = {
        "add": lambda a, b: a + b,
        "gelu": lambda x: F.gelu(x, approximate="tanh"),
        "sigmoid": torch.sigmoid,
        "softmax": lambda x: F.softmax(x, dim=-1),
        "layer_norm": lambda x, gain, bias: F.layer_norm(x, gain.shape, gain, bias, EPS),
    }

    def chain(x: Any) -> Any:
        y = x * 1.5 + 0.25
        y = (y - x) * y + 2.0
        y = torch.maximum(y, x) * 0.5 - x
        return torch.clamp(y * y, max=100.0)
    return functions | {"chain": chain}


def numba_functions() -> dict[str, Callable]:
    """One compiled loop each, rows outermost."""
    import numba
    import numpy as np

    @numba.njit
    def add(a, b):
        return a + b

    @numba.njit
    def gelu(x):
        out = np.empty_like(x)
        for i in range(x.size):
            v = x[i]
            out[i] = np.float32(0.5) * v * (np.float32(1) + math.tanh(
                np.float32(0.7978845608) * (v + np.float32(0.044715) * v * v * v)))
        return out

    @numba.njit
    def sigmoid(x):
        out = np.empty_like(x)
        for i in range(x.size):
            out[i] = np.float32(1) / (np.float32(1) + math.exp(-x[i]))
        return out

    @numba.njit
    def chain(x):
        out = np.empty_like(x)
        for i in range(x.size):
            v = x[i]
            y = v * np.float32(1.5) + np.float32(0.25)
            y = (y - v) * y + np.float32(2)
            y = max(y, v) * np.float32(0.5) - v
            out[i] = min(y * y, np.float32(100))
        return out

    @numba.njit
    def softmax(x):
        out = np.empty_like(x)
        for i in range(x.shape[0]):
            top = x[i].max()
            total = np.float32(0)
            for j in range(x.shape[1]):
                out[i, j] = math.exp(x[i, j] - top)
                total += out[i, j]
            for j in range(x.shape[1]):
                out[i, j] /= total
        return out

    @numba.njit
    def layer_norm(x, gain, bias):
        out = np.empty_like(x)
        n = np.float32(x.shape[1])
        for i in range(x.shape[0]):
            mean = x[i].sum() / n
            var = np.float32(0)
            for j in range(x.shape[1]):
                var += (x[i, j] - mean) * (x[i, j] - mean)
            scale = np.float32(1) / np.sqrt(var / n + np.float32(EPS))
            for j in range(x.shape[1]):
                out[i, j] = (x[i, j] - mean) * scale * gain[j] + bias[j]
        return out

    return {"add": add, "gelu": gelu, "sigmoid": sigmoid, "chain": chain, "softmax": softmax, "layer_norm": layer_norm}


def onnx_bytes(operation: str, ranks: tuple[int, ...]) -> bytes:
    """The operation as an ONNX model over inputs a0, a1, ... of the given ranks; opset 20."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper
    inputs = [helper.make_tensor_value_info(f"a{i}", TensorProto.FLOAT, [None] * rank) for i, rank in enumerate(ranks)]
    nodes, constants = [], []
    if operation == "chain":
        def constant(value: float) -> str:
            name = f"c{len(constants)}"
            constants.append(numpy_helper.from_array(np.array(value, np.float32), name))
            return name

        def node(kind: str, *operands: str) -> str:
            name = f"n{len(nodes)}"
            nodes.append(helper.make_node(kind, operands, [name]))
            return name
        y = node("Add", node("Mul", "a0", constant(1.5)), constant(0.25))
        y = node("Add", node("Mul", node("Sub", y, "a0"), y), constant(2.0))
        y = node("Sub", node("Mul", node("Max", y, "a0"), constant(0.5)), "a0")
        y = node("Min", node("Mul", y, y), constant(100.0))
        nodes.append(helper.make_node("Identity", [y], ["y"]))
    else:
        kind, attributes = {"add": ("Add", {}), "gelu": ("Gelu", {"approximate": "tanh"}), "sigmoid": ("Sigmoid", {}),
                            "softmax": ("Softmax", {"axis": -1}),
                            "layer_norm": ("LayerNormalization", {"axis": -1, "epsilon": EPS})}[operation]
        nodes.append(helper.make_node(kind, [i.name for i in inputs], ["y"], **attributes))
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * ranks[0])
    graph = helper.make_graph(nodes, operation, inputs, [out], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()
