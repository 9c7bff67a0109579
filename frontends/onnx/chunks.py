"""Loops that return elements of each step, as many as a condition lets run: native code runs them
in chunks, each with room for some steps.

    k, rows = Loop(trips, go, h) { body }
    ->
    step `chunks`, in Python: as long as the loop goes on, this subprogram
      going, following, k, rows = Loop(numbers, going, more, h) { body }   // a chunk

A chunk has a step for each of ``numbers``, and ends where its condition does not hold, or where
``more`` says that the trip count is reached. It returns as many rows as there are numbers, the
number of the step that follows, and whether there is one.
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
from tessella.frontends.onnx.model import Graph, GraphValue
from tessella.frontends.onnx.names import free_names
from tessella.runtime.control import FIRST_ROOM
from tessella.runtime.rest import Bounds
from tessella.runtime.signature import ValueInfo
from tessella.support.sizes import MOST, Size

CHUNK = "chunk"
"""The attribute that marks a Loop as a chunk."""

_Type = tuple[np.dtype[Any], Sequence[Size | str]]


def chunked(body: LoopBody, elements: Values) -> Find:
    """Return how the results of a loop are computed whose iterations return these elements."""
    taken = list(_taken(body))
    inside = Inside(_graph(body, taken), taken, {_length(body): Bounds(FIRST_ROOM, MOST)})
    axes = tuple((each.number, _axis(body, each)) for each in body.appended)
    outputs, types = zip(*_results(body, elements), strict=True)
    return Find("chunks", {"appended": axes}, types, [inside], outputs)


def _taken(body: LoopBody) -> Iterator[ValueInfo]:
    """Yield the inputs of a chunk: its numbers, whether it continues, the trip count's answer, and
    the state."""
    prefix, length = _prefix(body), _length(body)
    yield ValueInfo(f"{prefix}/numbers", "int64", (length,))
    yield ValueInfo(f"{prefix}/going", "bool", ())
    if _is_limited(body):
        yield ValueInfo(f"{prefix}/more", "bool", (length,))
    yield from (info(f"{prefix}/state{i}", x.type) for i, x in enumerate(body.first))


def _prefix(body: LoopBody) -> str:
    """Return a prefix for the names in a chunk that no name in the body has."""
    read, prefix = free_names(body.graph), body.call.node.name
    while any(name.startswith(f"{prefix}/") for name in read):
        prefix += "/chunk"
    return prefix


def _length(body: LoopBody) -> str:
    """Return the name of a chunk's number of iterations."""
    return f"{_prefix(body)}/numbers:0"


def _is_limited(body: LoopBody) -> bool:
    """Return whether there is a trip count."""
    return body.call.optional(0) is not None


def _axis(body: LoopBody, appended: Appended) -> int:
    return front_axis(appended.axis, body.call.operand(2 + appended.number).rank)


def _graph(body: LoopBody, taken: Sequence[ValueInfo]) -> Graph:
    """Return a chunk. It returns the requested elements."""
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
    return Graph(node.name, (chunk,), values, tuple(outputs), {})


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
