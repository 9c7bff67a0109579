"""Converters of ops on sequences and optionals.

Sequences of known length are lists of their elements at import. Other sequences lead to graph
breaks, and are passed between steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from tessella.frontends.emitter import Value, concat
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.cut import CutError, Find
from tessella.frontends.onnx.held import Handed, Known, Listed, Missing
from tessella.frontends.onnx.registry import converts
from tessella.runtime.sequences import part_sizes, position_of
from tessella.support.decisions import known
from tessella.support.errors import InvalidModelError, ShapeError

_LATE = "a step where it is not known at import"
_LISTED = "at import or in Python"


@converts("SequenceEmpty", 11, 11, runs=_LISTED)
def sequence_empty(call: Call) -> Listed:
    """Return an empty sequence."""
    call.meaningless("dtype")
    return Listed(())


@converts("SequenceConstruct", 11, 11, runs=_LISTED)
def sequence_construct(call: Call) -> Listed:
    """Return the sequence of the operands."""
    return Listed(tuple(call.operands()))


@converts("SequenceInsert", 11, 11, note=_LATE, runs=_LISTED)
def sequence_insert(call: Call) -> Listed:
    """Return a sequence with one more element, inserted before a position or at the end."""
    find = Find("sequence_insert")
    items = _items(call, find)
    at = _position(call, 2, len(items), find, past_end=True)
    return Listed((*items[:at], call.operand(1), *items[at:]))


@converts("SequenceErase", 11, 11, note=_LATE, runs=_LISTED)
def sequence_erase(call: Call) -> Listed:
    """Return a sequence without the element at a position."""
    find = Find("sequence_erase")
    items = _items(call, find)
    at = _position(call, 1, len(items), find)
    return Listed((*items[:at], *items[at + 1 :]))


@converts("SequenceAt", 11, 11, note=_LATE, runs=_LISTED)
def sequence_at(call: Call) -> Value:
    """Return the element of a sequence at a position."""
    find = Find("sequence_at")
    items = _items(call, find)
    return items[_position(call, 1, len(items), find)]


@converts("SequenceLength", 11, 11, note=_LATE, runs=_LISTED)
def sequence_length(call: Call) -> Value:
    """Return the number of elements of a sequence."""
    return call.constant(np.array(len(_items(call, Find("sequence_length"))), np.int64))


@converts("ConcatFromSequence", 11, 11, note=_LATE, runs=_LISTED)
def concat_from_sequence(call: Call) -> Value:
    """Emit a concatenation of the elements of a sequence along an axis, which may be a new one."""
    axis, is_new = call.integer("axis"), call.flag("new_axis")
    items = _items(call, Find("concat_from_sequence", {"axis": axis, "is_new": is_new}))
    if not items:
        raise ShapeError("an empty sequence has no type to make a tensor of")
    rank = items[0].rank + is_new
    axis = front_axis(axis, rank)
    if is_new:
        items = tuple(_with_axis(x, axis) for x in items)
    return concat(items, axis)


def _with_axis(x: Value, axis: int) -> Value:
    return x.reshape((*x.shape[:axis], 1, *x.shape[axis:]))


@converts("SplitToSequence", 11, 24, note=_LATE, runs=_LISTED)
def split_to_sequence(call: Call) -> Listed:
    """Return the sequence of the parts of a tensor along an axis: of one size, of listed sizes, or
    single elements."""
    x, axis = call.x, front_axis(call.integer("axis", 0), call.x.rank)
    keeps, sizes = call.flag("keepdims", True), np.array(1)
    if (split := call.optional(1)) is not None:
        static, keeps = call.build.static(split), True
        if static is None:
            raise CutError(call.node, Find("split_to_sequence", {"axis": axis, "keeps": keeps}))
        sizes = static
    counts = part_sizes(known(x.shape[axis]), sizes)
    ends = itertools.accumulate(counts)
    parts = [x.part(axis, end - n, n) for end, n in zip(ends, counts, strict=True)]
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return Listed(tuple(parts if keeps else (part.reshape(shape) for part in parts)))


@converts("SequenceMap", 17, 17, note=_LATE, runs="native or Python")
def sequence_map(call: Call) -> Sequence[Listed]:
    """Emit the body once for each element of the sequences, and return the sequences of its
    results."""
    graph = call.graph("body")
    lists = [x.items for x in call.inputs if isinstance(x, Listed)]
    if any(isinstance(x, Handed) for x in call.inputs) or not lists:
        raise CutError(call.node)
    if len({len(items) for items in lists}) > 1:
        raise ShapeError("sequences have different lengths")
    rows: list[list[Value]] = []
    for i in range(len(lists[0])):
        taken = [x.items[i] if isinstance(x, Listed) else x for x in call.inputs]
        made = call.branch(graph, [x for x in taken if x is not None])
        rows.append([x for x in made if isinstance(x, Value)])
    return [Listed(tuple(row[i] for row in rows)) for i in range(len(graph.outputs))]


@converts("Optional", 15, 28, runs=_LISTED)
def optional(call: Call) -> Known:
    """Return an optional that has the operand as its element, or an empty one if there is no
    operand."""
    call.meaningless("type")
    value = call.inputs[0] if call.inputs else None
    if isinstance(value, Handed):
        raise CutError(call.node, Find("identity"))
    return Missing() if value is None else value


@converts("OptionalHasElement", 15, 28, note=_LATE, runs=_LISTED)
def optional_has_element(call: Call) -> Value:
    """Return whether an optional has an element."""
    value = call.inputs[0] if call.inputs else None
    if isinstance(value, Handed):
        raise CutError(call.node, Find("optional_has_element"))
    return call.constant(np.array(value is not None and not isinstance(value, Missing)))


@converts("OptionalGetElement", 15, 28, note=_LATE, runs=_LISTED)
def optional_get_element(call: Call) -> Known:
    """Return the element of an optional. Raises ShapeError if it has none."""
    value = call.inputs[0] if call.inputs else None
    if isinstance(value, Handed):
        raise CutError(call.node, Find("optional_get_element"))
    if value is None or isinstance(value, Missing):
        raise ShapeError("an optional has no element")
    return value


@converts("Identity", 1, 25)
def identity(call: Call) -> Known:
    """Return the operand."""
    value = call.inputs[0]
    if isinstance(value, Handed):
        raise CutError(call.node, Find("identity"))
    return call.x if value is None else value


def _items(call: Call, find: Find) -> tuple[Value, ...]:
    """Return the elements of the sequence in the first operand. Raises CutError, with ``find``, for
    a sequence that is known only at run time."""
    value = call.inputs[0]
    if isinstance(value, Handed):
        raise CutError(call.node, find)
    if not isinstance(value, Listed):
        raise InvalidModelError("input 0 is not a sequence", where=call.node.where)
    return value.items


def _position(call: Call, index: int, count: int, find: Find, *, past_end: bool = False) -> int:
    """Return the position in a sequence of ``count`` elements that the operand at ``index`` gives;
    without the operand, the last one, or the end if ``past_end``. Raises CutError, with
    ``find``, if it is not known at import."""
    value = call.optional(index)
    if value is None:
        return count if past_end else position_of(-1, count)
    if call.build.static(value) is None:
        raise CutError(call.node, find)
    return position_of(call.static_int(index, "a position in a sequence"), count, past_end=past_end)
