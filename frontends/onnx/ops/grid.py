"""GridSample: x read at computed positions, as gathers of the elements around them; AffineGrid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import Array, dtype_of, shape_of
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.movement import part
from tessella.frontends.onnx.registry import converts, only
from tessella.support.errors import ShapeError

_CUBIC = -0.75

_MODES = ("linear", "bilinear", "nearest", "cubic", "bicubic")


@dataclass(frozen=True)
class _Tap:
    """One element that is read along one dimension, at each position: [N, 1, positions]."""

    index: SSAValue
    """Inside the dimension, int64."""
    weight: SSAValue | None
    inside: SSAValue | None
    """Whether the element exists; None where it always does."""


@converts("GridSample", 16, 22, only("mode", *_MODES))
def grid_sample(call: Call) -> SSAValue:
    """In any number of dimensions; the grid's coordinates count from the last one."""
    x, grid = call.x, call.operand(1)
    rank = len(shape_of(x)) - 2
    call.check_ranks(max(rank, 1) + 2, rank + 2)
    n, channels, *sizes = shape_of(x)
    if shape_of(grid)[0] != n or shape_of(grid)[-1] != rank:
        raise ShapeError("the grid does not fit", found=f"{x.type} and {grid.type}")
    if min(sizes, default=0) < 1:
        raise ShapeError("there is nothing to sample", found=str(x.type))
    spatial = shape_of(grid)[1:-1]
    count = math.prod(spatial)
    wide = np.float64 if np.dtype(np.float64) in (_dtype(x), _dtype(grid)) else np.float32
    points = call.reshape(call.cast(grid, wide), (n, 1, count, rank))
    taps = [
        _taps(call, call.reshape(part(call, points, 3, rank - 1 - d, 1), (n, 1, count)), size)
        for d, size in enumerate(sizes)
    ]
    data = call.reshape(x, (n, channels, math.prod(sizes)))
    if call.text("mode") != "nearest":
        data = call.cast(data, wide)
    total: SSAValue | None = None
    for corner in itertools.product(*taps):
        term = _term(call, data, corner, sizes, count)
        total = term if total is None else call.add(total, term)
    assert total is not None
    return call.reshape(call.cast(total, _dtype(x)), (n, channels, *spatial))


@converts("AffineGrid", 20, 20, note="size known at import")
def affine_grid(call: Call) -> SSAValue:
    """Each point of a grid from -1 to 1, times the matrix of its image: [n, .., rank]."""
    theta, size = call.x, call.static_ints(1, "size")
    n, *spatial = size[0], *size[2:]
    rank = len(spatial)
    if rank not in (2, 3) or shape_of(theta) != (n, rank, rank + 1):
        raise ShapeError("theta does not fit the size", found=f"{theta.type} and {size}")
    call.build.check_made(*spatial, rank + 1)
    aligned = call.flag("align_corners")
    axes = [_coordinates(extent, aligned) for extent in spatial]
    points = np.stack([x.reshape(-1) for x in np.meshgrid(*axes, indexing="ij")][::-1], axis=1)
    base = np.concatenate([points, np.ones((len(points), 1))], axis=1)
    moved = call.emit(nn.MatmulOp, call.constant_like(base, theta), theta, transpose_b=True)
    return call.reshape(moved, (n, *spatial, rank))


def _coordinates(size: int, aligned: bool) -> Array:
    """From -1 to 1: of the first and last element, or of their outer edges."""
    if aligned:
        return -1 + 2 / max(size - 1, 1) * np.arange(size)
    return (2 * np.arange(size) + 1) / size - 1


def _dtype(value: SSAValue) -> np.dtype[Any]:
    return dtype_of(value.type)


def _term(
    call: Call, data: SSAValue, corner: Sequence[_Tap], sizes: Sequence[int], count: int
) -> SSAValue:
    """One element at each position, times its weight."""
    n, channels, _ = shape_of(data)
    index = corner[0].index
    for tap, size in zip(corner[1:], sizes[1:], strict=True):
        index = call.add(call.mul(index, call.scalar(size, index)), tap.index)
    indices = call.expand(index, (n, channels, count))
    value = call.emit(nn.GatherElementsOp, data, indices, axis=2)
    for tap in corner:
        if tap.inside is not None:
            value = call.emit(nn.WhereOp, tap.inside, value, call.scalar(0, value))
        if tap.weight is not None:
            value = call.mul(value, tap.weight)
    return value


