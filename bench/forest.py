"""Forests of decision trees, as models."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tessella.tools.peers import Feeds

TREES, DEPTH, FEATURES = 100, 8, 20


def forest(rows: int, *, trees: int = TREES, depth: int = DEPTH) -> tuple[onnx.ModelProto, Feeds]:
    """Full trees with random thresholds, summed for each row."""
    rng = np.random.default_rng(0)
    inner, leaves = (1 << depth) - 1, 1 << depth
    number = np.arange(inner + leaves)
    is_inner = number < inner
    names = ("nodes_truenodeids", "nodes_falsenodeids")
    sides = {n: np.where(is_inner, 2 * number + 1 + i, 0) for i, n in enumerate(names)}
    each: dict[str, Any] = {
        "nodes_nodeids": number,
        "nodes_modes": ["BRANCH_LEQ"] * inner + ["LEAF"] * leaves,
        **sides,
        "target_nodeids": number[inner:],
        "target_ids": np.zeros(leaves, np.int64),
    }
    attributes: dict[str, Any] = {
        **{name: [*np.array(values).tolist()] * trees for name, values in each.items()},
        "n_targets": 1,
        "nodes_treeids": np.repeat(np.arange(trees), len(number)).tolist(),
        "target_treeids": np.repeat(np.arange(trees), leaves).tolist(),
        "nodes_featureids": rng.integers(0, FEATURES, len(number) * trees).tolist(),
        "nodes_values": rng.standard_normal(len(number) * trees).tolist(),
        "target_weights": (rng.standard_normal(leaves * trees) / trees).tolist(),
    }
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", **attributes
    )
    graph = helper.make_graph(
        [node],
        "forest",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, FEATURES])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 1])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return model, {"x": rng.standard_normal((rows, FEATURES)).astype(np.float32)}
