"""Loops that return elements of each iteration, with a trip count or condition that is computed:
native code runs them in chunks of a limited number of iterations.

    k, rows = Loop(trips, go, h) { body }
    ->
    step `chunks`, in Python: as long as the loop goes on, this subprogram
      going, following, k, rows = Loop(numbers, going, more, h) { body }   // a chunk

A chunk has one iteration for each of ``numbers``. It ends early when its condition is false, or
when ``more`` tells that the trip count is reached. It returns as many rows as there are numbers,
the number of the next iteration, and whether there is a next iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tessella.dialects.graph import info
from tessella.frontends.emitter import Values
from tessella.frontends.onnx.appended import Appended
from tessella.frontends.onnx.call import front_axis
from tessella.frontends.onnx.cut import Find, Inside
from tessella.frontends.onnx.loop_body import LoopBody
from tessella.frontends.onnx.model import GraphValue, NodeGraph
from tessella.frontends.onnx.names import free_names
from tessella.runtime.control import FIRST_ROOM
from tessella.runtime.rest import Bounds
from tessella.runtime.signature import ValueInfo
from tessella.support.sizes import MOST, Size

CHUNK = "chunk"
"""The attribute that marks a Loop as a chunk."""

_Type = tuple[np.dtype[Any], Sequence[Size | str]]


def chunked(body: LoopBody, elements: Values) -> Find:
    """Return how a loop is computed in chunks. ``elements`` are the elements that an iteration
    returns."""
    taken = list(_taken(body))
    inside = Inside(_graph(body, taken), taken, {_length(body): Bounds(FIRST_ROOM, MOST)})
    axes = tuple((each.number, _axis(body, each)) for each in body.appended)
    outputs, types = zip(*_results(body, elements), strict=True)
    return Find("chunks", {"appended": axes}, types, [inside], outputs)


def _taken(body: LoopBody) -> Iterator[ValueInfo]:
    """Yield the inputs of a chunk: the iteration numbers, whether the loop goes on, for each
    iteration whether the trip count allows another one (if there is a trip count), and the
    state."""
    prefix, length = _prefix(body), _length(body)
    yield ValueInfo(f"{prefix}/numbers", "int64", (length,))
    yield ValueInfo(f"{prefix}/going", "bool", ())
    if _is_limited(body):
        yield ValueInfo(f"{prefix}/more", "bool", (length,))
    yield from (info(f"{prefix}/state{i}", x.type) for i, x in enumerate(body.first))


def _prefix(body: LoopBody) -> str:
    """Return a prefix for the names in a chunk, with which no name in the loop body begins."""
    read, prefix = free_names(body.graph), body.call.node.name
    while any(name.startswith(f"{prefix}/") for name in read):
        prefix += "/chunk"
    return prefix


def _length(body: LoopBody) -> str:
    """Return the name of the symbolic size that is the number of iterations of a chunk."""
    return f"{_prefix(body)}/numbers:0"


def _is_limited(body: LoopBody) -> bool:
    """Return whether the Loop has a trip count."""
    return body.call.optional(0) is not None


def _axis(body: LoopBody, appended: Appended) -> int:
    return front_axis(appended.axis, body.call.operand(2 + appended.number).rank)


def _graph(body: LoopBody, taken: Sequence[ValueInfo]) -> NodeGraph:
    """Return the graph of a chunk: a Loop marked as a chunk, with the inputs ``taken``. Its outputs
    are the requested elements, among others."""
    node, prefix, states = body.call.node, _prefix(body), 1 + body.carried
    asked = [body.graph.outputs[states + i] for i in body.returned]
    inner = replace(body.graph, outputs=(*body.graph.outputs[:states], *asked))
    outputs = [
        GraphValue(f"{prefix}/still_going", "bool", ()),
        GraphValue(f"{prefix}/following", "int64", ()),
        *(replace(v, name=f"{prefix}/last{i}") for i, v in enumerate(inner.outputs[1:states])),
        *(replace(v, name=f"{prefix}/rows{i}", shape=None) for i, v in enumerate(asked)),
    ]
    numbers, going, *others = [each.name for each in taken]
    inputs = (numbers, going, *([] if _is_limited(body) else [""]), *others)
    names, attributes = tuple(each.name for each in outputs), {"body": inner, CHUNK: 1}
    chunk = replace(node, inputs=inputs, outputs=names, attributes=attributes)
    values = tuple(GraphValue(each.name, each.dtype, each.shape) for each in taken)
    return NodeGraph(node.name, (chunk,), values, tuple(outputs), {})


def _results(body: LoopBody, elements: Values) -> Iterator[tuple[str, _Type]]:
    """Yield names and types of the loop's results: all carried values, and the requested
    elements."""
    node, axes = body.call.node, {each.number: _axis(body, each) for each in body.appended}
    states = body.call.operands(2)
    names = (*node.outputs, *[""] * (len(states) + len(elements)))
    for i, value in enumerate(states):
        grown = axes.get(i)
        shape = (f"{i}" if axis == grown else size for axis, size in enumerate(value.shape))
        yield names[i], (value.dtype, tuple(shape))
    for i in body.returned:
        if i < len(elements) - len(axes):
            shape = ("steps", *elements[i].shape)
            yield names[len(states) + i], (elements[i].dtype, shape)
