"""Converters of bicubic and antialiased resizes: products with matrices of the weights that the
elements of the operand have in the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tessella.frontends.emitter import Array, DType, Emitter, Value
from tessella.frontends.resize_gradients import MOST_WEIGHTS, collected
from tessella.frontends.torch.registry import Converter, aten, refuse
from tessella.support.decisions import known_all
from tessella.support.sizes import Size

_SHARP, _SMOOTH = -0.75, -0.5
"""The coefficients of PyTorch's cubic kernels, without and with antialiasing."""


@dataclass(frozen=True)
class _Axis:
    """A resized dimension."""

    old: int
    new: int
    aligned: bool
    scale: float | None
    dtype: DType
    """The element type in which PyTorch computes positions and weights."""

    @property
    def step(self) -> Array:
        """The distance between elements of the result, in elements of the operand."""
        if self.aligned:
            step = (self.old - 1) / (self.new - 1) if self.new > 1 else 0.0
        else:
            step = 1 / self.scale if self.scale else self.old / self.new
        return np.asarray(step, self.dtype)

    @property
    def rows(self) -> Array:
        """The numbers of the elements of the result."""
        return np.arange(self.new, dtype=self.dtype)


Weights = Callable[[_Axis], Array]
"""The weight [new, old] of each element of a resized dimension in each of the result."""


def _cubic(x: Array, a: float) -> Array:
    """Return the cubic convolution kernel with the coefficient ``a`` at distances ``x``."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _triangle(x: Array) -> Array:
    return np.maximum(1 - x, 0)


def _bicubic(axis: _Axis) -> Array:
    """Return the weights of the four elements around each position; those at borders repeat."""
    half = np.asarray(0.5, axis.dtype)
    moved = axis.rows * axis.step if axis.aligned else (axis.rows + half) * axis.step - half
    low = np.floor(moved)
    found = np.zeros((axis.new, axis.old), axis.dtype)
    for offset in (-1, 0, 1, 2):
        place = np.clip(low + offset, 0, axis.old - 1).astype(np.int64)
        weight = _cubic(np.abs(moved - low - offset), _SHARP)
        np.add.at(found, (np.arange(axis.new), place), weight)
    return found


def _antialiased(kernel: Callable[[Array], Array], reach: int, axis: _Axis) -> Array:
    """Return the weights of a kernel that reaches ``reach`` elements of the operand or of the
    result, whichever are farther apart, in each direction. They add up to one."""
    width = np.maximum(axis.step, np.asarray(1, axis.dtype))
    half = np.asarray(0.5, axis.dtype)
    centers = (axis.rows + half) * axis.step
    first = np.maximum(np.trunc(centers - reach * width + half), 0)
    end = np.minimum(np.trunc(centers + reach * width + half), axis.old)
    places = np.arange(axis.old, dtype=axis.dtype)
    inside = (places >= first[:, None]) & (places < end[:, None])
    weights = kernel(np.abs((places - centers[:, None] + half) / width)) * inside
    return weights / weights.sum(axis=1, keepdims=True)


def _axes(
    x: Value,
    old: Sequence[Size],
    new: Sequence[Size],
    aligned: bool,
    scales: Sequence[float | None],
) -> list[_Axis]:
    """Return the resized dimensions, the last two of four."""
    if not x.is_float:
        raise refuse("a resize of integers by a filter", x.dtype.name)
    dtype = np.dtype(np.float64 if x.dtype == np.float64 else np.float32)
    given = [*scales, None, None]
    pairs = zip(known_all(old), known_all(new), given[:2], strict=True)
    found = [_Axis(a, b, aligned, scale, dtype) for a, b, scale in pairs]
    if any(axis.old * axis.new > MOST_WEIGHTS for axis in found):
        raise refuse(f"a resize of more than {MOST_WEIGHTS} pairs of elements")
    return found


def _forward(weights: Weights) -> Converter:
    def convert(
        emit: Emitter, x: Value, size: Sequence[Size], aligned: bool, *scales: float | None
    ) -> Value:
        axes = _axes(x, x.shape[2:], size, aligned, scales)
        for number, axis in sorted(enumerate(axes), key=lambda each: each[1].new / each[1].old):
            x = collected(x, 2 + number, weights(axis).T)
        return x

    return convert


def _backward(weights: Weights) -> Converter:
    def convert(
        emit: Emitter,
        grad: Value,
        size: Sequence[Size],
        old: Sequence[Size],
        aligned: bool,
        *scales: float | None,
    ) -> Value:
        axes = _axes(grad, old[2:], size, aligned, scales)
        for number, axis in sorted(enumerate(axes), key=lambda each: each[1].old / each[1].new):
            grad = collected(grad, 2 + number, weights(axis))
        return grad

    return convert


_NOTE = f"floats; at most {MOST_WEIGHTS} pairs of an element of the operand and one of the result"

_FILTERS: dict[str, Weights] = {
    "upsample_bicubic2d": _bicubic,
    "_upsample_bilinear2d_aa": partial(_antialiased, _triangle, 1),
    "_upsample_bicubic2d_aa": partial(_antialiased, partial(_cubic, a=_SMOOTH), 2),
}

for _name, _weights in _FILTERS.items():
    aten(f"{_name}_backward", note=_NOTE)(_backward(_weights))
    if _name.endswith("_aa"):  # PyTorch's decomposition of others takes fewer operations
        aten(_name, note=_NOTE)(_forward(_weights))
