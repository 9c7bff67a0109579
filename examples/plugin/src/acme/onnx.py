"""The ops of the ONNX domain `com.acme`, which exporters write for modules of this package.

Each becomes ops of `nn` and of this package. The shape of the result follows from these ops.
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
    """Emit the softmax of gates along an axis, and squareplus of the operand times that."""
    x, gates = call.x, call.operand(1)
    weights = gates.op(nn.SoftmaxOp, axis=call.axis(gates))
    return [(x * weights).op(SquareplusOp, b=4.0), weights]
