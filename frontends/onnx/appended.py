"""Loop states that iterations only append to. The rewritten body returns the appended pieces, and
one Concat after the loop joins them.

    tokens, h = Loop(trips, go, tokens0, h0) {
      body(i, c, t, h): .. next, k ..; all = Concat(t, next, axis=1)
      (more, all, k)
    }
    ->
    h, nexts = Loop(trips, go, h0) {
      body(i, c, h): .. next, k ..; all = Concat(next, axis=1)
      (more, k, all)
    }
    tokens = Concat(tokens0, *nexts, axis=1)

The Concat must be the only use of the state in the body.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tessella.frontends.onnx.model import Node, NodeGraph
from tessella.frontends.onnx.names import live_nodes, names_read


@dataclass(frozen=True)
class Appended:
    """A loop state that iterations append to."""

    number: int
    """The state's number among the carried values."""
    axis: int
    """The axis of the concat, which may be counted from the end."""
    concat: Node


def find_appended(body: NodeGraph, carried: int) -> tuple[Appended, ...]:
    """Return the states that a loop with ``carried`` carried values only appends to."""
    if len(body.inputs) != 2 + carried or len(body.outputs) < 1 + carried:
        return ()
    outputs = [value.name for value in body.outputs]
    nodes = live_nodes(body.nodes, outputs)
    reads = Counter([*outputs, *(name for node in nodes for name in names_read(node))])
    makers = {name: node for node in nodes for name in node.outputs}
    found = (_appended(body, number, reads, makers) for number in range(carried))
    return tuple(each for each in found if each is not None)


def _appended(
    body: NodeGraph, number: int, reads: Counter[str], makers: dict[str, Node]
) -> Appended | None:
    state, result = body.inputs[2 + number].name, body.outputs[1 + number].name
    concat = makers.get(result)
    if concat is None or (concat.op, concat.domain) != ("Concat", ""):
        return None
    axis, pieces = concat.attributes.get("axis"), concat.inputs[1:]
    is_only_use = concat.inputs[0] == state not in pieces and reads[state] == reads[result] == 1
    if not is_only_use or not pieces or not isinstance(axis, int):
        return None
    return Appended(number, axis, concat)


def without(body: NodeGraph, appended: tuple[Appended, ...]) -> NodeGraph:
    """Return the loop body without these states. Its last outputs are the pieces that an iteration
    appends to each state."""
    numbers, concats = {each.number for each in appended}, {each.concat for each in appended}

    def nodes() -> Iterator[Node]:
        for node in body.nodes:
            yield replace(node, inputs=node.inputs[1:]) if node in concats else node

    pieces = (replace(body.outputs[1 + each.number], shape=None) for each in appended)
    kept = (v for i, v in enumerate(body.outputs) if i - 1 not in numbers)
    return replace(
        body,
        nodes=tuple(nodes()),
        inputs=tuple(v for i, v in enumerate(body.inputs) if i - 2 not in numbers),
        outputs=(*kept, *pieces),
    )
