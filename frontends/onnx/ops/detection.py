"""Converters of ops on regions of images."""

from __future__ import annotations

import math

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.registry import converts
from tessella.support.decisions import differs
from tessella.support.errors import InvalidModelError, ShapeError


@converts("RoiAlign", 10, 22)
def roi_align(call: Call) -> Value:
    """Emit RoiAlign: regions of images, each sampled at the points of a grid."""
    call.check_ranks(4, 2, 1)
    where = call.choice("coordinate_transformation_mode", "half_pixel", "output_half_pixel")
    scale = call.number("spatial_scale", 1.0)
    if not math.isfinite(scale):
        raise InvalidModelError(
            "attribute 'spatial_scale' is not finite", expected="a number", found=str(scale)
        )
    return call.x.op(
        nn.RoiAlignOp,
        call.operand(1),
        call.operand(2),
        sizes=(call.integer("output_height", 1), call.integer("output_width", 1)),
        scale=scale,
        samples=call.integer("sampling_ratio", 0),
        mode=call.choice("mode", "avg", "max"),
        half_pixel=where == "half_pixel",
    )


@converts("MaxRoiPool", 1, 22)
def max_roi_pool(call: Call) -> Value:
    """Emit MaxRoiPool: regions of images, each divided into parts whose maxima are taken. The first
    column of the regions has the numbers of their images."""
    call.check_ranks(4, 2)
    rois = call.operand(1)
    count, columns = rois.shape
    if differs(columns, 5):
        raise ShapeError("a region does not have 5 numbers", found=str(rois.type))
    return call.x.op(
        nn.MaxRoiPoolOp,
        rois.slice((0, 1), (count, 4)),
        rois.slice((0, 0), (count, 1)).reshape((count,)).cast(np.int64),
        sizes=call.integers("pooled_shape"),
        scale=call.number("spatial_scale", 1.0),
    )
