"""Ops that put elements at computed places of a larger tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import Array, dtype_of, shape_of
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.windows import Window, window
from tessella.frontends.onnx.registry import converts, only
from tessella.support.errors import ShapeError


@converts("Col2Im", 18, 18, note="image_shape and block_shape known at import")
def col2im(call: Call) -> SSAValue:
    """The elements of each column, added to those of the image at their places."""
    x, image = call.x, call.static_ints(1, "image_shape")
    block = call.static_ints(2, "block_shape")
    settings = window(call, block, image)
    rank, points = len(image), math.prod(block)
    n, columns, blocks = shape_of(x) if len(shape_of(x)) == 3 else (0, 0, 0)
    reach = [(k - 1) * d + 1 for k, d in zip(block, settings.dilations, strict=True)]
    low, high = settings.pads[:rank], settings.pads[rank:]
    padded = [size + a + b for size, a, b in zip(image, low, high, strict=True)]
    room = [size - r for size, r in zip(padded, reach, strict=True)]
    counts = [space // s + 1 for space, s in zip(room, settings.strides, strict=True)]
    if min(room) < 0 or points < 1 or columns % points or math.prod(counts) != blocks:
        raise ShapeError("columns and image do not fit", found=f"{x.type}, {image} by {block}")
    call.build.check_made(points, blocks)
    dtype = dtype_of(x.type)
    if dtype == np.bool_:
        # a sum of booleans is whether any is true
        x = call.cast(x, np.int32)
    channels, size = columns // points, math.prod(padded)
    zeros = call.build.splat(0, (n, channels, size), dtype_of(x.type))
    places = _places(padded, block, counts, settings)
    shape = (n, channels, points * blocks)
    total = call.emit(
        nn.ScatterElementsOp,
        zeros,
        call.expand(call.constant(places), shape),
        call.reshape(x, shape),
        axis=2,
        reduction="add",
    )
    y = call.cast(call.reshape(total, (n, channels, *padded)), dtype)
    if not any(settings.pads):
        return y
    starts, sizes = (0, 0, *low), (n, channels, *image)
    return call.emit(nn.SliceOp, y, starts=starts, sizes=sizes, steps=(1,) * len(sizes))


def _places(
    padded: Sequence[int], block: Sequence[int], counts: Sequence[int], settings: Window
) -> Array:
    """Where in the padded image each element of a block is, for all blocks: int64 [elements]."""
    steps = zip(settings.dilations, settings.strides, strict=True)
    inside = np.indices(tuple(block)).reshape(len(block), -1, 1)
    starts = np.indices(tuple(counts)).reshape(len(counts), 1, -1)
    place = np.zeros((), np.int64)
    for d, (dilation, stride) in enumerate(steps):
        place = place * padded[d] + inside[d] * dilation + starts[d] * stride
    return place.reshape(-1)


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
