"""Names that nodes and graphs read, and live nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tessella.frontends.onnx.model import Node, NodeGraph


def free_names(graph: NodeGraph) -> set[str]:
    """Return the names of the outer values that a graph reads or returns."""
    read = {v.name for v in graph.outputs}.union(*map(names_read, graph.nodes))
    return read - graph.own_names


def all_names(graph: NodeGraph) -> set[str]:
    """Return the names of the values that a graph and the graphs in it define."""
    inner = (all_names(inside) for node in graph.nodes for inside in graphs_of(node))
    return graph.own_names.union(*inner)


def graphs_of(node: Node) -> list[NodeGraph]:
    """Return the graphs in a node's attributes, sorted by attribute name."""
    values = (node.attributes[name] for name in sorted(node.attributes))
    return [value for value in values if isinstance(value, NodeGraph)]


def names_read(node: Node) -> set[str]:
    """Return the names of the values that a node reads, including those that graphs in its
    attributes capture."""
    return set(filter(None, node.inputs)).union(*map(free_names, graphs_of(node)))


def live_nodes(nodes: Sequence[Node], outputs: Iterable[str]) -> list[Node]:
    """Return the nodes that ``outputs`` depend on, in execution order."""
    wanted, live = set(outputs), list[Node]()
    for node in reversed(nodes):
        if wanted.intersection(filter(None, node.outputs)):
            live.append(node)
            wanted |= names_read(node)
    return live[::-1]
