"""Layers of neural networks. Images are [N, C, H, W], the weights of convolutions [O, I, H, W]."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Literal, SupportsIndex, cast

import numpy.typing as npt

from tessella.dialects import nn
from tessella.frontends.trace.function import function
from tessella.frontends.trace.movement import Shape, as_axis, as_ints
from tessella.frontends.trace.promote import common, floating
from tessella.frontends.trace.traced import Trace, Traced
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size

Padding = (
    Literal["same", "valid"] | SupportsIndex | Sequence[SupportsIndex | Sequence[SupportsIndex]]
)
"""``same``, ``valid``, or a number for both spatial dimensions, or for each a number or a pair."""


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
) -> Traced:
    """The convolution of x[N, C, H, W] with w[O, C / groups, H, W], and a bias b[O].

    ``padding`` is "valid" (none), "same" (the result has ceil(size / stride) positions), a number
    of zeros on all sides, one for each dimension, or a pair (before, after) for each.
    """
    values = common(trace, x, w, *([] if b is None else [b]))
    _check_images(values[0], "conv2d")
    if values[1].ndim != 4:
        raise ShapeError("the weights of conv2d must be [O, I, H, W]", found=str(values[1].sizes))
    window = _window(values[0], values[1].sizes[2:], strides, padding, dilation)
    return trace.emit(nn.ConvOp, values, groups=operator.index(groups), **window)


@function
def max_pool2d(
    trace: Trace,
    x: npt.ArrayLike,
    kernel_size: Shape,
    strides: Shape | None = None,
    padding: Padding = 0,
    dilation: Shape = 1,
    ceil_mode: bool = False,
) -> Traced:
    """The largest element of each window of x[N, C, H, W]; windows do not overlap by default."""
    value = trace.lift(x)
    return _pool(trace, nn.MaxPoolOp, value, kernel_size, strides, padding, dilation, ceil_mode)


@function
def avg_pool2d(
    trace: Trace,
    x: npt.ArrayLike,
    kernel_size: Shape,
    strides: Shape | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Traced:
    """The mean of each window of x[N, C, H, W]; windows do not overlap by default.

    The padding counts as zeros, or not at all without ``count_include_pad``.
    """
    (value,) = floating(trace, x)
    include = bool(count_include_pad)
    return _pool(
        trace, nn.AvgPoolOp, value, kernel_size, strides, padding, 1, ceil_mode,
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
) -> Traced:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, over the axes from ``axis`` on."""
    given = [v for v in (scale, bias) if v is not None]
    value, *rest = floating(trace, x, *given)
    first = as_axis(axis, value.ndim)
    if scale is None:
        rest.insert(0, trace.splat(1, value.sizes[first:], value.dtype))
    return trace.emit(nn.LayerNormOp, [value, *rest], axis=first, epsilon=float(epsilon))


def _pool(
    trace: Trace,
    op: type[nn.MaxPoolOp | nn.AvgPoolOp],
    x: Traced,
    kernel_size: Shape,
    strides: Shape | None,
    padding: Padding,
    dilation: Shape,
    ceil_mode: bool,
    **more: bool,
) -> Traced:
    _check_images(x, "a pooling")
    sizes = _pair(kernel_size, "kernel_size")
    window = _window(x, sizes, sizes if strides is None else strides, padding, dilation)
    return trace.emit(op, [x], kernel_shape=sizes, ceil_mode=bool(ceil_mode), **window, **more)


def _window(
    x: Traced, kernel: tuple[Size, ...], strides: Shape, padding: Padding, dilation: Shape
) -> dict[str, tuple[Size, ...]]:
    """The properties of an op on a window that moves over the last two dimensions of x."""
    steps, spread = _pair(strides, "strides"), _pair(dilation, "dilation")
    if padding == "same":
        pairs = [_same(*column) for column in zip(x.sizes[2:], kernel, steps, spread, strict=True)]
    else:
        pairs = _pads(padding)
    pads = (*(low for low, _ in pairs), *(high for _, high in pairs))
    return {"strides": steps, "dilations": spread, "pads": pads}


def _same(size: Size, kernel: Size, stride: int, dilation: int) -> tuple[Size, Size]:
    """Padding for which there are ceil(size / stride) positions; an odd one has more at the end."""
    if stride < 1:
        raise ShapeError("a stride is less than 1", found=str(stride))
    total = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def _pads(padding: Padding) -> list[tuple[int, int]]:
    """Padding before and after each of the two dimensions."""
    if isinstance(padding, str):
        if padding != "valid":
            raise ShapeError("an unknown padding", expected="same, valid or sizes", found=padding)
        return [(0, 0), (0, 0)]
    each = cast("Sequence[Any]", padding) if isinstance(padding, Sequence) else [padding] * 2
    pairs = [as_ints(p) * (2 if isinstance(p, SupportsIndex) else 1) for p in each]
    if [len(pair) for pair in pairs] != [2, 2]:
        raise ShapeError(
            "a padding of the wrong form",
            expected="a number, or for each of 2 dimensions a number or a pair (before, after)",
            found=str(padding),
        )
    return [(low, high) for low, high in pairs]


def _pair(values: Shape, name: str) -> tuple[int, ...]:
    numbers = as_ints(values)
    numbers = numbers if isinstance(values, Sequence) else numbers * 2
    if len(numbers) != 2:
        raise ShapeError(f"{name}: expected one number or two", found=str(numbers))
    return numbers


def _check_images(x: Traced, what: str) -> None:
    if x.ndim != 4:
        raise ShapeError(f"{what} takes images [N, C, H, W]", found=str(x.sizes))
