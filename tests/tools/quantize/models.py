"""A small network that is quantised, and samples for it."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.native import normal

SHAPE = (1, 3, 12, 12)
SAMPLES = [{"x": normal(*SHAPE, seed=seed)} for seed in range(3)]


def network(wild: float = 0.0) -> onnx.ModelProto:
    """Two convolutions with a batch norm between them, and a product.

    A ``wild`` weight of the second convolution leaves nothing of the others in 8 bits, if all of
    them have one scale; in f32 it changes nothing, as it is multiplied by 0.
    """
    weights = {
        "w1": normal(8, 3, 3, 3) / 5,
        "s": np.abs(normal(8, seed=5)) + 0.5,
        "b": normal(8, seed=6),
        "m": normal(8, seed=7),
        "v": np.abs(normal(8, seed=8)) + 0.5,
        "w2": normal(8, 8, 3, 3) / 8,
        "w3": normal(8, 5),
    }
    if wild:
        weights["s"][0], weights["b"][0] = 0, -1
        weights["w2"][0, 0, 0, 0] = wild
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], "first", pads=[1] * 4),
        helper.make_node("BatchNormalization", ["c1", "s", "b", "m", "v"], ["n1"]),
        helper.make_node("Relu", ["n1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], "second", pads=[1] * 4),
        helper.make_node("GlobalAveragePool", ["c2"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "w3"], ["y"], "head"),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [
            numpy_helper.from_array(value.astype(np.float32), name)
            for name, value in weights.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def kinds(model: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in model.graph.node}
