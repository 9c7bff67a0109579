"""Gradients of values of a program under construction, by reverse-mode differentiation.

    y = exp (x * w)    ->    g = 1;  g = g * y;  dx = sum (g * w);  dw = sum (g * x)

The sum is over the dimensions that the op has broadcast.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from tessella.dialects import nn
from tessella.dialects.elements import element_of
from tessella.frontends.convolution_gradients import (
    MOST_TAPS,
    WindowSettings,
    has_kernel_gradient,
    of_bias,
)
from tessella.frontends.emitter import Value, Values, where
from tessella.frontends.resize_gradients import MOST_WEIGHTS, has_gradient, of_resized
from tessella.support.sizes import Size, product


@dataclass(frozen=True)
class Applied:
    """An op with its operands and its result, and the gradient of its result."""

    op: nn.NnOp
    operands: Values
    result: Value
    gradient: Value
    needed: Sequence[bool]
    """Whether the gradient of each operand is needed."""

    @property
    def x(self) -> Value:
        """The first operand."""
        return self.operands[0]


Rule = Callable[[Applied], Sequence[Value | None]]
"""The gradients of an op's operands; None for an operand that the result does not depend on
differentiably."""


class NoGradientError(Exception):
    """An op without a gradient, by its name."""


def gradients(y: Value, xs: Values, inside: Sequence[Operation]) -> Values:
    """Emit the gradients of the sum of a value's elements with respect to each of ``xs``.
    ``inside`` are the ops from ``xs`` to ``y``, in execution order.

    Raises NoGradientError for an op that depends on ``xs`` and has no gradient.
    """
    depends = {x.ssa for x in xs}
    reached: list[Operation] = []
    for op in inside:
        if not depends.isdisjoint(op.operands):
            depends.update(op.results)
            reached.append(op)
    found: dict[SSAValue, Value] = {y.ssa: y.emitter.splat(1, y.shape, y.dtype)}
    for op in reversed(reached):
        if len(op.results) == 1 and op.results[0] in found and isinstance(op, nn.NnOp):
            _propagate(op, found, depends, y)
    zero = (y.emitter.splat(0, x.shape, x.dtype) for x in xs)
    return [found.get(x.ssa, none) for x, none in zip(xs, zero, strict=True)]


def ops_after(block: Block, last: Operation | None) -> Sequence[Operation]:
    """Return the ops of a block that follow an op; all of them if it is None."""
    op = block.first_op if last is None else last.next_op
    found: list[Operation] = []
    while op is not None:
        found.append(op)
        op = op.next_op
    return found


def pulled_back(forward: Callable[[], Value], xs: Values, gradient: Value) -> Values:
    """Emit the gradients with respect to each of ``xs``, given the gradient of the value that
    ``forward`` emits."""
    block = gradient.emitter.block
    last = block.last_op
    y = forward() * gradient
    return gradients(y, xs, ops_after(block, last))


def _propagate(op: nn.NnOp, found: dict[SSAValue, Value], depends: set[SSAValue], y: Value) -> None:
    """Add the gradients of an op's operands to those found so far."""
    rule = RULES.get(type(op))
    if rule is None:
        raise NoGradientError(op.name)
    if any(element_of(x.type).is_complex for x in (*op.operands, *op.results)):
        raise NoGradientError(f"{op.name} of complex numbers")
    operands = y.emitter.values(op.operands)
    [result] = y.emitter.values(op.results)
    needed = [operand.ssa in depends and operand.is_float for operand in operands]
    made = rule(Applied(op, operands, result, found[op.results[0]], needed))
    for operand, gradient, is_needed in zip(operands, made, needed, strict=True):
        if gradient is None or not is_needed:
            continue
        gradient = _fitted(gradient, operand)
        known = found.get(operand.ssa)
        found[operand.ssa] = gradient if known is None else known + gradient


def _fitted(gradient: Value, operand: Value) -> Value:
    """Sum a gradient over the dimensions that its op has broadcast."""
    added = gradient.rank - operand.rank
    gradient = gradient.sum(range(added)) if added else gradient
    pairs = enumerate(zip(gradient.shape, operand.shape, strict=True))
    axes = [axis for axis, (wide, own) in pairs if wide != own]
    return gradient.sum(axes, keepdims=True) if axes else gradient


def _unary(derivative: Callable[[Value, Value], Value]) -> Rule:
    """Return the rule of an elementwise op by its derivative, a function of the operand and the
    result."""
    return lambda a: [a.gradient * derivative(a.x, a.result)]


def _binary(left: Callable[[Applied], Value], right: Callable[[Applied], Value]) -> Rule:
    return lambda a: [left(a), right(a)]


def _chosen(a: Applied) -> Sequence[Value]:
    """Return the gradients of a maximum or minimum: the elements that are the result."""
    first = a.x.equals(a.result)
    return [where(first, a.gradient, 0), where(first, a.gradient.like(0), a.gradient)]


def _clip(a: Applied) -> Sequence[Value]:
    return [where(a.x.equals(a.result), a.gradient, 0)]


