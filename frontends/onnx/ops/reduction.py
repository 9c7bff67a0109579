"""Converters of reductions and of other ops along axes: softmax, cumulative sums, the k largest
elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.traits import TakesComplex
from tessella.frontends.emitter import Value, where
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.registry import converts
from tessella.support.conditions import decided
from tessella.support.errors import ShapeError

_PLAIN: dict[str, tuple[type[nn.NnOp], int]] = {
    "ReduceSum": (nn.ReduceSumOp, 13),
    "ReduceMean": (nn.ReduceMeanOp, 18),
    "ReduceMax": (nn.ReduceMaxOp, 20),
    "ReduceMin": (nn.ReduceMinOp, 20),
    "ReduceProd": (nn.ReduceProdOp, 18),
}


@dataclass(frozen=True)
class _Reduction:
    """The axes that a node reduces (None if it reduces no axis), and whether the result keeps them
    with size 1."""

    axes: tuple[int, ...] | None
    keepdims: bool

    @staticmethod
    def of(call: Call) -> _Reduction:
        """Return the axes that a node's operand and attributes select."""
        rank, listed = call.x.rank, call.listed_ints(1, "axes")
        keepdims, is_noop = call.flag("keepdims", True), call.flag("noop_with_empty_axes")
        if listed:
            return _Reduction(tuple(front_axis(axis, rank) for axis in listed), keepdims)
        return _Reduction(None if is_noop else tuple(range(rank)), keepdims)

    def __call__(self, op: type[nn.NnOp], x: Value) -> Value:
        if self.axes is None:
            return x
        return x.op(op, axes=self.axes, keepdims=self.keepdims)


def _plain(op: type[nn.NnOp]) -> Callable[[Call], Value]:
    return lambda call: _Reduction.of(call)(op, call.x)


for _name, (_op, _last) in _PLAIN.items():
    converts(_name, 1, _last, complex=_op.has_trait(TakesComplex))(_plain(_op))


@converts("ReduceL1", 1, 18)
def reduce_l1(call: Call) -> Value:
    """Emit sum(|x|)."""
    return _sum(call, abs(call.x))


@converts("ReduceSumSquare", 1, 18)
def reduce_sum_square(call: Call) -> Value:
    """Emit sum(x^2)."""
    return _sum(call, call.x * call.x)


def _sum(call: Call, x: Value) -> Value:
    return _Reduction.of(call)(nn.ReduceSumOp, x)


@converts("ReduceL2", 1, 18)
def reduce_l2(call: Call) -> Value:
    """Emit sqrt(sum(x^2))."""
    x = _wide(call.x)
    return _of_sum(nn.SqrtOp, _sum(call, x * x)).cast(call.x.dtype)


@converts("ReduceLogSum", 1, 28)
def reduce_log_sum(call: Call) -> Value:
    """Emit log(sum(x))."""
    return _of_sum(nn.LogOp, _sum(call, _wide(call.x))).cast(call.x.dtype)


def _wide(x: Value) -> Value:
    """Return ``x`` as float32 if it has 16-bit floats, in which a sum may overflow, otherwise
    unchanged."""
    return x.cast(np.float32) if x.is_float and x.dtype.itemsize == 2 else x


def _of_sum(op: type[nn.NnOp], total: Value) -> Value:
    """Emit ``op`` on a sum, in float64 if the sum is an integer."""
    return (total if total.is_float else total.cast(np.float64)).op(op)


@converts("ReduceLogSumExp", 1, 28)
def reduce_log_sum_exp(call: Call) -> Value:
    """Emit log(sum(e^x)), with the maximum subtracted from x to avoid overflow, and added at the
    end."""
    reduced = _Reduction.of(call)
    if reduced.axes is None:
        return call.x
    x = call.x if call.x.is_float else call.x.cast(np.float64)
    top = x.max(reduced.axes, keepdims=True)
    # an infinite maximum would give inf - inf = NaN
    top = where(top.op(nn.IsInfOp), 0, top)
    total = reduced(nn.ReduceSumOp, (x - top).op(nn.ExpOp))
    return (total.op(nn.LogOp) + top.reshape(total.shape)).cast(call.x.dtype)


def _arg(op: type[nn.NnOp]) -> Callable[[Call], Value]:
    return lambda call: call.x.op(
        op,
        axis=call.axis(call.x),
        keepdims=call.flag("keepdims"),
        select_last_index=call.flag("select_last_index"),
    )


converts("ArgMax", 1, 13)(_arg(nn.ArgMaxOp))
converts("ArgMin", 1, 13)(_arg(nn.ArgMinOp))


@converts("Softmax", 1, 13)
def softmax(call: Call) -> Value:
    """Emit the softmax along an axis."""
    return call.x.op(nn.SoftmaxOp, axis=call.axis(call.x))


@converts("LogSoftmax", 1, 13)
def log_softmax(call: Call) -> Value:
    """Emit the logarithm of the softmax along an axis."""
    return call.x.op(nn.LogSoftmaxOp, axis=call.axis(call.x))


@converts("Hardmax", 1, 13)
def hardmax(call: Call) -> Value:
    """Emit 1 at the first largest element along an axis, 0 elsewhere."""
    x, axis = call.x, call.axis(call.x)
    if 0 in x.shape:
        return x
    first = x.op(nn.ArgMaxOp, axis=axis, keepdims=True, select_last_index=False)
    return first.equals(call.positions(x.shape[axis], axis, x.rank)).cast(x.dtype)


def _cumulative(op: type[nn.CumulativeOp]):
    def convert(call: Call) -> Value:
        """Emit a cumulative op along an axis, from either end, inclusive or exclusive."""
        return call.x.op(
            op,
            axis=front_axis(call.static_int(1, "axis"), call.x.rank),
            exclusive=call.flag("exclusive"),
            reverse=call.flag("reverse"),
        )

    return convert


_AXIS = "axis known at import"
converts("CumSum", 11, 14, note=_AXIS, complex=True)(_cumulative(nn.CumsumOp))
converts("CumProd", 26, 26, note=_AXIS, complex=True)(_cumulative(nn.CumprodOp))


@converts("TopK", 1, 24, note="k known at import, or a size that is computed")
def topk(call: Call) -> tuple[Value, ...]:
    """Emit the k largest or smallest elements along an axis and their positions, always sorted,
    even if the attribute does not ask for it."""
    call.meaningless("sorted")
    k, axis = call.static_size(1, "k"), call.axis(call.x)
    if decided(k < 0) or decided(k > call.x.shape[axis]):
        raise ShapeError(
            "k is out of range", expected=f"in [0, {call.x.shape[axis]}]", found=str(k)
        )
    return call.build.emit(nn.TopkOp, call.x, k=k, axis=axis, largest=call.flag("largest", True))
