"""Reductions, and what else runs along axes: softmax, cumulative sums, the k largest."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import dtype_of, is_float, shape_of
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.registry import converts
from tessella.support.errors import ShapeError

_PLAIN: dict[str, tuple[type[nn.NnOp], int]] = {
    "ReduceSum": (nn.ReduceSumOp, 13),
    "ReduceMean": (nn.ReduceMeanOp, 18),
    "ReduceMax": (nn.ReduceMaxOp, 20),
    "ReduceMin": (nn.ReduceMinOp, 20),
    "ReduceProd": (nn.ReduceProdOp, 18),
}


def _axes(call: Call, x: SSAValue) -> tuple[int, ...] | None:
    """The axes to reduce, from the front; None where nothing is reduced."""
    rank, axes = len(shape_of(x)), call.listed("axes", 1)
    if axes:
        return tuple(front_axis(axis, rank) for axis in axes)
    return None if call.flag("noop_with_empty_axes") else tuple(range(rank))


def _reduced(call: Call, op: type[nn.NnOp], x: SSAValue, keepdims: bool | None = None) -> SSAValue:
    axes = _axes(call, x)
    if axes is None:
        return x
    keep = call.flag("keepdims", True) if keepdims is None else keepdims
    return call.emit(op, x, axes=axes, keepdims=keep)


def _plain(op: type[nn.NnOp]) -> Callable[[Call], SSAValue]:
    return lambda call: _reduced(call, op, call.x)


for _name, (_op, _last) in _PLAIN.items():
    converts(_name, 1, _last)(_plain(_op))


@converts("ReduceL1", 1, 18)
def reduce_l1(call: Call) -> SSAValue:
    """sum(|x|)."""
    return _reduced(call, nn.ReduceSumOp, call.emit(nn.AbsOp, call.x))


@converts("ReduceSumSquare", 1, 18)
def reduce_sum_square(call: Call) -> SSAValue:
    """sum(x^2)."""
    return _square_sum(call, call.x)


def _square_sum(call: Call, x: SSAValue) -> SSAValue:
    return _reduced(call, nn.ReduceSumOp, call.emit(nn.MulOp, x, x))


@converts("ReduceL2", 1, 18)
def reduce_l2(call: Call) -> SSAValue:
    """sqrt(sum(x^2))."""
    return _through_float(call, lambda x: _square_sum(call, x), nn.SqrtOp)


@converts("ReduceLogSum", 1, 28)
def reduce_log_sum(call: Call) -> SSAValue:
    """log(sum(x))."""
    return _through_float(call, lambda x: _reduced(call, nn.ReduceSumOp, x), nn.LogOp)


def _through_float(
    call: Call, total: Callable[[SSAValue], SSAValue], op: type[nn.NnOp]
) -> SSAValue:
    """A function of a sum that may be of integers, or too large for a float of 16 bits."""
    dtype = dtype_of(call.x.type)
    is_half = is_float(call.x.type) and dtype.itemsize == 2
    value = total(call.cast(call.x, np.float32) if is_half else call.x)
    wide = value if is_float(value.type) else call.cast(value, np.float64)
    return call.cast(call.emit(op, wide), dtype)


@converts("ReduceLogSumExp", 1, 28)
def reduce_log_sum_exp(call: Call) -> SSAValue:
    """log(sum(e^x)), of x less its maximum so that nothing overflows."""
    dtype = dtype_of(call.x.type)
    x = call.cast(call.x, dtype if is_float(call.x.type) else np.float64)
    if _axes(call, x) is None:
        return call.x
    top = _reduced(call, nn.ReduceMaxOp, x, keepdims=True)
    # an infinite maximum would make NaN of inf - inf
    top = call.emit(nn.WhereOp, call.emit(nn.IsInfOp, top), call.scalar(0, top), top)
    total = _reduced(call, nn.ReduceSumOp, call.emit(nn.ExpOp, call.emit(nn.SubOp, x, top)))
    result = call.emit(nn.LogOp, total)
    return call.cast(call.emit(nn.AddOp, result, call.reshape(top, shape_of(result))), dtype)


def _arg(op: type[nn.NnOp]) -> Callable[[Call], SSAValue]:
    return lambda call: call.emit(
        op,
        call.x,
        axis=call.axis(call.x),
        keepdims=call.flag("keepdims"),
        select_last_index=call.flag("select_last_index"),
    )


converts("ArgMax", 1, 13)(_arg(nn.ArgMaxOp))
converts("ArgMin", 1, 13)(_arg(nn.ArgMinOp))


def along_axis(call: Call, apply: Callable[[SSAValue, int], SSAValue]) -> SSAValue:
    """A function along ``axis``; before version 13 along it and all after it as one."""
    x, shape = call.x, shape_of(call.x)
    if call.version >= 13:
        return apply(x, call.axis(x))
    axis = call.integer("axis")
    # one past the last axis is allowed here
    axis = axis if axis == len(shape) else front_axis(axis, len(shape))
    if math.prod(shape[axis + 1 :]) == 1 and axis < len(shape):
        return apply(x, axis)
    flat = (math.prod(shape[:axis]), math.prod(shape[axis:]))
    return call.reshape(apply(call.reshape(x, flat), 1), shape)


@converts("Softmax", 1, 13)
def softmax(call: Call) -> SSAValue:
    """Along an axis."""
    return along_axis(call, lambda x, axis: call.emit(nn.SoftmaxOp, x, axis=axis))


@converts("LogSoftmax", 1, 13)
def log_softmax(call: Call) -> SSAValue:
    """Along an axis."""
    return along_axis(call, lambda x, axis: call.emit(nn.LogSoftmaxOp, x, axis=axis))


@converts("Hardmax", 1, 13)
def hardmax(call: Call) -> SSAValue:
    """1 at the first largest element along an axis, 0 elsewhere."""
    return along_axis(call, lambda x, axis: _hardmax(call, x, axis))


def _hardmax(call: Call, x: SSAValue, axis: int) -> SSAValue:
    if 0 in shape_of(x):
        return x
    first = call.emit(nn.ArgMaxOp, x, axis=axis, keepdims=True, select_last_index=False)
    positions = call.positions(shape_of(x)[axis], axis, len(shape_of(x)))
    return call.cast(call.emit(nn.EqualOp, first, positions), dtype_of(x.type))


@converts("CumSum", 11, 14, note="axis known at import")
def cumsum(call: Call) -> SSAValue:
    """From either end, with or without the element itself."""
    return call.emit(
        nn.CumsumOp,
        call.x,
        axis=front_axis(call.static_int(1, "axis"), len(shape_of(call.x))),
        exclusive=call.flag("exclusive"),
        reverse=call.flag("reverse"),
    )


@converts("CumProd", 26, 26, note="axis known at import")
def cumprod(call: Call) -> SSAValue:
    """Each step multiplies by what is 1, 2, 4... places before: log2(n) steps."""
    x, shape = call.x, shape_of(call.x)
    axis = front_axis(call.static_int(1, "axis"), len(shape))
    reverse, distance = call.flag("reverse"), 1
    if call.flag("exclusive"):
        x = _shifted(call, x, axis, 1, reverse)
    while distance < shape[axis]:
        x = call.emit(nn.MulOp, x, _shifted(call, x, axis, distance, reverse))
        distance *= 2
    return x


def _shifted(call: Call, x: SSAValue, axis: int, distance: int, reverse: bool) -> SSAValue:
    """x moved away from its start (its end) along an axis, with ones in the gap."""
    shape = shape_of(x)
    distance = min(distance, shape[axis])
    starts, low, high = ([0] * len(shape) for _ in range(3))
    starts[axis] = distance if reverse else 0
    (high if reverse else low)[axis] = distance
    sizes = [n - distance if d == axis else n for d, n in enumerate(shape)]
    kept = call.emit(
        nn.SliceOp, x, starts=tuple(starts), sizes=tuple(sizes), steps=(1,) * len(shape)
    )
    return call.emit(nn.PadOp, kept, low=tuple(low), high=tuple(high), mode="constant", value=1.0)


@converts("TopK", 1, 24, note="k known at import")
def topk(call: Call) -> tuple[SSAValue, ...]:
    """In order, whether asked for or not."""
    k = call.integer("k") if call.version < 10 else call.static_size(1, "k")
    axis = call.axis(call.x)
    if not 0 <= k <= shape_of(call.x)[axis]:
        raise ShapeError("k is out of range", expected=f"at most {shape_of(call.x)[axis]}")
    return call.build.emit(nn.TopkOp, call.x, k=k, axis=axis, largest=call.flag("largest", True))
