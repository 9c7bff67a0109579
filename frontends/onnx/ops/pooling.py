"""Converters of pooling over windows and over all spatial dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.pooling import pool_extent
from tessella.frontends.emitter import Value, Values
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.windows import SpatialWindow, window
from tessella.frontends.onnx.registry import converts
from tessella.frontends.pool_places import MOST_POINTS, largest_places
from tessella.support.decisions import decided_max, known, known_all
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size


def _pool_window(call: Call) -> SpatialWindow:
    kernel, sizes = call.integers("kernel_shape") or (), call.x.shape[2:]
    if not sizes:
        raise ShapeError("pooling takes x[N, C, spatial..]", found=str(call.x.type))
    # A window may consist mostly of padding, so the size of the operand does not limit the kernel's
    # size.
    found = window(call, call.build.limited(*kernel), sizes)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, found.dilations, strict=True)]
    pads = call.integers("pads") or ()
    if any(pad >= most for pad, most in zip(pads, reach * 2, strict=False)):
        raise ShapeError(
            "a window lies in the padding alone",
            expected=f"pads below the windows' sizes {reach}",
            found=str(list(pads)),
        )
    return found


def _ceil_mode(call: Call) -> bool:
    # with `auto_pad` SAME, the padding makes all windows fit, so the mode has no effect
    return call.flag("ceil_mode") and not call.text("auto_pad", "NOTSET").startswith("SAME")


@converts("MaxPool", 1, 22, note=f"Indices of windows of at most {MOST_POINTS} elements")
def max_pool(call: Call) -> Values:
    """Emit max pooling, and if its output is used, the position of the first largest element in
    each window."""
    largest = _pool(call, nn.MaxPoolOp)
    return (largest, _places(call, largest)) if call.node.uses(1) else (largest,)


def _places(call: Call, largest: Value) -> Value:
    """Emit for each window the lowest position of an element that is the largest one, or NaN."""
    settings, x = _pool_window(call), call.x
    kernel, shape = known_all(settings.kernel), known_all(x.shape)
    pads, rank = known_all(settings.pads), len(kernel)
    if math.prod(kernel) > MOST_POINTS:
        call.unsupported(f"Indices of windows of more than {MOST_POINTS} elements")
    found = largest_places(x, largest, kernel, settings.strides, pads, settings.dilations)
    size = math.prod(shape[2:])
    if call.integer("storage_order"):
        found = _by_columns(found, shape[2:])
    images = np.arange(math.prod(shape[:2]), dtype=np.int64) * size
    return found.cast(np.int64) + call.constant(images.reshape(*shape[:2], *[1] * rank))


def _by_columns(places: Value, sizes: Sequence[int]) -> Value:
    """Convert row-major positions in an image to column-major positions, with the first spatial
    dimension innermost."""
    result, step = places * 0, 1
    inner = math.prod(sizes)
    for size in sizes:
        inner //= size
        result = result + places / inner % size * step
        step *= size
    return result


@converts("AveragePool", 1, 22)
def average_pool(call: Call) -> Value:
    """Emit average pooling; padding counts as zeros if the attribute ``count_include_pad``
    says so."""
    return _pool(call, nn.AvgPoolOp, count_include_pad=call.flag("count_include_pad"))


def _pool(call: Call, op: type[nn.NnOp], **more: bool) -> Value:
    settings = _pool_window(call)
    return call.x.op(
        op,
        kernel_shape=settings.kernel,
        strides=settings.strides,
        pads=settings.pads,
        dilations=settings.dilations,
        ceil_mode=_ceil_mode(call),
        **more,
    )


def _spatial(x: Value) -> range:
    """Return the indices of the spatial dimensions of x[N, C, spatial..]. Raises ShapeError for a
    lower rank."""
    if x.rank < 2:
        raise ShapeError("global pooling takes x[N, C, spatial..]", found=str(x.type))
    return range(2, x.rank)


@converts("GlobalAveragePool", 1, 22)
def global_average_pool(call: Call) -> Value:
    """Emit the mean over the spatial dimensions."""
    return call.x.mean(_spatial(call.x), keepdims=True)


@converts("GlobalMaxPool", 1, 22)
def global_max_pool(call: Call) -> Value:
    """Emit the maximum over the spatial dimensions."""
    return call.x.max(_spatial(call.x), keepdims=True)


def _exponent(call: Call) -> float:
    p = float(call.attribute("p"))
    if not p > 0:
        raise ShapeError("attribute 'p' is not positive", expected="> 0", found=str(p))
    return p


@converts("GlobalLpPool", 1, 22)
def global_lp_pool(call: Call) -> Value:
    """Emit the p-norm over the spatial dimensions."""
    p = _exponent(call)
    return (abs(call.x) ** p).sum(_spatial(call.x), keepdims=True) ** (1 / p)


@converts("LpPool", 1, 22)
def lp_pool(call: Call) -> Value:
    """Emit the p-norm of each window: the root of a sum of powers, which is a convolution with
    ones."""
    p, settings = _exponent(call), _pool_window(call)
    powers = abs(call.x) ** p
    channels, sizes = powers.shape[1], powers.shape[2:]
    groups, *_ = call.build.limited(channels, *settings.kernel)
    ones = call.build.splat(1, (channels, min(groups, 1), *settings.kernel), powers.dtype)
    sums = powers.op(
        nn.ConvOp,
        ones,
        strides=settings.strides,
        pads=_ceil_pads(call, settings, sizes),
        dilations=settings.dilations,
        groups=max(groups, 1),
    )
    return sums ** (1 / p)


def _ceil_pads(call: Call, settings: SpatialWindow, sizes: Sequence[Size]) -> tuple[Size, ...]:
    """Return the padding of a pooling. In ``ceil_mode``, it includes room for a last window that
    reaches beyond the end."""
    if not _ceil_mode(call):
        return settings.pads
    rank, kernels, pads = len(sizes), known_all(settings.kernel), [*known_all(settings.pads)]
    for d, size in enumerate(sizes):
        kernel, stride, dilation = kernels[d], settings.strides[d], settings.dilations[d]
        count = pool_extent(size, kernel, stride, pads[d], pads[rank + d], dilation, True)
        reach = (count - 1) * stride + (kernel - 1) * dilation + 1
        pads[rank + d] = known(decided_max(reach - size - pads[d], pads[rank + d]))
    return tuple(pads)
