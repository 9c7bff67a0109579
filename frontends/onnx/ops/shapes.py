"""Ops that return the shape of a tensor."""

from __future__ import annotations

import math

from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.registry import converts


@converts("Shape", 1, 25)
def shape(call: Call) -> Value:
    """A constant, or the values of sizes; ``start`` and ``end`` slice it."""
    part = call.x.shape[call.attribute("start") : call.attribute("end")]
    return call.build.sizes(part)


@converts("Size", 1, 25)
def size(call: Call) -> Value:
    """A constant, or the value of a size."""
    return call.build.sizes([math.prod(call.x.shape)]).reshape(())