def _cast(a: Applied) -> Sequence[Value | None]:
    return [a.gradient.cast(a.x.dtype) if a.result.is_float else None]


def _transposed(x: Value) -> Value:
    return x.transpose((*range(x.rank - 2), x.rank - 1, x.rank - 2))


def _matmul(a: Applied) -> Sequence[Value]:
    left, right = a.operands
    if a.op.settings["transpose_b"]:
        return [a.gradient @ right, _transposed(a.gradient) @ left]
    return [a.gradient @ _transposed(right), _transposed(left) @ a.gradient]


def _grouped_matmul(a: Applied) -> Sequence[Value | None]:
    x, w, ends = a.operands
    of_x = a.gradient.op(nn.GroupedMatmulOp, _transposed(w), ends)
    return [of_x, x.op(nn.GroupedOuterOp, a.gradient, ends), None]


def _grouped_outer(a: Applied) -> Sequence[Value | None]:
    left, right, ends = a.operands
    of_left = right.op(nn.GroupedMatmulOp, _transposed(a.gradient), ends)
    return [of_left, left.op(nn.GroupedMatmulOp, a.gradient, ends), None]


def _convolution(a: Applied) -> Sequence[Value | None]:
    x, w, *biases = a.operands
    if a.needed[1] and not has_kernel_gradient(w):
        raise NoGradientError(f"{a.op.name} with a kernel of more than {MOST_TAPS} elements")
    names = ("strides", "pads", "dilations", "groups")
    transposed = isinstance(a.op, nn.ConvTransposeOp)
    windows = WindowSettings(**{name: a.op.settings[name] for name in names}, transposed=transposed)
    kernel = windows.of_kernel(x, w, a.gradient) if a.needed[1] else None
    return [windows.of_image(x, w, a.gradient), kernel, *(of_bias(a.gradient) for _ in biases)]


def _spread(a: Applied, value: Value) -> Value:
    """Return a value with the shape of a reduction's result, expanded to the operand's shape."""
    axes = a.op.settings["axes"]
    kept = [1 if axis in axes else size for axis, size in enumerate(a.x.shape)]
    return value.reshape(kept).expand(a.x.shape)


def _extreme(a: Applied) -> Sequence[Value]:
    """Return the gradient of a largest or least element, which equal elements share."""
    among = a.x.equals(_spread(a, a.result)).cast(a.x.dtype)
    count = among.sum(a.op.settings["axes"], keepdims=a.op.settings["keepdims"])
    return [_spread(a, a.gradient / count) * among]


def _mean(a: Applied) -> Sequence[Value]:
    axes: Sequence[int] = a.op.settings["axes"]
    count = product(a.x.shape[axis] for axis in axes)
    return [_spread(a, a.gradient) / count]


def _softmax(a: Applied) -> Sequence[Value]:
    total = (a.gradient * a.result).sum([a.op.settings["axis"]], keepdims=True)
    return [(a.gradient - total) * a.result]


def _log_softmax(a: Applied) -> Sequence[Value]:
    total = a.gradient.sum([a.op.settings["axis"]], keepdims=True)
    return [a.gradient - a.result.op(nn.ExpOp) * total]


def _transpose(a: Applied) -> Sequence[Value]:
    perm: Sequence[int] = a.op.settings["perm"]
    return [a.gradient.transpose([perm.index(axis) for axis in range(len(perm))])]


def _concat(a: Applied) -> Sequence[Value]:
    axis: int = a.op.settings["axis"]
    sizes = [operand.shape[axis] for operand in a.operands]
    starts: Sequence[Size] = [0, *itertools.accumulate(sizes)]
    pairs = zip(starts, sizes, strict=False)
    return [a.gradient.part(axis, start, size) for start, size in pairs]


def _slice(a: Applied) -> Sequence[Value | None]:
    settings, x = a.op.settings, a.x
    if any(step != 1 for step in settings["steps"]):
        raise NoGradientError(f"{a.op.name} with steps")
    low = settings["starts"]
    ends = (start + size for start, size in zip(low, settings["sizes"], strict=True))
    return [a.gradient.pad(low, [size - end for size, end in zip(x.shape, ends, strict=True)])]


def _pad(a: Applied) -> Sequence[Value]:
    if a.op.settings["mode"] != "constant":
        raise NoGradientError(f"{a.op.name} with copied elements")
    return [a.gradient.slice(a.op.settings["low"], a.x.shape)]


def _gather(a: Applied) -> Sequence[Value | None]:
    axis: int = a.op.settings["axis"]
    x, indices = a.operands
    zeros = x.emitter.splat(0, x.shape, x.dtype)
    order = [axis, *(d for d in range(x.rank) if d != axis)]
    # the gathered dimensions come first, for a scatter of slices
    middle = range(axis, axis + indices.rank)
    given = a.gradient.transpose([*middle, *(d for d in range(a.gradient.rank) if d not in middle)])
    added = zeros.transpose(order).scatter(indices, given, "add")
    return [added.transpose([order.index(d) for d in range(x.rank)]), None]


