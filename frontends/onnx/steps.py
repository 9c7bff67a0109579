"""Steps between subprograms, from nodes: NumPy functions, and loops and branches over
subprograms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tessella.frontends.onnx.cut import Find, Inside
from tessella.frontends.onnx.model import DTYPES, GraphValue, Node, NodeGraph
from tessella.frontends.onnx.names import free_names
from tessella.runtime.control import Declared
from tessella.runtime.rest import Body, Step
from tessella.support.errors import InvalidModelError

Settings = Mapping[str, Any]


def step(node: Node, find: Find | None, subprogram: Callable[[Inside], int]) -> Step:
    """Return a node as a step. ``find`` tells how it is computed; it is None for a loop or branch.

    ``subprogram`` makes a subprogram of a graph that the step runs, and returns its number.
    """
    find = find or _control(node)
    inside = ((tuple(v.name for v in each.graph.inputs), each) for each in find.inside)
    bodies = tuple(Body(takes, subprogram(each)) for takes, each in inside)
    outputs = tuple(find.outputs) or node.outputs
    parts = find.function, node.inputs, outputs, find.settings
    return Step(node.title, node.name, *parts, bodies)


def names_inside(find: Find | None) -> set[str]:
    """Return the names of the outer values that the graphs of a step capture."""
    return set[str]().union(*(free_names(each.graph) for each in (find.inside if find else ())))


def _control(node: Node) -> Find:
    """Return how a step runs a node as a loop or branch over subprograms."""
    _, names, function, settings = _CONTROL[node.op]
    return Find(function, settings(node), inside=[Inside(node.attributes[name]) for name in names])


def is_control(node: Node, opset: int) -> bool:
    """Return whether a node can run as a loop or branch over subprograms."""
    if node.op not in _CONTROL or node.domain:
        return False
    least, names, *_ = _CONTROL[node.op]
    return opset >= least and all(isinstance(node.attributes.get(n), NodeGraph) for n in names)


def _of_loop(node: Node) -> Settings:
    graph: NodeGraph = node.attributes["body"]
    carried = len(node.inputs[2:])
    return {"declared": _declared(graph.outputs[1 + carried :])}


def _of_map(node: Node) -> Settings:
    graph: NodeGraph = node.attributes["body"]
    return {"outputs": len(graph.outputs)}


def _of_scan(node: Node) -> Settings:
    graph: NodeGraph = node.attributes["body"]
    scanned: int = node.attributes["num_scan_inputs"]
    returned = graph.outputs[len(node.inputs) - scanned :]
    return {
        "scanned": scanned,
        "axes": _listed(node, "scan_input_axes", scanned),
        "backward": _listed(node, "scan_input_directions", scanned),
        "declared": _declared(returned),
        "output_axes": _listed(node, "scan_output_axes", len(returned)),
        "output_backward": _listed(node, "scan_output_directions", len(returned)),
    }


def _declared(values: Sequence[GraphValue]) -> Declared:
    return tuple(
        (DTYPES.get(v.type), tuple(d if isinstance(d, int) else 0 for d in v.shape or ()))
        for v in values
    )


def _listed(node: Node, name: str, count: int) -> tuple[int, ...]:
    """Return an attribute that has ``count`` numbers, one for each array; zeros if it is absent."""
    numbers = tuple(node.attributes.get(name) or (0,) * count)
    if len(numbers) != count:
        raise InvalidModelError(
            f"attribute {name!r} has the wrong length",
            where=node.where,
            expected=str(count),
            found=str(numbers),
        )
    return numbers


def _nothing(_: Node) -> Settings:
    return {}


_CONTROL: Mapping[str, tuple[int, tuple[str, ...], str, Callable[[Node], Settings]]] = {
    "If": (1, ("else_branch", "then_branch"), "branch", _nothing),
    "Loop": (1, ("body",), "loop", _of_loop),
    "SequenceMap": (17, ("body",), "sequence_map", _of_map),
    "Scan": (9, ("body",), "scan", _of_scan),
}
"""For each control flow op: the first op set in which it can be a step, the names of its graphs,
its function of the runtime, and a function that returns the settings."""
