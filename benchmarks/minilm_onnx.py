"""MiniLM as ONNX, from the weights of examples/minilm: the peer of workload B.

The graph is written in the fused operators that ONNX Runtime's own transformer optimiser arrives at (Attention,
SkipLayerNormalization, BiasGelu): the fastest form that it has for this model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

EPS = 1e-12
CONTRIB = "com.microsoft"


def onnx_bytes(model: Any) -> bytes:
    """The encoder (ids, mask: (b, s) int64) -> (b, 384) float32, serialised."""
    from onnx import TensorProto, helper, numpy_helper
    nodes, weights = [], []

    def constant(name: str, value: np.ndarray) -> str:
        weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(op: str, inputs: list[str], output: str, domain: str = "", **attributes: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [output], domain=domain, **attributes))
        return output

    width = model.segment.shape[0]
    row = constant("row", np.array([1], np.int64))
    length = node("Slice", [node("Shape", ["ids"], "shape"), row, constant("two", np.array([2], np.int64))], "length")
    positions = node("Slice", [constant("positions", model.positions + model.segment),
                               constant("zero", np.array([0], np.int64)), length,
                               constant("axis0", np.array([0], np.int64))], "positions_used")
    words = node("Gather", [constant("words", model.words), "ids"], "looked_up")
    x = node("LayerNormalization", [node("Add", [words, positions], "embedded"), constant("e_w", model.norm.w),
                                    constant("e_b", model.norm.b)], "x", epsilon=EPS)
    mask = node("Cast", ["mask"], "mask32", to=TensorProto.INT32)
    for i, layer in enumerate(model.layers):
        def name(text: str, i: int = i) -> str:
            return f"{text}{i}"

        qkv = [layer.query, layer.key, layer.value]
        mixed = node("Attention", [x, constant(name("qkv_w"), np.concatenate([p.w for p in qkv], axis=1)),
                                   constant(name("qkv_b"), np.concatenate([p.b for p in qkv])), mask],
                     name("mixed"), CONTRIB, num_heads=model.heads)
        y = node("MatMul", [mixed, constant(name("mix_w"), layer.mix.w)], name("mix"))
        x = node("SkipLayerNormalization", [y, x, constant(name("n_w"), layer.norm.w), constant(name("n_b"), layer.norm.b),
                                            constant(name("mix_b"), layer.mix.b)], name("attended"), CONTRIB, epsilon=EPS)
        y = node("MatMul", [x, constant(name("up_w"), layer.up.w)], name("up"))
        y = node("BiasGelu", [y, constant(name("up_b"), layer.up.b)], name("gelu"), CONTRIB)
        y = node("MatMul", [y, constant(name("down_w"), layer.down.w)], name("down"))
        x = node("SkipLayerNormalization",
                 [y, x, constant(name("o_w"), layer.out_norm.w), constant(name("o_b"), layer.out_norm.b),
                  constant(name("down_b"), layer.down.b)], name("x"), CONTRIB, epsilon=EPS)
    kept = node("Cast", ["mask"], "kept", to=TensorProto.FLOAT)
    column = node("Unsqueeze", [kept, constant("axis2", np.array([2], np.int64))], "column")
    total = node("ReduceSum", [node("Mul", [x, column], "weighted"), row], "total", keepdims=0)
    pooled = node("Div", [total, node("ReduceSum", [kept, row], "count", keepdims=1)], "pooled")
    node("Div", [pooled, node("ReduceL2", [pooled, row], "size", keepdims=1)], "y")
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "minilm", [tensor("ids", TensorProto.INT64, ["b", "s"]), tensor("mask", TensorProto.INT64, ["b", "s"])],
        [tensor("y", TensorProto.FLOAT, ["b", width])], weights)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(CONTRIB, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()  # type: ignore[no-any-return]
