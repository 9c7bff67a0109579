"""Names that nodes and graphs read, and what is live."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tessella.frontends.onnx.model import Graph, Node


def free_names(graph: Graph) -> set[str]:
    """Names that a graph takes from outside."""
    made = {value.name for value in graph.inputs} | graph.tensors.keys()
    made |= {name for node in graph.nodes for name in node.outputs}
    return ({v.name for v in graph.outputs}.union(*map(names_read, graph.nodes))) - made


def graphs_of(node: Node) -> list[Graph]:
    """The graphs in a node's attributes, by the attributes' names."""
    values = (node.attributes[name] for name in sorted(node.attributes))
    return [value for value in values if isinstance(value, Graph)]


def names_read(node: Node) -> set[str]:
    """Names that a node reads, also in the graphs of its attributes."""
    return set(filter(None, node.inputs)).union(*map(free_names, graphs_of(node)))


def live_nodes(nodes: Sequence[Node], outputs: Iterable[str]) -> list[Node]:
    """The nodes that the outputs depend on, in order."""
    wanted, live = set(outputs), list[Node]()
    for node in reversed(nodes):
        if wanted.intersection(filter(None, node.outputs)):
            live.append(node)
            wanted |= names_read(node)
    return live[::-1]