def _taps(call: Call, coordinate: SSAValue, size: int) -> list[_Tap]:
    """What is read along one dimension for coordinates from -1 to 1."""
    mode = call.text("mode")
    padding = call.choice("padding_mode", "zeros", "border", "reflection")
    aligned = call.flag("align_corners")
    place = _position(call, coordinate, size, aligned)
    if mode == "nearest":
        place = call.emit(nn.RoundOp, place)
    low, high = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
    # the elements around a position outside are those of the border, or mirrored, one by one
    if padding == "border" and "cubic" not in mode:
        place = call.emit(nn.ClipOp, place, low=0.0, high=size - 1.0)
    elif padding == "reflection" and "cubic" not in mode:
        place = _reflected(call, place, low, high)
    base = call.emit(nn.FloorOp, place)
    if mode == "nearest":
        return [_tap(call, base, size, None)]
    offsets, weights = _weights(call, call.sub(place, base), "cubic" in mode)
    return [
        _tap(call, call.add(base, call.scalar(offset, base)), size, weight)
        for offset, weight in zip(offsets, weights, strict=True)
    ]


def _position(call: Call, coordinate: SSAValue, size: int, aligned: bool) -> SSAValue:
    moved = call.add(coordinate, call.scalar(1, coordinate))
    if aligned:
        return call.mul(moved, call.scalar((size - 1) / 2, moved))
    scaled = call.mul(moved, call.scalar(size / 2, moved))
    return call.sub(scaled, call.scalar(0.5, scaled))


def _reflected(call: Call, x: SSAValue, low: float, high: float) -> SSAValue:
    """x mirrored at both borders until it is between them."""
    if high <= low:
        return call.mul(x, call.scalar(0, x))
    extent = high - low
    distance = call.emit(nn.AbsOp, call.sub(x, call.scalar(low, x)))
    rest = call.emit(nn.ModOp, distance, call.scalar(2 * extent, x))
    back = call.sub(call.scalar(2 * extent, x), rest)
    return call.add(call.emit(nn.MinOp, rest, back), call.scalar(low, x))


def _tap(call: Call, place: SSAValue, size: int, weight: SSAValue | None) -> _Tap:
    padding, inside = call.text("padding_mode"), None
    if padding == "zeros":
        above = call.emit(nn.GreaterEqualOp, place, call.scalar(0, place))
        below = call.emit(nn.LessEqualOp, place, call.scalar(size - 1, place))
        inside = call.emit(nn.AndOp, above, below)
    elif padding == "reflection":
        aligned = call.flag("align_corners")
        low, high = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
        place = _reflected(call, place, low, high)
    elif padding != "border":
        raise ShapeError(
            "unknown padding_mode", expected="zeros, border or reflection", found=repr(padding)
        )
    kept = call.emit(nn.ClipOp, place, low=0.0, high=size - 1.0)
    return _Tap(call.cast(kept, np.int64), weight, inside)


def _weights(call: Call, t: SSAValue, cubic: bool) -> tuple[list[int], list[SSAValue]]:
    """Offsets from the element below, and weights for a position ``t`` above it."""
    rest = call.sub(call.scalar(1, t), t)
    if not cubic:
        return [0, 1], [rest, t]
    far = [_far(call, call.add(side, call.scalar(1, t))) for side in (t, rest)]
    return [-1, 0, 1, 2], [far[0], _near(call, t), _near(call, rest), far[1]]


def _near(call: Call, t: SSAValue) -> SSAValue:
    """((a + 2) t - (a + 3)) t^2 + 1, for a distance up to 1."""
    slope = call.mul(t, call.scalar(_CUBIC + 2, t))
    inner = call.mul(call.mul(call.sub(slope, call.scalar(_CUBIC + 3, t)), t), t)
    return call.add(inner, call.scalar(1, t))


def _far(call: Call, t: SSAValue) -> SSAValue:
    """((a t - 5 a) t + 8 a) t - 4 a, for a distance from 1 to 2."""
    y = call.scalar(_CUBIC, t)
    for coefficient in (-5, 8, -4):
        y = call.add(call.mul(y, t), call.scalar(coefficient * _CUBIC, t))
    return y
