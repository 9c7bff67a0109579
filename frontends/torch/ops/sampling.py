"""Converters of resizing: `nn.resize` with PyTorch's coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tessella.dialects import nn
from tessella.frontends.emitter import Emitter, Value
from tessella.frontends.torch.registry import Converter, aten
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


aten("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")(
    _nearest("asymmetric", "floor")
)
aten("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d")(
    _nearest("half_pixel", "round_prefer_ceil")
)


@aten("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def linear(
    emit: Emitter, x: Value, size: Sequence[int], align_corners: bool, *scales: float | None
) -> Value:
    coordinates = "align_corners" if align_corners else "half_pixel"
    return _resized(x, size, scales, coordinates, "linear")


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
