"""Converters for the ops of the ONNX domain `com.acme`, which exporters write for this package.

A converter replaces an op by ops of `nn` and of this package. The shapes of the results follow from
these ops.
"""

from __future__ import annotations

from acme.ops import SquareplusOp
from tessella.dialects import nn
from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.registry import contributed


@contributed("Squareplus", domain="com.acme", b=4.0)
def squareplus(call: Call) -> Value:
    """Emit (x + sqrt(x^2 + b)) / 2."""
    return call.x.op(SquareplusOp, b=call.number("b"))


@contributed("Gated", domain="com.acme", axis=-1)
def gated(call: Call) -> list[Value]:
    """Emit the softmax of the gates along an axis, and squareplus of the product of the operand and
    that softmax."""
    x, gates = call.x, call.operand(1)
    weights = gates.op(nn.SoftmaxOp, axis=call.axis(gates))
    return [(x * weights).op(SquareplusOp, b=4.0), weights]
