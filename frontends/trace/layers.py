"""Functions for layers of neural networks. Images are [N, C, H, W], the weights of convolutions [O,
I, H, W]."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Literal, SupportsIndex, cast

import numpy.typing as npt

from tessella.dialects import nn
from tessella.frontends.emitter import Value
from tessella.frontends.shapes import same_padding, split_padding
from tessella.frontends.trace.function import function
from tessella.frontends.trace.movement import Shape, as_axis, as_ints
from tessella.frontends.trace.promote import common, floating
from tessella.frontends.trace.traced import Trace
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size

Padding = (
    Literal["same", "valid"] | SupportsIndex | Sequence[SupportsIndex | Sequence[SupportsIndex]]
)
"""The padding of a window: ``same``, ``valid``, a number for both spatial dimensions, or for each
of them a number or a pair (before, after)."""


@function
def conv2d(
    trace: Trace,
    x: npt.ArrayLike,
    w: npt.ArrayLike,
    b: npt.ArrayLike | None = None,
    strides: Shape = 1,
    padding: Padding = 0,
    dilation: Shape = 1,
    groups: SupportsIndex = 1,
) -> Value:
    """Convolve x[N, C, H, W] with w[O, C / groups, H, W], and add a bias b[O].

    ``padding`` is "valid" (none), "same" (the result has ceil(size / stride) positions), a number
    of zeros on all sides, one for each dimension, or a pair (before, after) for each.
    """
    images, weights, *bias = common(trace, x, w, *([] if b is None else [b]))
    _check_images(images, "conv2d")
    if weights.rank != 4:
        raise ShapeError("the weights of conv2d must be [O, I, H, W]", found=str(weights.shape))
    window = _window(images, weights.shape[2:], strides, padding, dilation)
    return images.op(nn.ConvOp, weights, *bias, groups=operator.index(groups), **window)


@function
def max_pool2d(
    trace: Trace,
    x: npt.ArrayLike,
    kernel_size: Shape,
    strides: Shape | None = None,
    padding: Padding = 0,
    dilation: Shape = 1,
    ceil_mode: bool = False,
) -> Value:
    """Return the largest element of each window of x[N, C, H, W].

    Windows do not overlap by default.
    """
    value = trace.lift(x)
    return _pool(nn.MaxPoolOp, value, kernel_size, strides, padding, dilation, ceil_mode)


@function
def avg_pool2d(
    trace: Trace,
    x: npt.ArrayLike,
    kernel_size: Shape,
    strides: Shape | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Value:
    """Return the mean of each window of x[N, C, H, W].

    Windows do not overlap by default. The padding counts as zeros, or not at all without
    ``count_include_pad``.
    """
    (value,) = floating(trace, x)
    include = bool(count_include_pad)
    return _pool(
        nn.AvgPoolOp, value, kernel_size, strides, padding, 1, ceil_mode,
        count_include_pad=include,
    )  # fmt: skip


@function
def layer_norm(
    trace: Trace,
    x: npt.ArrayLike,
    scale: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    axis: SupportsIndex = -1,
    epsilon: float = 1e-5,
) -> Value:
    """Return (x - mean) / sqrt(variance + epsilon) * scale + bias, with statistics over the axes
    from ``axis`` on."""
    given = [v for v in (scale, bias) if v is not None]
    value, *rest = floating(trace, x, *given)
    first = as_axis(axis, value.rank)
    if scale is None:
        rest.insert(0, trace.emitter.splat(1, value.shape[first:], value.dtype))
    return value.op(nn.LayerNormOp, *rest, axis=first, epsilon=float(epsilon))


def _pool(
    op: type[nn.MaxPoolOp | nn.AvgPoolOp],
    x: Value,
    kernel_size: Shape,
    strides: Shape | None,
    padding: Padding,
    dilation: Shape,
    ceil_mode: bool,
    **more: bool,
) -> Value:
    _check_images(x, "a pooling")
    sizes = _pair(kernel_size, "kernel_size")
    window = _window(x, sizes, sizes if strides is None else strides, padding, dilation)
    return x.op(op, kernel_shape=sizes, ceil_mode=bool(ceil_mode), **window, **more)


def _window(
    x: Value, kernel: tuple[Size, ...], strides: Shape, padding: Padding, dilation: Shape
) -> dict[str, tuple[Size, ...]]:
    """Return the strides, dilations and padding of a window over the last two dimensions of ``x``,
    as properties of an op."""
    steps, spread = _pair(strides, "strides"), _pair(dilation, "dilation")
    if padding == "same":
        if min(steps) < 1:
            raise ShapeError("a stride is less than 1", found=str(steps))
        columns = zip(x.shape[2:], kernel, steps, spread, strict=True)
        pads = split_padding([same_padding(*column) for column in columns])
    else:
        pads = _pads(padding)
    return {"strides": steps, "dilations": spread, "pads": pads}


def _pads(padding: Padding) -> tuple[int, ...]:
    """Return the padding before each of the two spatial dimensions, then after each, for a padding
    other than ``same``."""
    if isinstance(padding, str):
        if padding != "valid":
            raise ShapeError("an unknown padding", expected="same, valid or sizes", found=padding)
        return (0, 0, 0, 0)
    each = cast("Sequence[Any]", padding) if isinstance(padding, Sequence) else [padding] * 2
    pairs = [as_ints(p) * (2 if isinstance(p, SupportsIndex) else 1) for p in each]
    if [len(pair) for pair in pairs] != [2, 2]:
        raise ShapeError(
            "a padding of the wrong form",
            expected="a number, or for each of 2 dimensions a number or a pair (before, after)",
            found=str(padding),
        )
    return tuple(pad for side in zip(*pairs, strict=True) for pad in side)


def _pair(values: Shape, name: str) -> tuple[int, ...]:
    numbers = as_ints(values)
    numbers = numbers if isinstance(values, Sequence) else numbers * 2
    if len(numbers) != 2:
        raise ShapeError(f"{name}: expected one number or two", found=str(numbers))
    return numbers


def _check_images(x: Value, what: str) -> None:
    if x.rank != 4:
        raise ShapeError(f"{what} takes images [N, C, H, W]", found=str(x.shape))