def _gather_elements(a: Applied) -> Sequence[Value | None]:
    x, indices = a.operands
    zeros = x.emitter.splat(0, x.shape, x.dtype)
    axis: int = a.op.settings["axis"]
    added = zeros.op(nn.ScatterElementsOp, indices, a.gradient, axis=axis, reduction="add")
    return [added, None]


def _resize(a: Applied) -> Sequence[Value]:
    if not has_gradient(a.op, a.x.shape):
        raise NoGradientError(f"{a.op.name} of more than {MOST_WEIGHTS} pairs of elements")
    return [of_resized(a.op, a.x.shape, a.gradient)]


def _steps(a: Applied) -> Sequence[Value | None]:
    """Return no gradient: the result is constant but for steps."""
    return [None]


_LOG_2, _LOG_10 = math.log(2), math.log(10)
_ERF = 2 / math.sqrt(math.pi)

RULES: Mapping[type[nn.NnOp], Rule] = {
    # elementwise ops of one operand
    nn.AbsOp: _unary(lambda x, _: x.op(nn.OPS["sign"])),
    nn.NegOp: lambda a: [-a.gradient],
    nn.OPS["relu"]: lambda a: [where(a.x > 0, a.gradient, 0)],
    nn.ClipOp: _clip,
    nn.ExpOp: _unary(lambda _, y: y),
    nn.LogOp: _unary(lambda x, _: x.op(nn.OPS["reciprocal"])),
    nn.OPS["log2"]: _unary(lambda x, _: 1 / (x * _LOG_2)),
    nn.OPS["log10"]: _unary(lambda x, _: 1 / (x * _LOG_10)),
    nn.SqrtOp: _unary(lambda _, y: 0.5 / y),
    nn.OPS["reciprocal"]: _unary(lambda _, y: -(y * y)),
    nn.OPS["sin"]: _unary(lambda x, _: x.op(nn.OPS["cos"])),
    nn.OPS["cos"]: _unary(lambda x, _: -x.op(nn.OPS["sin"])),
    nn.OPS["tan"]: _unary(lambda _, y: y * y + 1),
    nn.OPS["sinh"]: _unary(lambda x, _: x.op(nn.OPS["cosh"])),
    nn.OPS["cosh"]: _unary(lambda x, _: x.op(nn.OPS["sinh"])),
    nn.OPS["tanh"]: _unary(lambda _, y: 1 - y * y),
    nn.ErfOp: _unary(lambda x, _: (-(x * x)).op(nn.ExpOp) * _ERF),
    nn.SigmoidOp: _unary(lambda _, y: y * (1 - y)),
    nn.OPS["softplus"]: _unary(lambda x, _: x.op(nn.SigmoidOp)),
    nn.OPS["softsign"]: _unary(lambda _, y: (1 - abs(y)) * (1 - abs(y))),
    nn.FloorOp: _steps,
    nn.OPS["ceil"]: _steps,
    nn.RoundOp: _steps,
    nn.SignOp: _steps,
    nn.CastOp: _cast,
    # elementwise ops of several operands
    nn.AddOp: lambda a: [a.gradient, a.gradient],
    nn.SubOp: lambda a: [a.gradient, -a.gradient],
    nn.MulOp: lambda a: [a.gradient * a.operands[1], a.gradient * a.x],
    nn.DivOp: _binary(
        lambda a: a.gradient / a.operands[1],
        lambda a: -(a.gradient * a.result / a.operands[1]),
    ),
    nn.PowOp: _binary(
        lambda a: a.gradient * a.operands[1] * a.x ** (a.operands[1] - 1),
        lambda a: where(a.x > 0, a.gradient * a.result * a.x.op(nn.LogOp), 0),
    ),
    nn.ModOp: _binary(
        lambda a: a.gradient,
        lambda a: -(a.gradient * (a.x / a.operands[1]).op(nn.FloorOp)),
    ),
    nn.MaxOp: _chosen,
    nn.MinOp: _chosen,
    nn.WhereOp: lambda a: [
        None,
        where(a.x, a.gradient, 0),
        where(a.x, a.gradient.like(0), a.gradient),
    ],
    # sums of products
    nn.MatmulOp: _matmul,
    nn.GroupedMatmulOp: _grouped_matmul,
    nn.GroupedOuterOp: _grouped_outer,
    nn.ConvOp: _convolution,
    nn.ConvTransposeOp: _convolution,
    # reductions
    nn.ReduceSumOp: lambda a: [_spread(a, a.gradient)],
    nn.ReduceMeanOp: _mean,
    nn.ReduceMaxOp: _extreme,
    nn.ReduceMinOp: _extreme,
    nn.SoftmaxOp: _softmax,
    nn.LogSoftmaxOp: _log_softmax,
    # moves of elements
    nn.ReshapeOp: lambda a: [a.gradient.reshape(a.x.shape)],
    nn.ExpandOp: lambda a: [a.gradient],
    nn.TransposeOp: _transpose,
    nn.ConcatOp: _concat,
    nn.SliceOp: _slice,
    nn.PadOp: _pad,
    nn.GatherOp: _gather,
    nn.GatherElementsOp: _gather_elements,
    nn.ResizeOp: _resize,
}
"""The rule of each op that has a gradient."""
