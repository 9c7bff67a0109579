"""Converters of ops that read or write at indices."""

from __future__ import annotations

import math

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.core import shapes_differ
from tessella.frontends.emitter import Value, where
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.registry import converts
from tessella.support.conditions import decided
from tessella.support.decisions import differs
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size


def _indices(call: Call, index: int) -> Value:
    """Return the operand of indices at an operand index, converted to int64 unless it is int32 or
    int64."""
    value = call.operand(index)
    return value if value.dtype.name in ("int32", "int64") else value.cast(np.int64)


@converts("Gather", 1, 13)
def gather(call: Call) -> Value:
    """Emit a gather of slices along an axis."""
    return call.x.gather(_indices(call, 1), call.axis(call.x))


@converts("GatherElements", 11, 13)
def gather_elements(call: Call) -> Value:
    """Emit a gather of single elements along an axis."""
    return call.x.op(nn.GatherElementsOp, _indices(call, 1), axis=call.axis(call.x))


@converts("GatherND", 11, 13)
def gather_nd(call: Call) -> Value:
    """Emit a gather of slices at index tuples."""
    batch = call.integer("batch_dims", 0)
    return call.x.op(nn.GatherNdOp, _indices(call, 1), batch_dims=batch)


@converts("Scatter", 9, 9)
@converts("ScatterElements", 11, 18)
def scatter_elements(call: Call) -> Value:
    """Emit a scatter of single elements along an axis."""
    return _scattered(call, nn.ScatterElementsOp, axis=call.axis(call.x))


@converts("ScatterND", 11, 18)
def scatter_nd(call: Call) -> Value:
    """Emit a scatter of slices at index tuples."""
    return _scattered(call, nn.ScatterNdOp)


_OF_BOOLEANS = {"add": "max", "mul": "min"}


def _scattered(call: Call, op: type[nn.NnOp], **settings: int) -> Value:
    """Emit the op ``op``, which writes updates at indices. For booleans, a sum is `or` and a
    product is `and`."""
    x, updates, reduction = call.x, call.operand(2), call.text("reduction", "none")
    if reduction != "none" and x.dtype == np.bool_:
        x, updates = x.cast(np.uint8), updates.cast(np.uint8)
        reduction = _OF_BOOLEANS.get(reduction, reduction)
    y = x.op(op, _indices(call, 1), updates, reduction=reduction, **settings)
    return y.cast(call.x.dtype)


@converts("OneHot", 9, 28, note="depth known at import")
def one_hot(call: Call) -> Value:
    """Emit one-hot vectors along a new axis: the index is compared with each position."""
    indices, values = call.x.cast(np.int64), call.operand(2)
    depth = _depth(call)
    _check_pair(values)
    axis = front_axis(call.integer("axis"), indices.rank + 1)
    indices = where(indices < 0, indices + depth, indices)
    column = indices.reshape((*indices.shape[:axis], 1, *indices.shape[axis:]))
    hit = column.equals(call.positions(depth, axis, column.rank))
    off, on = (values.part(0, i, 1).reshape(()) for i in (0, 1))
    return where(hit, on, off)


def _depth(call: Call) -> Size:
    number = call.static_element(1, "depth")
    is_size = math.isfinite(number) if isinstance(number, float) else True
    if not is_size or decided(number < 0):
        raise ShapeError("depth is no size", expected="a number >= 0", found=str(number))
    return int(number) if isinstance(number, float) else number


def _check_pair(values: Value) -> None:
    if values.rank != 1 or differs(values.shape[0], 2):
        raise ShapeError(
            "values are not the two elements for off and on",
            expected="[2]",
            found=str(list(values.shape)),
        )


@converts("ReverseSequence", 10, 28)
def reverse_sequence(call: Call) -> Value:
    """Emit a reversal of each sequence of a batch up to its length. Positions inside a sequence
    read its mirrored position, others their own."""
    x, shape = call.x, call.x.shape
    time, batch = (front_axis(call.integer(n), x.rank) for n in ("time_axis", "batch_axis"))
    if time == batch:
        raise ShapeError(
            "time_axis and batch_axis are the same", expected="distinct axes", found=str(time)
        )
    lengths = call.operand(1).cast(np.int64)
    if lengths.rank != 1 or shapes_differ(lengths.shape, (shape[batch],)):
        raise ShapeError(
            "sequence_lens has another shape than the batch",
            expected=str((shape[batch],)),
            found=str(lengths.shape),
        )
    lengths = call.checked(lengths, 0, shape[time], "sequence_lens")
    lengths = lengths.reshape([shape[d] if d == batch else 1 for d in range(x.rank)])
    positions = call.positions(shape[time], time, x.rank)
    indices = where(positions < lengths, lengths - 1 - positions, positions)
    return x.op(nn.GatherElementsOp, indices.expand(shape), axis=time)
