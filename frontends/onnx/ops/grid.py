"""Converters of GridSample and DeformConv, which read at computed positions by gathers of the
surrounding elements, and of AffineGrid."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.core import shapes_differ
from tessella.frontends.emitter import Array, Value
from tessella.frontends.grid_sampling import GridAxes, grid_samples, sampled
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.windows import kernel_of, window
from tessella.frontends.onnx.registry import converts, only
from tessella.support.conditions import decided
from tessella.support.decisions import known, known_all
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size

_MODES = ("linear", "bilinear", "nearest", "cubic", "bicubic")


@converts("GridSample", 16, 22, only("mode", *_MODES))
def grid_sample(call: Call) -> Value:
    """Emit GridSample in any number of dimensions; the grid's coordinates are listed from the last
    dimension to the first."""
    x, grid, axes = call.x, call.operand(1), _axes(call)
    rank = x.rank - 2
    call.check_ranks(max(rank, 1) + 2, rank + 2)
    return grid_samples(x, grid, axes)


def _axes(call: Call) -> GridAxes:
    """Return the modes that a node's attributes select."""
    padding = call.choice("padding_mode", "zeros", "border", "reflection")
    return GridAxes(call.text("mode"), padding, call.flag("align_corners"))


@converts("DeformConv", 19, 22)
def deform_conv(call: Call) -> Value:
    """Emit a deformable convolution: the elements that all window positions read, as columns,
    multiplied by the weights."""
    x, w, offset = map(call.operand, range(3))
    bias, mask = call.optional(3), call.optional(4)
    call.check_ranks(max(x.rank, 3), x.rank, x.rank, 1, x.rank)
    kernel, sizes = known_all(kernel_of(call, w)), known_all(x.shape[2:])
    (n, channels), (filters, depth) = x.shape[:2], w.shape[:2]
    places = _window_places(call, kernel, sizes)
    taps, spatial = math.prod(kernel), tuple(axis.shape[1] for axis in places)
    groups, parts = call.integer("group"), call.integer("offset_group")
    _check_groups(x, w, groups, parts)
    _check_samples("offset", offset, (n, parts * taps * len(sizes), *spatial))
    wide = np.float64 if np.dtype(np.float64) in (x.dtype, offset.dtype) else np.float32
    count = taps * math.prod(spatial)
    moved = offset.cast(wide).reshape((n * parts, taps, len(sizes), math.prod(spatial)))
    axes = GridAxes("linear", "zeros", True)
    corners = [
        axes.around(moved.part(2, d, 1).reshape((n * parts, 1, count)) + start, size)
        for d, (start, size) in enumerate(zip(_spread(places), sizes, strict=True))
    ]
    data = x.cast(wide).reshape((n * parts, channels // parts, math.prod(sizes)))
    read = sampled(data, corners, sizes)
    if mask is not None:
        _check_samples("mask", mask, (n, parts * taps, *spatial))
        read = read * mask.cast(wide).reshape((n * parts, 1, count))
    columns = read.cast(x.dtype).reshape((n, groups, depth * taps, math.prod(spatial)))
    rows = w.reshape((groups, filters // groups, depth * taps))
    y = (rows @ columns).reshape((n, filters, *spatial))
    return y if bias is None else y + bias.reshape((filters, *[1] * len(spatial)))


def _check_groups(x: Value, w: Value, groups: int, parts: int) -> None:
    """Raise ShapeError unless the channels divide into the groups of filters and the groups of
    offsets."""
    channels, (filters, depth) = x.shape[1], w.shape[:2]
    fits = min(groups, parts) >= 1 and decided(channels == depth * groups)
    if not (fits and decided(filters % groups == 0) and decided(channels % parts == 0)):
        raise ShapeError(
            "the channels do not divide into groups",
            expected=f"x[N, {groups} * c, ..] and w[{groups} * o, c, ..], in {parts} of offsets",
            found=f"{x.type} and {w.type}",
        )


def _check_samples(name: str, value: Value, shape: Sequence[Size]) -> None:
    if shapes_differ(value.shape, shape):
        found = str(value.type)
        raise ShapeError(f"the {name} does not fit", expected=str(list(shape)), found=found)


def _window_places(call: Call, kernel: Sequence[int], sizes: Sequence[int]) -> list[Array]:
    """Return for each dimension the coordinates [window position, window] that a convolution
    without offsets reads."""
    settings, rank = window(call, kernel, sizes), len(sizes)
    places: list[Array] = []
    for d, (k, size) in enumerate(zip(kernel, sizes, strict=True)):
        stride, dilation = settings.strides[d], settings.dilations[d]
        low, high = known(settings.pads[d]), known(settings.pads[rank + d])
        span = size + low + high - dilation * (k - 1) - 1
        if min(size, k) < 1 or span < 0:
            raise ShapeError("no window fits", found=f"{k} positions, {size} elements")
        [count] = call.build.limited(span // stride + 1)
        places.append(np.add.outer(np.arange(k) * dilation, np.arange(count) * stride - low))
    return places


def _spread(places: Sequence[Array]) -> Iterator[Array]:
    """Yield for each dimension its coordinates at all positions of all windows, as arrays [1, 1,
    positions]."""
    rank = len(places)
    shape = [size for i in (0, 1) for size in (axis.shape[i] for axis in places)]
    for d, axis in enumerate(places):
        alone = [axis.shape[i] if d == e else 1 for i in (0, 1) for e in range(rank)]
        yield np.broadcast_to(axis.reshape(alone), shape).reshape(1, 1, -1)


@converts("AffineGrid", 20, 20, note="size known at import")
def affine_grid(call: Call) -> Value:
    """Emit each point of a grid from -1 to 1, multiplied by the matrix of its image: [n, ..,
    rank]."""
    theta, size = call.x, call.static_sizes(1, "size")
    n, rank = size[0], len(size) - 2
    if rank not in (2, 3) or theta.shape != (n, rank, rank + 1):
        raise ShapeError(
            "theta does not fit the size",
            expected="[n, 2, 3] for a size of [n, c, h, w], [n, 3, 4] for one of [n, c, d, h, w]",
            found=f"{theta.type} and {list(size)}",
        )
    *spatial, _ = call.build.limited(*size[2:], rank + 1)
    aligned = call.flag("align_corners")
    axes = [_coordinates(extent, aligned) for extent in spatial]
    points = np.stack([x.reshape(-1) for x in np.meshgrid(*axes, indexing="ij")][::-1], axis=1)
    base = np.concatenate([points, np.ones((len(points), 1))], axis=1)
    moved = theta.like(base).op(nn.MatmulOp, theta, transpose_b=True)
    return moved.reshape((n, *spatial, rank))


def _coordinates(size: int, aligned: bool) -> Array:
    """Return coordinates of ``size`` elements from -1 to 1. The ends are the centers of the outer
    elements if ``aligned``, otherwise their outer edges."""
    if aligned:
        return -1 + 2 / max(size - 1, 1) * np.arange(size)
    return (2 * np.arange(size) + 1) / size - 1
