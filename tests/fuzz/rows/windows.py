"""Convolutions, pools, and what samples images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from tests.fuzz.elements import FLOATS, Array
from tests.fuzz.graphs import Draft, Row, has_nan
from tests.fuzz.rows.elementwise import SINGLE
from tests.fuzz.rows.linear import scales
from tests.fuzz.rows.normalization import image

FLAG = (0, 1)
MOST = 1000


def window(d: Draft, x: Array, kernel: Sequence[int], *, dilated: bool = True) -> None:
    """Strides, dilations and padding."""
    rank = len(kernel)
    if d.coin():
        d.set("strides", [d.one_of(1, 1, 2, 3) for _ in kernel])
    dilations = [1] * rank
    if dilated and "dilations" in d.schema.attributes and d.chance(30):
        dilations = [d.one_of(1, 2) for _ in kernel]
        d.set("dilations", dilations)
    reach = [(k - 1) * s + 1 for k, s in zip(kernel, dilations, strict=True)]
    if d.chance(20):
        d.set("auto_pad", d.one_of("SAME_UPPER", "SAME_LOWER", "VALID"))
        d.require(all(n >= r for n, r in zip(x.shape[2:], reach, strict=True)))
        return
    pads = [d.between(0, k - 1) for k in (*kernel, *kernel)] if d.coin() else [0] * 2 * rank
    d.set("pads", pads)
    sizes = zip(x.shape[2:], pads[:rank], pads[rank:], reach, strict=True)
    d.require(all(n > 0 and n + a + b >= r for n, a, b, r in sizes))


def _kernel(d: Draft, x: Array) -> list[int]:
    return [d.one_of(1, 2, 3, 3) for _ in x.shape[2:]]


def _weight(d: Draft, x: Array) -> Array:
    channels = x.shape[1]
    groups = d.one_of(1, 1, channels, *([2] if channels % 2 == 0 else []))
    if groups != 1:
        d.set("group", groups)
    out = groups * (d.one_of(1, 3, 8, 17) if groups < 4 else d.one_of(1, 2))
    kernel = _kernel(d, x)
    window(d, x, kernel)
    return d.new((out, channels // groups, *kernel))


def conv(d: Draft) -> None:
    w = _weight(d, image(d, most=MOST))
    if d.coin():
        d.new((len(w),))


def conv_integer(d: Draft) -> None:
    _weight(d, image(d, most=MOST))
    for _ in range(d.between(0, 2)):
        d.constant(np.asarray(d.between(0, 5)))


def quantized_conv(d: Draft) -> None:
    x = image(d, most=MOST)
    scales(d)
    w = _weight(d, x)
    scales(d)
    scales(d)
    if d.coin():
        d.new((len(w),))


def conv_transpose(d: Draft) -> None:
    x = image(d, most=400)
    channels = x.shape[1]
    groups = d.one_of(1, 1, channels)
    kernel = _kernel(d, x)
    strides = [d.one_of(1, 2, 3) for _ in kernel]
    d.require(0 not in x.shape)
    d.set("group", groups)
    d.set("strides", strides)
    if d.coin():
        d.set("pads", [d.between(0, k - 1) for k in (*kernel, *kernel)])
    if d.chance(30):
        d.set("output_padding", [d.between(0, s - 1) for s in strides])
    if d.chance(30):
        d.set("dilations", [d.one_of(1, 2) for _ in kernel])
    out = d.one_of(1, 2, 5)
    d.new((channels, out, *kernel))
    if d.coin():
        d.new((groups * out,))


def pool(d: Draft) -> None:
    x = image(d)
    kernel = _kernel(d, x)
    d.set("kernel_shape", kernel)
    window(d, x, kernel)
    if d.attributes.get("auto_pad") and "ceil_mode" in d.attributes:
        del d.attributes["ceil_mode"]


def whole(d: Draft) -> None:
    x = image(d)
    d.require(x.size > 0)


def unpool(d: Draft) -> None:
    """Return MaxUnpool of a MaxPool with windows of 2."""
    n, c, h, w = d.between(1, 2), d.between(1, 3), d.between(1, 4), d.between(1, 4)
    d.new((n, c, h, w))
    rng = np.random.default_rng(d.random.getrandbits(32))
    rows = 2 * np.arange(h)[:, None] + rng.integers(0, 2, (n, c, h, w))
    columns = 2 * np.arange(w)[None, :] + rng.integers(0, 2, (n, c, h, w))
    base = np.arange(n * c).reshape(n, c, 1, 1) * 4 * h * w
    places = base + rows * 2 * w + columns
    d.new((n, c, h, w), lambda a: places.astype(a.dtype))
    d.set("kernel_shape", [2, 2])
    d.set("strides", [2, 2])


def resize(d: Draft) -> None:
    x = d.pick(
        lambda a: a.ndim == 4 and 0 < a.size <= MOST,
        lambda: (1, d.between(1, 3), d.between(2, 6), d.between(2, 6)),
    )
    d.require(0 not in x.shape)
    mode = d.attributes.get("mode", "nearest")
    # of one element there are no weights to normalise, and oracles differ
    d.require(mode != "nearest" or not d.attributes.get("exclude_outside"))
    if mode == "nearest" and d.coin():
        d.set("nearest_mode", d.one_of("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
    if mode == "cubic":
        d.set("cubic_coeff_a", d.one_of(-0.5, -0.75))
    if d.opset < 11:
        d.constant(np.asarray([1, 1, *(d.one_of(1.0, 2.0, 3.0) for _ in "hw")]), TensorProto.FLOAT)
        return
    d.constant(
        np.zeros(0),
        TensorProto.FLOAT
        if d.opset < 13
        else d.operands[0].code
        if d.operands[0].code in (1, 10, 11)
        else TensorProto.FLOAT,
    )
    if d.coin():
        d.constant(
            np.asarray([1, 1, *(d.one_of(1.0, 2.0, 0.5, 1.5) for _ in "hw")]), TensorProto.FLOAT
        )
    else:
        d.constant(np.zeros(0), TensorProto.FLOAT)
        d.constant(
            np.asarray([*x.shape[:2], *(d.between(1, 2 * n) for n in x.shape[2:])], np.int64)
        )


def grid_sample(d: Draft) -> None:
    d.set(
        "mode",
        d.one_of("nearest", *(("linear", "cubic") if d.opset >= 20 else ("bilinear", "bicubic"))),
    )
    n, c, h, w = d.between(1, 2), d.between(1, 3), d.between(2, 6), d.between(2, 6)
    d.new((n, c, h, w))
    # of integers, the oracles know the nearest alone
    d.require(d.operands[0].code in FLOATS)
    d.new((n, d.between(1, 4), d.between(1, 4), 2), lambda a: np.asarray(np.tanh(a) * 1.2, a.dtype))


def affine_grid(d: Draft) -> None:
    n = d.between(1, 2)
    d.new((n, 2, 3))
    d.constant(np.asarray([n, 1, d.between(2, 5), d.between(2, 5)], np.int64))


def col2im(d: Draft) -> None:
    image_shape = [d.between(3, 6), d.between(3, 6)]
    block = [d.between(1, 3), d.between(1, 3)]
    count = (image_shape[0] - block[0] + 1) * (image_shape[1] - block[1] + 1)
    d.new((d.between(1, 2), d.between(1, 2) * block[0] * block[1], count))
    d.constant(np.asarray(image_shape, np.int64))
    d.constant(np.asarray(block, np.int64))


CEIL: dict[str, Sequence[Any]] = {"ceil_mode": FLAG}
TRANSFORMATIONS = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")

ROWS = (
    Row("Conv", conv),
    Row("ConvInteger", conv_integer),
    Row("QLinearConv", quantized_conv),
    Row("ConvTranspose", conv_transpose),
    Row("MaxPool", pool, CEIL, exact=True, unclear=has_nan),
    Row("AveragePool", pool, {"count_include_pad": FLAG, **CEIL}),
    Row("LpPool", pool, {"p": (1, 2, 3), **CEIL}),
    Row("GlobalAveragePool", whole),
    Row("GlobalMaxPool", whole, exact=True, unclear=has_nan),
    Row("MaxUnpool", unpool, exact=True),
    Row(
        "Resize",
        resize,
        {
            "mode": ("nearest", "linear", "cubic"),
            "coordinate_transformation_mode": TRANSFORMATIONS,
            "exclude_outside": FLAG,
            "antialias": FLAG,
        },
        epsilon=SINGLE,  # of scales
    ),
    Row(
        "GridSample",
        grid_sample,
        {
            "padding_mode": ("zeros", "border", "reflection"),
            "align_corners": FLAG,
        },
        epsilon=SINGLE,  # of coordinates
    ),
    Row("AffineGrid", affine_grid, {"align_corners": FLAG}, epsilon=SINGLE),
    Row("Col2Im", col2im),
)
