"""Converters of pooling over windows and over all spatial dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.pooling import pool_extent
from tessella.frontends.emitter import Array, Value, Values, where
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.windows import SpatialWindow, window
from tessella.frontends.onnx.registry import converts
from tessella.support.decisions import decided_max, known, known_all
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size

MOST_POINTS = 64
"""Limit on the number of elements of a window of MaxPool whose output ``Indices`` is computed: each
element takes a comparison."""


def _pool_window(call: Call) -> SpatialWindow:
    kernel, sizes = call.integers("kernel_shape") or (), call.x.shape[2:]
    if not sizes:
        raise ShapeError("pooling takes x[N, C, spatial..]", found=str(call.x.type))
    # A window may consist mostly of padding, so the size of the operand does not limit the kernel's
    # size.
    return window(call, call.build.limited(*kernel), sizes)


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
    pads, extents, rank = known_all(settings.pads), known_all(largest.shape)[2:], len(kernel)
    if math.prod(kernel) > MOST_POINTS:
        call.unsupported(f"Indices of windows of more than {MOST_POINTS} elements")
    columns = zip(extents, settings.strides, kernel, settings.dilations, strict=True)
    reach = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in columns]
    high = [max(0, r - n - p) for r, n, p in zip(reach, shape[2:], pads[:rank], strict=True)]
    least = -np.inf if x.is_float else float(np.iinfo(x.dtype).min)
    framed = x.pad([0, 0, *pads[:rank]], [0, 0, *high], least)
    size = math.prod(shape[2:])
    found: Value | None = None
    for point in np.ndindex(*kernel):
        starts = [i * d for i, d in zip(point, settings.dilations, strict=True)]
        window = framed.slice([0, 0, *starts], [*shape[:2], *extents], [1, 1, *settings.strides])
        places = _places_of(shape[2:], extents, settings.strides, starts, pads)
        is_largest = window.equals(largest)
        if x.is_float:
            is_largest = is_largest | ~window.equals(window)
        held = where(is_largest, call.constant(places), np.array(size, places.dtype))
        found = held if found is None else found.op(nn.MinOp, held)
    assert found is not None
    if call.integer("storage_order"):
        found = _by_columns(found, shape[2:])
    images = np.arange(math.prod(shape[:2]), dtype=np.int64) * size
    return found.cast(np.int64) + call.constant(images.reshape(*shape[:2], *[1] * rank))


def _places_of(
    sizes: Sequence[int],
    extents: Sequence[int],
    strides: Sequence[int],
    starts: Sequence[int],
    pads: Sequence[int],
) -> Array:
    """Return the position in the image that each window reads for one of its elements; the number
    of elements of the image if that is padding.

    ``starts`` are the element's offsets in the window.
    """
    total, inside = np.zeros((), np.int64), np.ones((), np.bool_)
    for d, size in enumerate(sizes):
        along = np.arange(extents[d]) * strides[d] + starts[d] - pads[d]
        along = along.reshape([-1 if e == d else 1 for e in range(len(sizes))])
        total, inside = total * size + along, inside & (along >= 0) & (along < size)
    count = math.prod(sizes)
    return np.where(inside, total, count).astype(np.int32 if count < 1 << 31 else np.int64)


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
        raise ShapeError("attribute 'p' is not positive", found=str(p))
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
    ones = call.build.splat(1, (channels, 1, *settings.kernel), powers.dtype)
    sums = powers.op(
        nn.ConvOp,
        ones,
        strides=settings.strides,
        pads=_ceil_pads(call, settings, sizes),
        dilations=settings.dilations,
        groups=groups,
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
