"""Drawn tree ensembles as ONNX models."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

FEATURES = 4


def drawn_nodes(
    trees: int, depth: int, modes: tuple[str, ...] = ("BRANCH_LEQ",), seed: int = 0
) -> dict[str, Any]:
    """The attributes of nodes: trees of a random shape, with thresholds of few values."""
    rng = np.random.default_rng(seed)
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    found: dict[str, list[Any]] = {f"nodes_{name}": [] for name in names}
    found["nodes_missing_value_tracks_true"] = []

    def add(tree: int, count: list[int], level: int) -> int:
        number = count[0]
        count[0] += 1
        at = len(found["nodes_nodeids"])
        is_leaf = level == depth or (level > 0 and rng.random() < 0.2)
        row = (tree, number, int(rng.integers(FEATURES)), float(rng.integers(-2, 3)) / 2)
        mode = "LEAF" if is_leaf else str(rng.choice(modes))
        for name, value in zip(names, (*row, mode, 0, 0), strict=True):
            found[f"nodes_{name}"].append(value)
        found["nodes_missing_value_tracks_true"].append(int(rng.integers(2)))
        if not is_leaf:
            found["nodes_truenodeids"][at] = add(tree, count, level + 1)
            found["nodes_falsenodeids"][at] = add(tree, count, level + 1)
        return number

    for tree in range(trees):
        add(tree, [0], 0)
    return found


def drawn_weights(
    nodes: dict[str, Any], kind: str, ids: list[int], *, positive: bool = False, seed: int = 1
) -> dict[str, Any]:
    """The attributes of leaves: a weight for each of the targets ``ids``."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[Any]] = {
        f"{kind}_{n}": [] for n in ("treeids", "nodeids", "ids", "weights")
    }
    rows = zip(nodes["nodes_treeids"], nodes["nodes_nodeids"], nodes["nodes_modes"], strict=True)
    for tree, node, mode in rows:
        for target in ids if mode == "LEAF" else ():
            weight = float(np.float32(rng.standard_normal() / 2))
            weight = abs(weight) / 2 if positive else weight
            for name, value in zip(found, (tree, node, target, weight), strict=True):
                found[name].append(value)
    return found


def model_of(
    op: str,
    outputs: dict[str, int],
    attributes: dict[str, Any],
    dtype: int = TensorProto.FLOAT,
    version: int = 3,
) -> onnx.ModelProto:
    """A model of one node of the domain `ai.onnx.ml`; ``outputs`` has their element types."""
    node = helper.make_node(op, ["x"], [*outputs], domain="ai.onnx.ml", name="node", **attributes)
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", dtype, ["n", FEATURES])],
        [helper.make_tensor_value_info(name, type, None) for name, type in outputs.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)
