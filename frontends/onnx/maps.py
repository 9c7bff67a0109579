"""Models whose maps are arrays: the scores of classes as they are, instead of a dictionary for each
row."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tessella.frontends.onnx.model import GraphValue, Node, NodeGraph, OnnxModel

Maps = Literal["arrays", "dictionaries"]
"""The forms of a ZipMap's result."""

ZIP_MAP = "ai.onnx.ml.ZipMap"


def with_arrays(model: OnnxModel) -> OnnxModel:
    """Return the model with each ZipMap replaced by the array that it takes."""
    graph = model.graph
    maps = {node.outputs[0]: node for node in graph.nodes if node.title == ZIP_MAP}
    if not maps:
        return model
    nodes = tuple(_identity(node) if node.title == ZIP_MAP else node for node in graph.nodes)
    outputs = tuple(_array(value, maps) for value in graph.outputs)
    return replace(model, graph=_with(graph, nodes, outputs))


def _with(graph: NodeGraph, nodes: tuple[Node, ...], outputs: tuple[GraphValue, ...]) -> NodeGraph:
    return replace(graph, nodes=nodes, outputs=outputs)


def _identity(node: Node) -> Node:
    return replace(node, op="Identity", domain="", attributes={})


def _array(value: GraphValue, maps: dict[str, Node]) -> GraphValue:
    """Return an output of the model, which is an array of scores if a ZipMap computes it."""
    if value.name not in maps:
        return value
    attributes = maps[value.name].attributes
    labels = attributes.get("classlabels_int64s") or attributes.get("classlabels_strings") or ()
    return replace(value, type="float32", shape=(f"{value.name}:0", len(labels)))
