"""Pooling over windows and over all of the spatial dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from tessella.dialects import nn
from tessella.dialects.nn.pooling import pool_extent
from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.windows import Window, window
from tessella.frontends.onnx.registry import converts, no_output, only
from tessella.support.decisions import decided_max, known, known_all
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size


def _pool_window(call: Call) -> Window:
    kernel, sizes = call.integers("kernel_shape") or (), call.x.shape[2:]
    if not sizes:
        raise ShapeError("pooling takes x[N, C, spatial..]", found=str(call.x.type))
    # a window may be mostly padding, so that no size bounds what it looks at
    return window(call, call.build.limited(*kernel), sizes)


def _ceil_mode(call: Call) -> bool:
    # with SAME the padding is what makes all windows fit
    return call.flag("ceil_mode") and not call.text("auto_pad", "NOTSET").startswith("SAME")


@converts("MaxPool", 1, 22, no_output(1, "Indices"), only("storage_order", 0))
def max_pool(call: Call) -> Value:
    """Without where the largest elements are."""
    return _pool(call, nn.MaxPoolOp)


@converts("AveragePool", 1, 22)
def average_pool(call: Call) -> Value:
    """Padding counts, as zeros, where the attribute says so."""
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
    """The spatial dimensions. Raises ShapeError."""
    if x.rank < 2:
        raise ShapeError("global pooling takes x[N, C, spatial..]", found=str(x.type))
    return range(2, x.rank)


@converts("GlobalAveragePool", 1, 22)
def global_average_pool(call: Call) -> Value:
    """A mean over the spatial dimensions."""
    return call.x.mean(_spatial(call.x), keepdims=True)


@converts("GlobalMaxPool", 1, 22)
def global_max_pool(call: Call) -> Value:
    """A maximum over the spatial dimensions."""
    return call.x.max(_spatial(call.x), keepdims=True)


def _exponent(call: Call) -> float:
    p = float(call.attribute("p"))
    if not p > 0:
        raise ShapeError("attribute 'p' is not positive", found=str(p))
    return p


@converts("GlobalLpPool", 1, 22)
def global_lp_pool(call: Call) -> Value:
    """The p-norm over the spatial dimensions."""
    p = _exponent(call)
    return (abs(call.x) ** p).sum(_spatial(call.x), keepdims=True) ** (1 / p)


@converts("LpPool", 1, 22)
def lp_pool(call: Call) -> Value:
    """The p-norm of each window: a sum of powers, which is a convolution with ones."""
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


def _ceil_pads(call: Call, settings: Window, sizes: Sequence[Size]) -> tuple[Size, ...]:
    """The padding with which a last window that reaches over the end fits."""
    if not _ceil_mode(call):
        return settings.pads
    rank, kernels, pads = len(sizes), known_all(settings.kernel), [*known_all(settings.pads)]
    for d, size in enumerate(sizes):
        kernel, stride, dilation = kernels[d], settings.strides[d], settings.dilations[d]
        count = pool_extent(size, kernel, stride, pads[d], pads[rank + d], dilation, True)
        reach = (count - 1) * stride + (kernel - 1) * dilation + 1
        pads[rank + d] = known(decided_max(reach - size - pads[d], pads[rank + d]))
    return tuple(pads)
