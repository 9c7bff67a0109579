"""Small networks of ops other than convolutions and products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench.detector import suppressing_detector
from bench.forest import forest
from tessella.tools.peers import Feeds

NODES, EDGES, WIDTH, CLASSES = 10_000, 100_000, 64, 16


def graph_network() -> tuple[onnx.ModelProto, Feeds]:
    """Two layers of message passing: each node sums its neighbours' messages."""
    rng = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    weights = [numpy_helper.from_array(np.zeros((NODES, WIDTH), np.float32), "zeros")]
    value = "x"
    for layer, width in enumerate((WIDTH, CLASSES)):
        for name, shape in (("m", (WIDTH, WIDTH)), ("w", (WIDTH, width)), ("b", (width,))):
            array = rng.standard_normal(shape, np.float32) / np.float32(np.sqrt(WIDTH))
            weights.append(numpy_helper.from_array(array, f"{name}{layer}"))

        def node(op: str, *operands: str, layer: int = layer, **settings: Any) -> str:
            output = f"{op}_{layer}_{len(nodes)}"
            nodes.append(helper.make_node(op, list(operands), [output], name=output, **settings))
            return output

        sent = node("Gather", value, "source", axis=0)
        message = node("Relu", node("MatMul", sent, f"m{layer}"))
        weighted = node("Mul", message, "strength")
        summed = node("ScatterND", "zeros", "target", weighted, reduction="add")
        both = node("Add", value, summed)
        value = node("Add", node("MatMul", both, f"w{layer}"), f"b{layer}")
        if width == WIDTH:
            value = node("Relu", value)
    feeds = {
        "x": rng.standard_normal((NODES, WIDTH), np.float32),
        "source": rng.integers(0, NODES, EDGES),
        "target": rng.integers(0, NODES, (EDGES, 1)),
        "strength": rng.uniform(0, 1, (EDGES, 1)).astype(np.float32),
    }
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in feeds.items()
    ]
    output = helper.make_tensor_value_info(value, TensorProto.FLOAT, [NODES, CLASSES])
    graph = helper.make_graph(nodes, "graph network", inputs, [output], weights)
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds


NETWORKS: Mapping[str, Callable[[], tuple[onnx.ModelProto, Feeds]]] = {
    "graph network": graph_network,
    "suppressing detector": suppressing_detector,
    **{f"100 trees {rows} rows": partial(forest, rows) for rows in (1, 100, 10_000)},
}
"""Models with inputs, by name."""
