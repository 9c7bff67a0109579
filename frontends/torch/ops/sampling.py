"""Converters of resizing, as `nn.resize` with PyTorch's coordinates, of sampling at the points of a
grid, and of their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tessella.dialects import nn
from tessella.frontends.emitter import Emitter, Value
from tessella.frontends.gradients import NoGradientError, pulled_back
from tessella.frontends.grid_sampling import GridAxes, grid_samples
from tessella.frontends.resize_gradients import MOST_WEIGHTS
from tessella.frontends.torch.ops.creation import filled
from tessella.frontends.torch.registry import Converter, aten, refuse
from tessella.support.decisions import known
from tessella.support.sizes import Size


def _resized(
    x: Value,
    size: Sequence[int],
    scales: Sequence[float | None],
    coordinates: str,
    mode: str,
    rounding: str = "floor",
) -> Value:
    given = [*scales, *[None] * (len(size) - len(scales))]
    factors = [
        known(new) / known(old) if scale is None else scale
        for old, new, scale in zip(x.shape[2:], size, given, strict=True)
    ]
    return x.op(
        nn.ResizeOp,
        sizes=(*x.shape[:2], *size),
        scales=(1.0, 1.0, *factors),
        coordinates=coordinates,
        mode=mode,
        nearest_mode=rounding,
    )


def _nearest(coordinates: str, rounding: str) -> Converter:
    def convert(emit: Emitter, x: Value, size: Sequence[int], *scales: float | None) -> Value:
        return _resized(x, size, scales, coordinates, "nearest", rounding)

    return convert


def _gradient(convert: Converter) -> Converter:
    """Return the converter of the gradient of a resize."""

    def backward(
        emit: Emitter, grad: Value, size: Sequence[Size], old: Sequence[Size], *rest: Any
    ) -> Value:
        x = filled(emit, 0, old, grad.dtype)
        try:
            [found] = pulled_back(lambda: convert(emit, x, size, *rest), [x], grad)
        except NoGradientError as error:
            raise refuse(f"the gradient of {error}") from error
        return found

    return backward


def _resize(convert: Converter, *names: str) -> None:
    """Register a converter of resizes, and that of their gradients."""
    aten(*names)(convert)
    note = f"at most {MOST_WEIGHTS} pairs of an element of the operand and one of the result"
    aten(*(f"{name}_backward" for name in names), note=note)(_gradient(convert))


_resize(
    _nearest("asymmetric", "floor"),
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
)  # fmt: skip
_resize(
    _nearest("half_pixel", "round_prefer_ceil"),
    "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d",
)  # fmt: skip


def linear(
    emit: Emitter, x: Value, size: Sequence[int], align_corners: bool, *scales: float | None
) -> Value:
    coordinates = "align_corners" if align_corners else "half_pixel"
    return _resized(x, size, scales, coordinates, "linear")


_resize(linear, "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")


def _by_factors(convert: Converter) -> Converter:
    """Return the converter of an overload that takes a size or factors, each in one list, from that
    of the overload that takes both."""

    def sized(emit: Emitter, x: Value, size: Sequence[Size] | None, *rest: Any) -> Value:
        *modes, factors = rest
        scales: Sequence[float] = factors or ()
        if size is None:
            size = [_scaled(old, scale) for old, scale in zip(x.shape[2:], scales, strict=True)]
        return convert(emit, x, size, *modes, *scales)

    return sized


def _scaled(size: Size, scale: float) -> Size:
    return size * int(scale) if scale == int(scale) else math.floor(known(size) * scale)


aten("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec")(
    _by_factors(_nearest("asymmetric", "floor"))
)
aten(
    "_upsample_nearest_exact1d.vec",
    "_upsample_nearest_exact2d.vec",
    "_upsample_nearest_exact3d.vec",
)(_by_factors(_nearest("half_pixel", "round_prefer_ceil")))
aten("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec")(
    _by_factors(linear)
)


# ** at the points of a grid **

_MODES = ("linear", "nearest", "cubic")
_PADDINGS = ("zeros", "border", "reflection")


@aten("grid_sampler_3d")
def grid_sampler(
    emit: Emitter, x: Value, grid: Value, mode: int, padding: int, align_corners: bool
) -> Value:
    return grid_samples(x, grid, GridAxes(_MODES[mode], _PADDINGS[padding], align_corners))


@aten("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def grid_sampler_backward(
    emit: Emitter,
    grad: Value,
    x: Value,
    grid: Value,
    mode: int,
    padding: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> list[Value | None]:
    def forward() -> Value:
        return grid_sampler(emit, x, grid, mode, padding, align_corners)

    pairs = zip(pulled_back(forward, [x, grid], grad), output_mask, strict=True)
    return [found if is_needed else None for found, is_needed in pairs]
