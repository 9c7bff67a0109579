"""The graphs that nodes of the op Gradient differentiate, as attributes of these nodes.

    Gradient (a, b) {xs = [a, b], y = c}  ->  the same, with {graph = (a, b) -> c}

A graph has the nodes from the values that ``xs`` and ``zs`` name to the one that ``y`` names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tessella.frontends.onnx.model import GraphValue, Node, NodeGraph
from tessella.frontends.onnx.names import live_nodes
from tessella.runtime.signature import UNKNOWN
from tessella.support.errors import InvalidModelError

TITLE = "ai.onnx.preview.training.Gradient"
GRAPH = "graph"
"""The name of the attribute."""


def with_graphs(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return nodes of a graph in which each Gradient has the graph that it differentiates."""
    found: list[Node] = []
    for node in nodes:
        found.append(_with_graph(node, found) if node.title == TITLE else node)
    return tuple(found)


def _with_graph(node: Node, before: Sequence[Node]) -> Node:
    """Return a Gradient with its graph. Raises InvalidModelError if its attributes do not name
    values."""
    names = [*node.attributes.get("xs", ()), *node.attributes.get("zs", ())]
    y = node.attributes.get("y")
    if not isinstance(y, str) or not all(isinstance(name, str) for name in names):
        raise InvalidModelError(
            "a Gradient names no values",
            where=node.where,
            expected="names in the attributes xs, zs and y",
        )
    # the nodes that compute the named values themselves are not part of the graph
    inside = [each for each in before if _computes_none(each, names)]
    inputs = tuple(GraphValue(name, UNKNOWN, None) for name in names)
    nodes = tuple(live_nodes(inside, [y]))
    graph = NodeGraph(f"to {y}", nodes, inputs, (GraphValue(y, UNKNOWN, None),), {})
    return replace(node, attributes={**node.attributes, GRAPH: graph})


def _computes_none(node: Node, names: Sequence[str]) -> bool:
    """Return whether a node computes none of the named values."""
    return not set(names).intersection(filter(None, node.outputs))
