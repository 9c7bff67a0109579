"""Converters of ops that return the shape of a tensor."""

from __future__ import annotations

import math

from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.registry import converts


@converts("Shape", 1, 25)
def shape(call: Call) -> Value:
    """Emit the shape of a tensor, or the slice of it from ``start`` to ``end``; sizes may be
    symbolic."""
    part = call.x.shape[call.attribute("start") : call.attribute("end")]
    return call.build.sizes(part)


@converts("Size", 1, 25)
def size(call: Call) -> Value:
    """Emit the number of elements of a tensor, which may be symbolic."""
    return call.build.sizes([math.prod(call.x.shape)]).reshape(())
