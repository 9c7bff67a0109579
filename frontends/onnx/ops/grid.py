"""GridSample: reads at computed positions, as gathers of the surrounding elements; AffineGrid."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import Array, Value, where
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.registry import converts, only
from tessella.support.decisions import known_all
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size, product

_CUBIC = -0.75
"""The coefficient `a` of cubic convolution (Keys, 1981), as ONNX's GridSample fixes it."""

_MODES = ("linear", "bilinear", "nearest", "cubic", "bicubic")


@dataclass(frozen=True)
class _Tap:
    """One element that is read along one dimension, at each position: [N, 1, positions]."""

    index: Value
    """Clamped to the dimension, int64."""
    weight: Value | None
    inside: Value | None
    """Whether the element exists; None if it always does."""


@converts("GridSample", 16, 22, only("mode", *_MODES))
def grid_sample(call: Call) -> Value:
    """Sample in any number of dimensions; the grid's coordinates count from the last one."""
    x, grid, axes = call.x, call.operand(1), _Axes.of(call)
    rank = x.rank - 2
    call.check_ranks(max(rank, 1) + 2, rank + 2)
    n, channels = x.shape[:2]
    if grid.shape[0] != n or grid.shape[-1] != rank:
        raise ShapeError("the grid does not fit", found=f"{x.type} and {grid.type}")
    sizes = known_all(x.shape[2:])
    if min(sizes, default=0) < 1:
        raise ShapeError("there is nothing to sample", found=str(x.type))
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
    terms = (_term(data, corner, sizes, count) for corner in itertools.product(*taps))
    total = functools.reduce(operator.add, terms)
    return total.cast(x.dtype).reshape((n, channels, *spatial))


@converts("AffineGrid", 20, 20, note="size known at import")
def affine_grid(call: Call) -> Value:
    """Each point of a grid from -1 to 1, times the matrix of its image: [n, .., rank]."""
    theta, size = call.x, call.static_sizes(1, "size")
    n, rank = size[0], len(size) - 2
    if rank not in (2, 3) or theta.shape != (n, rank, rank + 1):
        raise ShapeError("theta does not fit the size", found=f"{theta.type} and {size}")
    *spatial, _ = call.build.limited(*size[2:], rank + 1)
    aligned = call.flag("align_corners")
    axes = [_coordinates(extent, aligned) for extent in spatial]
    points = np.stack([x.reshape(-1) for x in np.meshgrid(*axes, indexing="ij")][::-1], axis=1)
    base = np.concatenate([points, np.ones((len(points), 1))], axis=1)
    moved = theta.like(base).op(nn.MatmulOp, theta, transpose_b=True)
    return moved.reshape((n, *spatial, rank))


def _coordinates(size: int, aligned: bool) -> Array:
    """Return coordinates from -1 to 1, of the elements' centers or of their outer edges."""
    if aligned:
        return -1 + 2 / max(size - 1, 1) * np.arange(size)
    return (2 * np.arange(size) + 1) / size - 1


def _term(data: Value, corner: Sequence[_Tap], sizes: Sequence[int], count: Size) -> Value:
    """Return one element at each position, times its weight."""
    n, channels, _ = data.shape
    index = corner[0].index
    for tap, size in zip(corner[1:], sizes[1:], strict=True):
        index = index * size + tap.index
    value = data.op(nn.GatherElementsOp, index.expand((n, channels, count)), axis=2)
    for tap in corner:
        if tap.inside is not None:
            value = where(tap.inside, value, 0)
        if tap.weight is not None:
            value = value * tap.weight
    return value


@dataclass(frozen=True)
class _Axes:
    """How positions are read, in each dimension alike."""

    mode: str
    padding: str
    aligned: bool

    @staticmethod
    def of(call: Call) -> _Axes:
        """Return the attributes of a node."""
        padding = call.choice("padding_mode", "zeros", "border", "reflection")
        return _Axes(call.text("mode"), padding, call.flag("align_corners"))

    def taps(self, coordinate: Value, size: int) -> list[_Tap]:
        """Return the elements read along one dimension for coordinates from -1 to 1."""
        place = self._position(coordinate, size)
        is_cubic = "cubic" in self.mode
        if self.mode == "nearest":
            place = place.op(nn.RoundOp)
        # Elements around an outside position are clamped to the border or mirrored, one by one.
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
        return _Tap(kept.cast(np.int64), weight, inside)


def _weights(t: Value, is_cubic: bool) -> tuple[list[int], list[Value]]:
    """Return offsets from the element below, and weights for a position ``t`` above it."""
    rest = 1 - t
    if not is_cubic:
        return [0, 1], [rest, t]
    return [-1, 0, 1, 2], [_far(t + 1), _near(t), _near(rest), _far(rest + 1)]


def _near(t: Value) -> Value:
    """The cubic kernel for a distance up to 1."""
    return (t * (_CUBIC + 2) - (_CUBIC + 3)) * t * t + 1


def _far(t: Value) -> Value:
    """The cubic kernel for a distance from 1 to 2."""
    return ((t * _CUBIC - 5 * _CUBIC) * t + 8 * _CUBIC) * t - 4 * _CUBIC
