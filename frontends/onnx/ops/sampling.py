"""Positions that the elements of a resized axis have in the original axis, and the weights of the
elements there (ONNX's Resize)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tessella.frontends.onnx.build import Array
from tessella.support.errors import ShapeError

# The position of element y in the original axis, of `old` elements, that becomes an axis of
# `length` elements (not rounded).
_POSITIONS: dict[str, Callable[[Array, float, int, float, int], Array]] = {
    "half_pixel": lambda y, scale, old, length, new: (y + 0.5) / scale - 0.5,
    "half_pixel_symmetric": lambda y, scale, old, length, new: (
        old / 2 * (1 - new / length) + (y + 0.5) / scale - 0.5
    ),
    "pytorch_half_pixel": lambda y, scale, old, length, new: (
        (y + 0.5) / scale - 0.5 if length > 1 else np.full(new, -0.5)
    ),
    "align_corners": lambda y, scale, old, length, new: (
        y * (old - 1) / (length - 1) if length != 1 else 0 * y
    ),
    "asymmetric": lambda y, scale, old, length, new: y / scale,
    "tf_half_pixel_for_nn": lambda y, scale, old, length, new: (y + 0.5) / scale,
}

_ROUND: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def positions(
    coordinates: str, old: int, new: int, scale: float, region: tuple[float, float]
) -> Array:
    """Return for each element of the new axis its position in the old axis."""
    y, length = np.arange(new, dtype=np.float64), scale * old
    if coordinates == "tf_crop_and_resize":
        extent = (region[1] - region[0]) * (old - 1)
        steps = y * extent / (length - 1) if length != 1 else np.full(new, extent / 2)
        return steps + region[0] * (old - 1)
    if coordinates not in _POSITIONS:
        raise ShapeError(
            "unknown coordinate_transformation_mode",
            expected=", ".join((*_POSITIONS, "tf_crop_and_resize")),
            found=repr(coordinates),
        )
    return _POSITIONS[coordinates](y, scale, old, length, new)


def nearest(places: Array, old: int, rounding: str) -> Array:
    """Return the index of the element nearest to each position, clamped to the axis."""
    if rounding not in _ROUND:
        raise ShapeError("unknown nearest_mode", expected=", ".join(_ROUND), found=repr(rounding))
    return np.clip(_ROUND[rounding](places), 0, old - 1).astype(np.int64)


def _triangle(t: Array, _: float) -> Array:
    return np.maximum(1 - np.abs(t), 0)


def _cubic(t: Array, a: float) -> Array:
    t = np.abs(t)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0))


_KERNELS: dict[str, tuple[Callable[[Array, float], Array], int]] = {
    "linear": (_triangle, 1),
    "cubic": (_cubic, 2),
}


@dataclass(frozen=True)
class Samples:
    """For each new element (a column), the indices and weights of the old elements in its weighted
    sum."""

    indices: Array
    weights: Array
    """The weight of each element; 0 at the end of columns that need fewer elements than others."""


def reach_of(places: Array, *, mode: str, scale: float) -> int:
    """Return the distance, in old elements, from the position of a new element within which it
    reads old elements.

    A scale below 1 widens the kernel (antialiasing), also beyond the ends of the axis.
    """
    if mode not in _KERNELS:
        raise ShapeError("unknown mode", expected="nearest, linear or cubic", found=repr(mode))
    _, support = _KERNELS[mode]
    return math.ceil(support / min(scale, 1.0)) if places.size else 0


def samples(
    places: Array, old: int, reach: int, *, mode: str, scale: float, cubic: float, inside: bool
) -> Samples:
    """Return for each new element the old elements that it reads, with weights.

    Elements beyond the ends repeat the end elements, or do not count if ``inside``.
    """
    kernel, _ = _KERNELS[mode]
    scale = min(scale, 1.0)
    indices = np.floor(places).astype(np.int64) + np.arange(-reach, reach + 1)[:, None]
    weights = kernel(scale * (indices - places), cubic)
    if inside:
        weights = np.where((indices >= 0) & (indices < old), weights, 0)
    if inside or scale < 1:
        total = weights.sum(axis=0)
        weights /= np.where(total == 0, 1, total)
    return _packed(np.clip(indices, 0, old - 1), weights)


def _packed(indices: Array, weights: Array) -> Samples:
    """Return samples with fewer rows: in each column, elements with nonzero weights move up, and
    rows without nonzero weights are removed."""
    order = np.argsort(weights == 0, axis=0, kind="stable")
    most = int((weights != 0).sum(axis=0).max(initial=1))
    return Samples(*(np.take_along_axis(x, order, axis=0)[:most] for x in (indices, weights)))
