"""Small models with weights, for tests of the tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dims = Sequence[int | str]


def network(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Dims],
    outputs: Mapping[str, Dims],
    weights: Mapping[str, Sequence[int]],
) -> onnx.ModelProto:
    """A model of float32 tensors; its weights are drawn."""
    rng = np.random.default_rng(0)
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs.items()],
        [
            numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
            for name, shape in weights.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def classifier() -> onnx.ModelProto:
    """Convolution, matrix product and softmax, under names that text has to quote."""
    nodes = [
        helper.make_node("Conv", ["x", "layer/w:0", "b"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Flatten", ["r"], ["f"], name="flatten"),
        helper.make_node("MatMul", ["f", 'm "1"\\'], ["p"], name="matmul"),
        helper.make_node(
            "LayerNormalization", ["p", "s"], ["n"], name="norm", axis=-1, epsilon=1e-5
        ),
        helper.make_node("Softmax", ["n"], ["y"], name='soft\nmax "é"', axis=-1),
    ]
    weights = {"layer/w:0": (8, 3, 3, 3), "b": (8,), 'm "1"\\': (512, 10), "s": (10,)}
    return network(nodes, {"x": (1, 3, 8, 8)}, {"y": (1, 10)}, weights)


def open_batch() -> onnx.ModelProto:
    """A matrix product whose number of rows is open."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="matmul")]
    return network(nodes, {"x": ("N", 4)}, {"y": ("N", 3)}, {"w": (4, 3)})


def unsupported() -> onnx.ModelProto:
    """Two nodes that no kernel runs."""
    nodes = [
        helper.make_node("LpNormalization", ["x"], ["a"], name="first", p=3),
        helper.make_node("LpNormalization", ["r"], ["b"], name="second", p=4),
        helper.make_node("Add", ["a", "b"], ["z"], name="sum"),
    ]
    return network(nodes, {"x": (4, 5), "r": (4, 5)}, {"z": (4, 5)}, {})
