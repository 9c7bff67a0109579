"""Kernels of pooling: contractions over windows."""

from __future__ import annotations

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import SSAValue

from tessella.dialects.layout import BLOCKED, NCHW, NHWC
from tessella.dialects.nn import pooling
from tessella.dialects.nn.core import Array, dtype_of, shape_of
from tessella.kernels.builder import Form, KernelBuilder
from tessella.kernels.elements import FLOATING
from tessella.kernels.linear import spatial_names, window_forms
from tessella.kernels.registry import native
from tessella.support.decisions import known_all


def _window(
    k: KernelBuilder, op: pooling.PoolOp, x: SSAValue, aggregation: str
) -> tuple[SSAValue, list[str]]:
    """Return the aggregate of each window, and the names of the output's indices."""
    settings, type = op.settings, k.result_type(op)
    batch, channels, *extents = shape_of(type)
    taps_shape = settings["kernel_shape"]
    spatial, taps = spatial_names(len(extents))
    forms: list[Form] = window_forms(
        spatial, taps, settings["strides"], settings["dilations"], settings["pads"]
    )
    free = {"n": batch, "c": channels, **dict(zip(spatial, extents, strict=True))}
    total = k.contract(
        aggregation,
        free,
        dict(zip(taps, taps_shape, strict=True)),
        [(x, ["n", "c", *forms])],
        (type, list(free)),
        lambda _, args: args[0],
    )
    return total, list(free)


@native(pooling.MaxPoolOp, "max_pool", NHWC, NCHW, BLOCKED)
def max_pool(k: KernelBuilder, op: pooling.MaxPoolOp, x: SSAValue) -> SSAValue:
    """Emit the maximum of each window. With stride 2 and padding 1, for example: R[n, c, y, x] =
    >(X[n, c, 2*y + i - 1, 2*x + j - 1])."""
    return _window(k, op, x, ">")[0]


def window_counts(op: pooling.AvgPoolOp) -> Array:
    """Return the divisor of each window's sum, with the shape of the output's spatial
    dimensions."""
    settings = op.settings
    sizes, extents = known_all(shape_of(op.x)[2:]), known_all(shape_of(op.res)[2:])
    rank = len(sizes)
    low = settings["pads"][:rank] if settings["count_include_pad"] else (0,) * rank
    high = settings["pads"][rank:] if settings["count_include_pad"] else (0,) * rank
    total = np.ones(extents)
    for d in range(rank):
        taps, dilation = settings["kernel_shape"][d], settings["dilations"][d]
        stride, pad = settings["strides"][d], settings["pads"][d]
        far = extents[d] * stride + pad + sizes[d] + high[d] >= 1 << 62
        start = np.arange(extents[d], dtype=object if far else np.int64) * stride - pad
        first = np.clip(-((start + low[d]) // dilation), 0, taps)
        end = np.clip(-((start - sizes[d] - high[d]) // dilation), first, taps)
        counts = (end - first).astype(np.float64)
        total = total * counts.reshape([-1 if e == d else 1 for e in range(rank)])
    return total


@native(pooling.AvgPoolOp, "avg_pool", NHWC, NCHW, BLOCKED, elements=FLOATING)
def avg_pool(k: KernelBuilder, op: pooling.AvgPoolOp, x: SSAValue) -> SSAValue:
    """Emit the sum of each window times the reciprocal of its count."""
    total, names = _window(k, op, x, "+")
    type = k.result_type(op)
    with np.errstate(
        divide="ignore"
    ):  # For a window of padding alone: 1 / 0 is infinite, and the mean 0 * inf is NaN.
        scales = 1.0 / window_counts(op)
    ranges = dict(zip(names, shape_of(type), strict=True))
    if (scales == scales.flat[0]).all():
        scale = float(scales.flat[0])
        return k.map([total], type, lambda s, a: s.op(arith.MulfOp(a[0], s.like(scale, a[0]))))
    factors = k.constant(scales.astype(dtype_of(total.type)), "window_scale")
    return k.contract(
        "=",
        ranges,
        {},
        [(total, list(names)), (factors, names[2:])],
        (type, list(names)),
        lambda s, a: s.op(arith.MulfOp(a[0], a[1])),
    )
