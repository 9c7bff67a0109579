"""Converters of GridSample and DeformConv, which read at computed positions by gathers of the
surrounding elements, and of AffineGrid."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.core import shapes_differ
from tessella.frontends.emitter import Array, Value, where
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.windows import kernel_of, window
from tessella.frontends.onnx.registry import converts, only
from tessella.support.conditions import decided
from tessella.support.decisions import known, known_all
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size, product

_CUBIC = -0.75
"""The coefficient `a` of cubic convolution (Keys, 1981), as ONNX's GridSample fixes it."""

_MODES = ("linear", "bilinear", "nearest", "cubic", "bicubic")


@dataclass(frozen=True)
class _Tap:
    """The element that is read along one dimension, for each position: tensors [N, 1,
    positions]."""

    place: Value
    """The index of the element as a float, clamped to the dimension."""
    weight: Value | None
    inside: Value | None
    """True if the element exists; None if it always does."""


@converts("GridSample", 16, 22, only("mode", *_MODES))
def grid_sample(call: Call) -> Value:
    """Emit GridSample in any number of dimensions; the grid's coordinates are listed from the last
    dimension to the first."""
    x, grid, axes = call.x, call.operand(1), _Axes.of(call)
    rank = x.rank - 2
    call.check_ranks(max(rank, 1) + 2, rank + 2)
    n, channels = x.shape[:2]
    if grid.shape[0] != n or grid.shape[-1] != rank:
        raise ShapeError(
            "the grid does not fit",
            expected=f"[{n}, .., {rank}]",
            found=f"{grid.type} for {x.type}",
        )
    sizes = known_all(x.shape[2:])
    if min(sizes, default=0) < 1:
        raise ShapeError(
            "there is nothing to sample", expected="an image with elements", found=str(x.type)
        )
    spatial = grid.shape[1:-1]
    count = product(spatial)
    wide = np.float64 if np.dtype(np.float64) in (x.dtype, grid.dtype) else np.float32
    points = grid.cast(wide).reshape((n, 1, count, rank))
    taps = [
        axes.taps(points.part(3, rank - 1 - d, 1).reshape((n, 1, count)), size)
        for d, size in enumerate(sizes)
    ]
    data = x.reshape((n, channels, math.prod(sizes)))
    if axes.mode != "nearest":
        data = data.cast(wide)
    return _sampled(data, taps, sizes).cast(x.dtype).reshape((n, channels, *spatial))


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
    axes = _Axes("linear", "zeros", True)
    corners = [
        axes.around(moved.part(2, d, 1).reshape((n * parts, 1, count)) + start, size)
        for d, (start, size) in enumerate(zip(_spread(places), sizes, strict=True))
    ]
    data = x.cast(wide).reshape((n * parts, channels // parts, math.prod(sizes)))
    read = _sampled(data, corners, sizes)
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


def _sampled(data: Value, axes: Sequence[Sequence[_Tap]], sizes: Sequence[int]) -> Value:
    """Emit for each position the weighted sum of the surrounding elements of ``data``."""
    terms = (_term(data, corner, sizes) for corner in itertools.product(*axes))
    return functools.reduce(operator.add, terms)


def _term(data: Value, corner: Sequence[_Tap], sizes: Sequence[int]) -> Value:
    """Emit for each position one of the surrounding elements, ``corner``, multiplied by its weight;
    0 if there is no such element, whatever the weight is."""
    (n, channels, _), count = data.shape, corner[0].place.shape[-1]
    integer = np.int32 if math.prod(sizes) < 1 << 31 else np.int64
    index, *others = (tap.place.cast(integer) for tap in corner)
    for inner, size in zip(others, sizes[1:], strict=True):
        index = index * size + inner
    value = data.op(nn.GatherElementsOp, index.expand((n, channels, count)), axis=2)
    weights = [tap.weight for tap in corner if tap.weight is not None]
    inside = [tap.inside for tap in corner if tap.inside is not None]
    if weights:
        value = value * functools.reduce(operator.mul, weights)
    return where(functools.reduce(Value.__and__, inside), value, 0) if inside else value


@dataclass(frozen=True)
class _Axes:
    """The modes of sampling and padding, which are the same in each dimension."""

    mode: str
    padding: str
    aligned: bool

    @staticmethod
    def of(call: Call) -> _Axes:
        """Return the modes that a node's attributes select."""
        padding = call.choice("padding_mode", "zeros", "border", "reflection")
        return _Axes(call.text("mode"), padding, call.flag("align_corners"))

    def taps(self, coordinate: Value, size: int) -> list[_Tap]:
        """Return the elements that are read along one dimension for coordinates from -1 to 1."""
        return self.around(self._position(coordinate, size), size)

    def around(self, place: Value, size: int) -> list[_Tap]:
        """Return the elements that are read along one dimension for positions in units of
        elements."""
        is_cubic = "cubic" in self.mode
        if self.mode == "nearest":
            place = place.op(nn.RoundOp)
        # In the cubic modes, each element that is read is clamped or mirrored by itself, in `_tap`;
        # in others, the position is.
        if self.padding == "border" and not is_cubic:
            place = place.op(nn.ClipOp, low=0.0, high=size - 1.0)
        elif self.padding == "reflection" and not is_cubic:
            place = self._reflected(place, size)
        base = place.op(nn.FloorOp)
        if self.mode == "nearest":
            return [self._tap(base, size, None)]
        offsets, weights = _weights(place - base, is_cubic)
        return [self._tap(base + o, size, w) for o, w in zip(offsets, weights, strict=True)]

    def _position(self, coordinate: Value, size: int) -> Value:
        moved = coordinate + 1
        return moved * ((size - 1) / 2) if self.aligned else moved * (size / 2) - 0.5

    def _reflected(self, x: Value, size: int) -> Value:
        """Return x mirrored at both borders until it is between them."""
        low, high = (0.0, size - 1.0) if self.aligned else (-0.5, size - 0.5)
        if high <= low:
            return x * 0
        extent = high - low
        rest = abs(x - low) % (2 * extent)
        return rest.op(nn.MinOp, 2 * extent - rest) + low

    def _tap(self, place: Value, size: int, weight: Value | None) -> _Tap:
        inside = None
        if self.padding == "zeros":
            inside = (place >= 0) & (place <= size - 1)
        elif self.padding == "reflection":
            place = self._reflected(place, size)
        kept = place.op(nn.ClipOp, low=0.0, high=size - 1.0)
        return _Tap(kept, weight, inside)


def _weights(t: Value, is_cubic: bool) -> tuple[list[int], list[Value]]:
    """Return the offsets of the elements that are read, from the one below a position, and their
    weights. ``t`` is the distance from the element below."""
    rest = 1 - t
    if not is_cubic:
        return [0, 1], [rest, t]
    return [-1, 0, 1, 2], [_far(t + 1), _near(t), _near(rest), _far(rest + 1)]


def _near(t: Value) -> Value:
    """Emit the cubic convolution kernel at distances from 0 to 1."""
    return (t * (_CUBIC + 2) - (_CUBIC + 3)) * t * t + 1


def _far(t: Value) -> Value:
    """Emit the cubic convolution kernel at distances from 1 to 2."""
    return ((t * _CUBIC - 5 * _CUBIC) * t + 8 * _CUBIC) * t - 4 * _CUBIC
