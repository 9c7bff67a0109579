"""Converters of ops that put elements at computed positions of a larger tensor."""

from __future__ import annotations

from math import prod

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.windows import window
from tessella.frontends.onnx.registry import converts, only
from tessella.support.conditions import decided
from tessella.support.decisions import decided_zero, known_all
from tessella.support.errors import ResourceError, ShapeError
from tessella.support.sizes import product

MOST_PADDED = 1 << 31
"""Limit on the number of elements of a padded image: the positions of the columns in a larger image
would not fit in memory."""


@converts("Col2Im", 18, 18, note="image_shape and block_shape known at import")
def col2im(call: Call) -> Value:
    """Emit images into which the elements of each column are added at their positions."""
    x, image = call.x, call.static_ints(1, "image_shape")
    block = call.static_ints(2, "block_shape")
    settings = window(call, block, image)
    rank, points = len(image), prod(block)
    n, columns, blocks = x.shape if x.rank == 3 else (0, 0, 0)
    reach = [(k - 1) * d + 1 for k, d in zip(block, settings.dilations, strict=True)]
    pads = known_all(settings.pads)
    low, high = pads[:rank], pads[rank:]
    padded = [size + a + b for size, a, b in zip(image, low, high, strict=True)]
    room = [size - r for size, r in zip(padded, reach, strict=True)]
    counts = [space // s + 1 for space, s in zip(room, settings.strides, strict=True)]
    fit = min(room) >= 0 and points > 0 and decided_zero(columns % points)
    if not fit or prod(counts) != blocks:
        raise ShapeError(
            "columns and image do not fit",
            expected="a column for each position of the block in the padded image",
            found=f"{x.type}, image {image}, block {block}",
        )
    if prod(padded) > MOST_PADDED:
        raise ResourceError(
            "the padded image is too large",
            expected=f"at most {MOST_PADDED} elements",
            found=" x ".join(map(str, padded)),
        )
    # a sum of booleans is `or`
    wide = x.cast(np.int32) if x.dtype == np.bool_ else x
    given = wide.reshape((n, columns // points, *block, *counts))
    steps = {"strides": settings.strides, "dilations": settings.dilations}
    return given.op(nn.Col2imOp, image=tuple(image), starts=low, **steps).cast(x.dtype)


def _scattered(x: Value, indices: Value, updates: Value, axis: int, reduction: str) -> Value:
    return x.op(nn.ScatterElementsOp, indices, updates, axis=axis, reduction=reduction)


@converts("MaxUnpool", 9, 22, note="output_shape known at import")
def max_unpool(call: Call) -> Value:
    """Emit zeros with the elements of x at the given indices, which refer to the result before it
    is padded to ``output_shape``."""
    x, shape = call.x, call.x.shape
    kernel = call.integers("kernel_shape") or ()
    settings = window(call, kernel, shape[2:])
    rank = len(kernel)
    sizes = [
        (n - 1) * s + k - settings.pads[d] - settings.pads[rank + d]
        for d, (n, s, k) in enumerate(zip(shape[2:], settings.strides, kernel, strict=True))
    ]
    natural = result = (*shape[:2], *sizes)
    if call.optional(2) is not None:
        result = call.static_sizes(2, "output_shape")
    if len(result) != rank + 2 or any(decided(a < b) for a, b in zip(result, natural, strict=True)):
        raise ShapeError("output_shape is too small", expected=str(natural), found=str(result))
    flat = call.build.splat(0, (product(natural),), x.dtype)
    count = product(shape)
    indices = call.operand(1).reshape((count,))
    placed = _scattered(flat, indices, x.reshape((count,)), 0, "none")
    high = [a - b for a, b in zip(result, natural, strict=True)]
    return placed.reshape(natural).pad([0] * len(high), high)


@converts("TensorScatter", 24, 24, only("mode", "linear", "circular"))
def tensor_scatter(call: Call) -> Value:
    """Emit a copy of a cache into which an update is written along an axis, from a position on that
    each sample has; the position wraps if the mode is circular."""
    past, update = call.operand(0), call.operand(1)
    axis, shape = call.axis(past), update.shape
    if axis == 0 or len(shape) != past.rank:
        raise ShapeError("axis is the batch, or ranks differ", found=f"{past.type}, {update.type}")
    indices = call.positions(shape[axis], axis, len(shape))
    starts = call.optional(2)
    if starts is not None:
        column = (shape[0], *[1] * (len(shape) - 1))
        indices = indices + starts.cast(np.int64).reshape(column)
    if call.text("mode") == "circular":
        indices = indices % past.shape[axis]
    return _scattered(past, indices.expand(shape), update, axis, "none")
