"""Converters of gradients and optimizers (domain ``ai.onnx.preview.training``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tessella.dialects import nn
from tessella.frontends.emitter import Value, Values, where
from tessella.frontends.gradients import NoGradientError, gradients, ops_after
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.differentiated import GRAPH, TITLE
from tessella.frontends.onnx.loop_body import converted
from tessella.frontends.onnx.registry import converts
from tessella.support.errors import InvalidModelError

_DOMAIN = "ai.onnx.preview.training"

Update = Callable[..., Values]
"""The update of one tensor: it takes the tensor, its gradient and its statistics, and returns the
new tensor and statistics."""


@converts(f"{_DOMAIN}.Momentum", 1, 1)
def momentum(call: Call) -> Values:
    """Emit stochastic gradient descent with momentum, as it is or with Nesterov's step."""
    rate, count = _rate(call), _count(call)
    alpha, beta = call.number("alpha"), call.number("beta")
    looks_ahead = call.choice("mode", "standard", "nesterov") == "nesterov"

    def update(x: Value, g: Value, v: Value) -> Values:
        g = _regularized(call, x, g)
        v = v * alpha + g * where(count > 0, g.like(beta), 1)
        step = g + v * alpha if looks_ahead else v
        return x - rate.cast(x.dtype) * step, v

    return _updated(call, 3, update)


@converts(f"{_DOMAIN}.Adagrad", 1, 1)
def adagrad(call: Call) -> Values:
    """Emit a step of Adagrad, whose rate shrinks with the sum of squared gradients."""
    rate, count = _rate(call), _count(call)
    rate = rate / (count.cast(rate.dtype) * call.number("decay_factor") + 1)
    epsilon = call.number("epsilon")

    def update(x: Value, g: Value, h: Value) -> Values:
        g = _regularized(call, x, g)
        h = h + g * g
        return x - rate.cast(x.dtype) * g / (h.op(nn.SqrtOp) + epsilon), h

    return _updated(call, 3, update)


@converts(f"{_DOMAIN}.Adam", 1, 1)
def adam(call: Call) -> Values:
    """Emit a step of Adam, with means of gradients and of their squares, and a correction of their
    bias from the second step on."""
    rate, count = _rate(call), _count(call)
    alpha, beta = call.number("alpha"), call.number("beta")
    past = count.cast(rate.dtype)
    lacking = [-(rate.like(decay) ** past) + 1 for decay in (beta, alpha)]
    rate = where(count > 0, rate * lacking[0].op(nn.SqrtOp) / lacking[1], rate)
    epsilon, kept = call.number("epsilon"), 1 - call.number("norm_coefficient_post")

    def update(x: Value, g: Value, v: Value, h: Value) -> Values:
        g = _regularized(call, x, g)
        v = v * alpha + g * (1 - alpha)
        h = h * beta + g * g * (1 - beta)
        moved = x - rate.cast(x.dtype) * v / (h.op(nn.SqrtOp) + epsilon)
        return moved * kept, v, h

    return _updated(call, 4, update)


@converts(
    TITLE,
    1,
    1,
    note="of elementwise ops, products, convolutions, reductions, resizes, moves of "
    "elements and gathers",
)
def gradient(call: Call) -> Values:
    """Emit the gradients of a value, at operands that stand for the values that ``xs`` and ``zs``
    name, with respect to those of ``xs``."""
    call.meaningless("zs", "y")
    values, block = call.operands(), call.build.block
    if len({value.ssa for value in values}) < len(values):
        call.unsupported("a gradient with respect to one value as two variables")
    last = block.last_op
    [y] = converted(call, call.graph(GRAPH), values, 1)
    try:
        return gradients(y, values[: len(call.attribute("xs"))], ops_after(block, last))
    except NoGradientError as error:
        call.unsupported(f"the gradient of {error}")


def _rate(call: Call) -> Value:
    """Return the learning rate as a scalar."""
    return call.operand(0).reshape(())


def _count(call: Call) -> Value:
    """Return the number of updates before this one as a scalar."""
    return call.operand(1).reshape(())


def _regularized(call: Call, x: Value, g: Value) -> Value:
    """Emit the gradient with that of the L2 penalty."""
    return g + x * call.number("norm_coefficient")


def _updated(call: Call, kinds: int, update: Update) -> Values:
    """Emit the updates of all tensors of a node, whose operands are, after the rate and the count,
    all tensors, all gradients, and the statistics of each kind; ``kinds`` counts these groups.

    The results are grouped in the same way. Raises InvalidModelError if the groups differ in
    size.
    """
    operands = call.operands(2)
    count, rest = divmod(len(operands), kinds)
    if rest or not count:
        raise InvalidModelError(
            "the inputs are not a gradient and statistics for each tensor",
            where=call.node.where,
            expected=f"2 inputs, then a multiple of {kinds}",
            found=str(len(call.inputs)),
        )
    groups: Sequence[Values] = [operands[i * count : (i + 1) * count] for i in range(kinds)]
    rows = [update(*row) for row in zip(*groups, strict=True)]
    return [value for column in zip(*rows, strict=True) for value in column]
