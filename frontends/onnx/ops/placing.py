"""Ops that put elements at computed places of a larger tensor."""

from __future__ import annotations

import math

import numpy as np
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import dtype_of, shape_of
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.windows import window
from tessella.frontends.onnx.registry import converts, only
from tessella.support.errors import ShapeError


@converts("Col2Im", 18, 18, note="image_shape and block_shape known at import")
def col2im(call: Call) -> SSAValue:
    """A transposed convolution in which each column has a kernel of one 1 at its place."""
    x, image = call.x, call.static_ints(1, "image_shape")
    block = call.static_ints(2, "block_shape")
    settings = window(call, block, image)
    rank, points = len(image), math.prod(block)
    n, columns, blocks = shape_of(x) if len(shape_of(x)) == 3 else (0, 0, 0)
    reach = [(k - 1) * d + 1 for k, d in zip(block, settings.dilations, strict=True)]
    room = [
        size + settings.pads[d] + settings.pads[rank + d] - reach[d] for d, size in enumerate(image)
    ]
    counts = [space // s + 1 for space, s in zip(room, settings.strides, strict=True)]
    if min(room) < 0 or points < 1 or columns % points or math.prod(counts) != blocks:
        raise ShapeError("columns and image do not fit", found=f"{x.type}, {image} by {block}")
    call.build.check_made(columns, points)
    kernels = np.eye(points, dtype=dtype_of(x.type)).reshape(points, 1, *block)
    return call.emit(
        nn.ConvTransposeOp,
        call.reshape(x, (n, columns, *counts)),
        call.constant(np.tile(kernels, (columns // points, 1, *[1] * rank))),
        strides=settings.strides,
        pads=settings.pads,
        dilations=settings.dilations,
        output_pads=tuple(space % s for space, s in zip(room, settings.strides, strict=True)),
        groups=columns // points,
    )


@converts("MaxUnpool", 9, 22, note="output_shape known at import")
def max_unpool(call: Call) -> SSAValue:
    """Zeros, but for the elements of x at the indices, which count in the unpadded result."""
    x, shape = call.x, shape_of(call.x)
    kernel = call.integers("kernel_shape") or ()
    settings = window(call, kernel, shape[2:])
    rank = len(kernel)
    sizes = [
        (n - 1) * s + k - settings.pads[d] - settings.pads[rank + d]
        for d, (n, s, k) in enumerate(zip(shape[2:], settings.strides, kernel, strict=True))
    ]
    natural = result = (*shape[:2], *sizes)
    if call.optional(2) is not None:
        result = call.static_ints(2, "output_shape")
    if len(result) != len(shape) or any(a < b for a, b in zip(result, natural, strict=True)):
        raise ShapeError("output_shape is too small", expected=str(natural), found=str(result))
    flat = call.build.splat(0, (math.prod(natural),), dtype_of(x.type))
    count = math.prod(shape)
    placed = call.emit(
        nn.ScatterElementsOp,
        flat,
        call.reshape(call.operand(1), (count,)),
        call.reshape(x, (count,)),
        axis=0,
        reduction="none",
    )
    high = tuple(a - b for a, b in zip(result, natural, strict=True))
    y = call.reshape(placed, natural)
    if not any(high):
        return y
    return call.emit(nn.PadOp, y, low=(0,) * len(high), high=high, mode="constant", value=0.0)


@converts("TensorScatter", 24, 24, only("mode", "linear", "circular"))
def tensor_scatter(call: Call) -> SSAValue:
    """The update goes to each sample's own place along an axis, which goes round if circular."""
    past, update = call.operand(0), call.operand(1)
    axis, shape = call.axis(past), shape_of(update)
    if axis == 0 or len(shape) != len(shape_of(past)):
        raise ShapeError("axis is the batch, or ranks differ", found=f"{past.type}, {update.type}")
    indices = call.positions(shape[axis], axis, len(shape))
    starts = call.optional(2)
    if starts is not None:
        column = call.reshape(call.cast(starts, np.int64), (shape[0], *[1] * (len(shape) - 1)))
        indices = call.add(indices, column)
    if call.text("mode") == "circular":
        indices = call.emit(nn.ModOp, indices, call.scalar(shape_of(past)[axis], indices))
    return call.emit(
        nn.ScatterElementsOp,
        past,
        call.expand(indices, shape),
        update,
        axis=axis,
        reduction="none",
    )
