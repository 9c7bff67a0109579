"""Pools, convolutions and ops that sample images, at the edges of their windows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from tests.frontends.onnx.semantics.case import Array, Case, runtime
from tests.native import normal

Settings = dict[str, Any]

_POOLS: tuple[Settings, ...] = (
    {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 2, 1]},
    {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 2, 1], "ceil_mode": 1},
    {"kernel_shape": [2, 2], "strides": [3, 3], "ceil_mode": 1},
    {"kernel_shape": [3, 3], "dilations": [2, 3], "pads": [2, 2, 1, 1]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "dilations": [2, 2], "ceil_mode": 1},
    {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [4, 4], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [4, 4], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "VALID"},
    {"kernel_shape": [9, 9], "pads": [4, 4, 4, 4]},
    {"kernel_shape": [1, 1], "strides": [4, 5]},
)
_IMAGES = ((1, 2, 7, 8), (0, 2, 7, 8), (2, 0, 7, 8))
_LOWER = {"auto_pad": "SAME_LOWER", "strides": [2, 3]}
_CONVS: tuple[Settings, ...] = (
    {"pads": [1, 0, 2, 1], "strides": [2, 3]},
    {"pads": [0, 3, 0, 0], "dilations": [2, 1]},
    {"auto_pad": "SAME_UPPER", "strides": [2, 3]},
    _LOWER,
    {"auto_pad": "VALID", "strides": [2, 2]},
    {"pads": [9, 9, 9, 9]},
    {"pads": [2, 2, 2, 2], "strides": [5, 5]},
    {"auto_pad": "SAME_LOWER", "dilations": [2, 2]},
)
_TRANSPOSES: tuple[Settings, ...] = (
    {"auto_pad": "SAME_UPPER", "strides": [2, 3]},
    _LOWER,
    {"auto_pad": "VALID", "strides": [2, 2]},
    {"output_shape": [8, 16], "strides": [2, 3]},
    {"output_shape": [10, 17], "strides": [2, 3]},
    {"output_shape": [8, 16], **_LOWER},
    {"output_padding": [1, 2], "strides": [2, 3], "pads": [1, 0, 2, 1]},
    {"dilations": [2, 3], "pads": [1, 2, 0, 3]},
    {"strides": [5, 5], "output_padding": [4, 4]},
)


def _with_infinities(*shape: int) -> Array:
    x = normal(*shape)
    if x.size:
        x[0, 0, 0, 1], x[0, -1, 5, 3] = np.inf, -np.inf
    return x


def _cubic_norm(x: Array) -> Array:
    powers = np.abs(x.astype(np.float64)) ** 3
    return (powers.sum(axis=(2, 3), keepdims=True) ** (1 / 3)).astype(x.dtype)


def _pools() -> Iterator[Case]:
    """The reference has another shape for SAME_LOWER, and counts padding beyond the end."""
    images = [*product(_IMAGES[:1], _POOLS), *product(_IMAGES[1:], _POOLS[::4])]
    for number, (shape, settings) in enumerate(images):
        x = _with_infinities(*shape)
        own = "ceil_mode" in settings or settings.get("auto_pad") == "SAME_LOWER"
        oracle = runtime if own and shape[1] and "dilations" not in settings else None
        yield Case("AveragePool", [x], {**settings, "count_include_pad": number % 2})
        if oracle or not own:
            yield Case("MaxPool", [x], settings, wanted=oracle)
            yield Case("LpPool", [x], settings, wanted=oracle)
    for p in (1, 2, 3):
        yield Case("LpPool", [normal(2, 3, 5, 6)], {"kernel_shape": [2, 2], "p": p})
    yield Case("GlobalLpPool", [normal(1, 2, 3, 4)], {"p": 3}, wanted=_cubic_norm)
    yield Case("GlobalAveragePool", [_with_infinities(1, 2, 7, 8)])
    for shape in _IMAGES:
        yield Case("GlobalMaxPool", [_with_infinities(*shape)])
    ends = np.array([[[-128, -128, 127, 0, 1]]], np.int8)
    for dtype in (np.int8, np.uint8):
        settings = {"kernel_shape": [3], "pads": [2, 1]}
        yield Case("MaxPool", [ends.view(dtype)], settings, wanted=runtime)


def _convs() -> Iterator[Case]:
    shapes = (
        ((1, 3, 7, 8), (4, 3, 3, 2)),
        ((0, 3, 7, 8), (4, 3, 3, 2)),
        ((2, 0, 7, 8), (4, 0, 3, 2)),
    )
    x = (np.arange(56) * 37 % 256).astype(np.uint8).reshape(1, 1, 7, 8)
    w = np.array([-128, 127, 3, -1, 5, 127], np.int8).reshape(1, 1, 3, 2)
    for settings in _CONVS:
        for image, kernel in shapes if settings == _LOWER else shapes[:1]:
            yield Case("Conv", [normal(*image), normal(*kernel)], settings)
        grouped = [normal(1, 4, 7, 8), normal(6, 2, 3, 2), normal(6)]
        yield Case("Conv", grouped, {**settings, "group": 2})
        zeros = [np.array(255, np.uint8), np.array(-128, np.int8)]
        if "strides" in settings:
            yield Case("ConvInteger", [x, w, *zeros], settings)
    for settings in _TRANSPOSES:
        oracle = runtime if "output_shape" in settings else None
        yield Case(
            "ConvTranspose", [normal(1, 2, 4, 5), normal(2, 3, 3, 4)], settings, wanted=oracle
        )
        grouped = [normal(1, 4, 4, 5), normal(4, 3, 3, 4), normal(6)]
        if "auto_pad" not in settings:
            yield Case("ConvTranspose", grouped, {**settings, "group": 2}, wanted=runtime)
    for scale in (1e-3, 1e9):
        scales = [np.array(s, np.float32) for s in (1.7, 0.3, scale)]
        points = [np.array(255, np.uint8), np.array(0, np.int8), np.array(3, np.uint8)]
        operands = [x, scales[0], points[0], w, scales[1], points[1], scales[2], points[2]]
        yield Case("QLinearConv", operands, {"pads": [1, 2, 0, 1]})


_MAPS = ("half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric")


def _resizes() -> Iterator[Case]:
    x = normal(1, 2, 4, 5)
    for mode, coordinates in product(("nearest", "linear", "cubic"), _MAPS):
        settings = {"mode": mode, "coordinate_transformation_mode": coordinates}
        for sizes in ([1, 2, 1, 1], [1, 2, 3, 11]):
            yield Case("Resize", [x, None, None, np.array(sizes)], settings, fixed=(3,))
        scales = np.array([1, 1, 0.6, 2.6], np.float32)
        yield Case("Resize", [x, None, scales], settings, fixed=(2,))
    for mode in ("nearest", "linear", "cubic"):
        crop = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": -7.0}
        region = np.array([-0.5, 0.2, 1.5, 0.7], np.float32)
        settings = {"mode": mode, **crop, "axes": [2, 3]}
        yield Case("Resize", [x, region, None, np.array([6, 7])], settings, fixed=(1, 3))
        for policy in ("not_larger", "not_smaller"):
            settings = {"mode": mode, "axes": [3, 2], "keep_aspect_ratio_policy": policy}
            yield Case("Resize", [x, None, None, np.array([7, 3])], settings, fixed=(3,))
        sizes = np.array([0, 2, 3, 11])
        yield Case("Resize", [normal(0, 2, 4, 5), None, None, sizes], {"mode": mode}, fixed=(3,))
    for mode in ("linear", "cubic"):
        settings = {"mode": mode, "antialias": 1}
        yield Case("Resize", [x, None, None, np.array([1, 2, 2, 3])], settings, fixed=(3,))


def _constant(value: float, x: Array, grid: Array) -> Array:
    """Return the same value for all points."""
    return np.full((*x.shape[:2], *grid.shape[1:3]), value, x.dtype)


def _samples() -> Iterator[Case]:
    places = np.array([0, -1, 1, 1.0001, -1.5, 1e4, -1e4, 0.25], np.float32)
    grid = np.stack(np.meshgrid(places, places), -1)[None]
    modes = product(("nearest", "linear"), ("zeros", "border", "reflection"), (0, 1))
    for mode, padding, aligned in modes:
        settings = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
        yield Case("GridSample", [normal(1, 1, 4, 5), grid], settings, epsilon=1e-3)
    odd = np.array([[np.nan, 0], [np.inf, -np.inf], [3e38, -3e38]], np.float32)[None, None]
    for padding in ("zeros", "border"):
        settings = {"mode": "nearest", "padding_mode": padding}
        yield Case("GridSample", [normal(1, 1, 4, 5), odd], settings)
    for mode in ("linear", "cubic"):
        for padding, count, value in (("zeros", 2, 0.0), ("border", 1, np.nan)):
            settings = {"mode": mode, "padding_mode": padding}
            operands = [normal(1, 1, 4, 5), odd[:, :, :count]]
            yield Case("GridSample", operands, settings, wanted=partial(_constant, value))
    sizes = [np.array([1, 1, *size]) for size in ((1, 1), (3, 4))]
    for size, aligned in product(sizes, (0, 1)):
        yield Case("AffineGrid", [normal(1, 2, 3), size], {"align_corners": aligned}, fixed=(1,))
    yield Case("AffineGrid", [normal(0, 2, 3), np.array([0, 1, 3, 4])], fixed=(1,))
    places = np.array([[[[1, 3], [3, 15]]]])
    settings = {"kernel_shape": [2, 2], "strides": [2, 2]}
    yield Case("MaxUnpool", [normal(1, 1, 2, 2), places], settings)
    for blocks, pads in ((16, [1, 1, 1, 1]), (12, [1, 0, 1, 1])):
        image = [normal(1, 4, blocks), np.array([3, 3]), np.array([2, 2])]
        yield Case("Col2Im", image, {"pads": pads}, fixed=(1, 2))


def cases() -> Iterator[Case]:
    """All windows."""
    yield from _pools()
    yield from _convs()
    yield from _resizes()
    yield from _samples()
