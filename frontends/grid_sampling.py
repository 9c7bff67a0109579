"""Sampling of images at computed positions, by gathers of the surrounding elements."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import Value, where
from tessella.support.decisions import known_all
from tessella.support.errors import ShapeError
from tessella.support.sizes import product

_CUBIC = -0.75
"""The coefficient `a` of cubic convolution (Keys, 1981), as ONNX's GridSample and PyTorch's
`grid_sample` fix it."""


@dataclass(frozen=True)
class Tap:
    """The element that is read along one dimension, for each position: tensors [N, 1,
    positions]."""

    place: Value
    """The index of the element as a float, clamped to the dimension."""
    weight: Value | None
    inside: Value | None
    """True if the element exists; None if it always does."""


def grid_samples(x: Value, grid: Value, axes: GridAxes) -> Value:
    """Emit the elements of x[N, C, spatial..] at the positions of a grid [N, points.., rank], whose
    coordinates are listed from the last dimension to the first."""
    rank = x.rank - 2
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
    return sampled(data, taps, sizes).cast(x.dtype).reshape((n, channels, *spatial))


def sampled(data: Value, axes: Sequence[Sequence[Tap]], sizes: Sequence[int]) -> Value:
    """Emit for each position the weighted sum of the surrounding elements of ``data``."""
    terms = (_term(data, corner, sizes) for corner in itertools.product(*axes))
    return functools.reduce(operator.add, terms)


def _term(data: Value, corner: Sequence[Tap], sizes: Sequence[int]) -> Value:
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
class GridAxes:
    """The modes of sampling and padding, which are the same in each dimension."""

    mode: str
    padding: str
    aligned: bool

    def taps(self, coordinate: Value, size: int) -> list[Tap]:
        """Return the elements that are read along one dimension for coordinates from -1 to 1."""
        return self.around(self._position(coordinate, size), size)

    def around(self, place: Value, size: int) -> list[Tap]:
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

    def _tap(self, place: Value, size: int, weight: Value | None) -> Tap:
        inside = None
        if self.padding == "zeros":
            inside = (place >= 0) & (place <= size - 1)
        elif self.padding == "reflection":
            place = self._reflected(place, size)
        kept = place.op(nn.ClipOp, low=0.0, high=size - 1.0)
        return Tap(kept, weight, inside)


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
