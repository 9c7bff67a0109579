"""Ops that read or write at indices."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import dtype_of, shape_of
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.cut import CutError, Find
from tessella.frontends.onnx.registry import converts
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size, product


def _indices(call: Call, index: int) -> SSAValue:
    """An operand of indices; types that `nn` has no gather for become int64."""
    value = call.operand(index)
    is_index = dtype_of(value.type).name in ("int32", "int64")
    return value if is_index else call.cast(value, np.int64)


@converts("Gather", 1, 13)
def gather(call: Call) -> SSAValue:
    """Slices along an axis."""
    return call.emit(nn.GatherOp, call.x, _indices(call, 1), axis=call.axis(call.x))


@converts("GatherElements", 11, 13)
def gather_elements(call: Call) -> SSAValue:
    """Single elements along an axis."""
    return call.emit(nn.GatherElementsOp, call.x, _indices(call, 1), axis=call.axis(call.x))


@converts("GatherND", 11, 13)
def gather_nd(call: Call) -> SSAValue:
    """Slices at index tuples."""
    batch = call.integer("batch_dims", 0)
    return call.emit(nn.GatherNdOp, call.x, _indices(call, 1), batch_dims=batch)


@converts("Scatter", 9, 9)
@converts("ScatterElements", 11, 18)
def scatter_elements(call: Call) -> SSAValue:
    """Single elements along an axis."""
    return _scattered(call, nn.ScatterElementsOp, axis=call.axis(call.x))


@converts("ScatterND", 11, 18)
def scatter_nd(call: Call) -> SSAValue:
    """Slices at index tuples."""
    return _scattered(call, nn.ScatterNdOp)


_OF_BOOLEANS = {"add": "max", "mul": "min"}


def _scattered(call: Call, op: type[nn.NnOp], **settings: int) -> SSAValue:
    """Updates at indices; of booleans, a sum says whether there is one, a product whether all
    are."""
    x, updates, dtype = call.x, call.operand(2), dtype_of(call.x.type)
    reduction = call.text("reduction", "none")
    if reduction != "none" and dtype == np.bool_:
        x, updates = call.cast(x, np.uint8), call.cast(updates, np.uint8)
        reduction = _OF_BOOLEANS.get(reduction, reduction)
    y = call.emit(op, x, _indices(call, 1), updates, reduction=reduction, **settings)
    return call.cast(y, dtype)


@converts("OneHot", 9, 28, note="depth known at import")
def one_hot(call: Call) -> SSAValue:
    """Indices compared with each position along a new axis."""
    indices = call.cast(call.x, np.int64)
    number = call.static_number(1, "depth")
    depth = int(number) if isinstance(number, float) else number
    rank = len(shape_of(indices)) + 1
    axis = front_axis(call.integer("axis"), rank)
    negative = call.emit(nn.LessOp, indices, call.scalar(0, indices))
    wrapped = call.emit(nn.AddOp, indices, call.scalar(depth, indices))
    indices = call.emit(nn.WhereOp, negative, wrapped, indices)
    shape = shape_of(indices)
    column = call.reshape(indices, (*shape[:axis], 1, *shape[axis:]))
    if depth < 1:
        raise ShapeError("depth is not positive", found=str(depth))
    hit = call.emit(nn.EqualOp, column, call.positions(depth, axis, rank))
    off, on = (_element(call, call.operand(2), i) for i in (0, 1))
    return call.emit(nn.WhereOp, hit, on, off)


def _element(call: Call, vector: SSAValue, index: int) -> SSAValue:
    picked = call.emit(nn.SliceOp, vector, starts=(index,), sizes=(1,), steps=(1,))
    return call.reshape(picked, ())


@converts("Compress", 9, 28, note="in NumPy where the condition is not known at import")
def compress(call: Call) -> SSAValue:
    """The slices along an axis, or the elements, for which a condition holds."""
    x, axis = call.x, call.attribute("axis")
    if axis is None:
        x, axis = _flat(call, x), 0
    axis = front_axis(axis, len(shape_of(x)))
    condition = call.build.static(call.operand(1))
    if condition is None:
        shape: list[Size | str] = [*shape_of(x)]
        shape[axis] = "count"
        settings = {"axis": call.attribute("axis")}
        raise CutError(call.node, Find("compress", settings, [(dtype_of(x.type), shape)]))
    chosen = np.flatnonzero(condition)
    if chosen.size and chosen[-1] >= shape_of(x)[axis]:
        raise ShapeError("the condition is longer than the data", found=str(call.operand(1).type))
    return call.emit(nn.GatherOp, x, call.constant(chosen.astype(np.int64)), axis=axis)


def _flat(call: Call, x: SSAValue) -> SSAValue:
    return call.reshape(x, (product(shape_of(x)),))


@converts("ReverseSequence", 10, 28)
def reverse_sequence(call: Call) -> SSAValue:
    """Where the position is inside its sequence, the mirrored one is read."""
    x, shape = call.x, shape_of(call.x)
    time, batch = (front_axis(call.integer(n), len(shape)) for n in ("time_axis", "batch_axis"))
    if time == batch:
        raise ShapeError("time_axis and batch_axis are the same", found=str(time))
    lengths = call.cast(call.operand(1), np.int64)
    lengths = call.reshape(lengths, [shape[d] if d == batch else 1 for d in range(len(shape))])
    positions = call.positions(shape[time], time, len(shape))
    last = call.emit(nn.SubOp, lengths, call.scalar(1, lengths))
    mirrored = call.emit(nn.SubOp, last, positions)
    inside = call.emit(nn.LessOp, positions, lengths)
    indices = call.emit(nn.WhereOp, inside, mirrored, positions)
    return call.emit(nn.GatherElementsOp, x, call.expand(indices, shape), axis=time)
