"""Ops whose result tells the shape of a tensor."""

from __future__ import annotations

import math

import numpy as np
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


@converts("OptionalHasElement", 15, 28, note="tensors only")
def optional_has_element(call: Call) -> SSAValue:
    """Whether a tensor is given, which is known at import."""
    return call.constant(np.array(call.optional(0) is not None))


@converts("OptionalGetElement", 15, 28, note="tensors only")
def optional_get_element(call: Call) -> SSAValue:
    """The tensor itself."""
    return call.x
