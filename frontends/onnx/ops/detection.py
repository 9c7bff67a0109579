"""Converters of ops on regions of images."""

from __future__ import annotations

from tessella.dialects import nn
from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.registry import converts


@converts("RoiAlign", 10, 22)
def roi_align(call: Call) -> Value:
    """Emit RoiAlign: regions of images, each sampled at the points of a grid."""
    call.check_ranks(4, 2, 1)
    where = call.choice("coordinate_transformation_mode", "half_pixel", "output_half_pixel")
    return call.x.op(
        nn.RoiAlignOp,
        call.operand(1),
        call.operand(2),
        sizes=(call.integer("output_height", 1), call.integer("output_width", 1)),
        scale=call.number("spatial_scale", 1.0),
        samples=call.integer("sampling_ratio", 0),
        mode=call.choice("mode", "avg", "max"),
        half_pixel=where == "half_pixel",
    )
