"""Ops whose result tells the shape of a tensor."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from tessella.dialects.nn.core import shape_of
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.registry import converts


@converts("Shape", 1, 25)
def shape(call: Call) -> SSAValue:
    """A constant, or the values of sizes; ``start`` and ``end`` slice it."""
    part = shape_of(call.x)[call.attribute("start") : call.attribute("end")]
    return call.build.sizes(part)


@converts("Size", 1, 25)
def size(call: Call) -> SSAValue:
    """A constant, or the value of a size."""
    return call.reshape(call.build.sizes([math.prod(shape_of(call.x))]), ())
