"""Kernels of pooling: contractions over a window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import SSAValue

from tessella.dialects.layout import BLOCKED, NCHW, NHWC
from tessella.dialects.nn import pooling
from tessella.dialects.nn.core import Array, NnOp, dtype_of, shape_of
from tessella.kernels.builder import Form, KernelBuilder
from tessella.kernels.elements import FLOATING
from tessella.kernels.linear import spatial_names, window_forms
from tessella.kernels.registry import native
from tessella.support.sizes import Size

MOST_IN_TABLE = 1 << 24
"""Elements of a table that a kernel reads, and that is computed when it is compiled."""


def _window(
    k: KernelBuilder, op: pooling.PoolOp, x: SSAValue, aggregation: str
) -> tuple[SSAValue, list[str]]:
    """The aggregate of each window, and the names of the output's indices."""
    settings, type = op.settings, k.result_type(op)
    batch, channels, *extents = type.get_shape()
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
    """R[n, c, y, x] = >(X[n, c, 2*y + i - 1, 2*x + j - 1])."""
    return _window(k, op, x, ">")[0]


@dataclass(frozen=True)
class _Counts:
    """How many elements the windows of a mean have along a dimension."""

    windows: Size
    taps: int
    stride: int
    dilation: int
    pad: int
    counted: tuple[Size, Size]
    """Where the elements begin and end that count."""

    @property
    def different(self) -> Size:
        """How many windows may have different numbers of them; those between full ones are full."""
        full = self.windows == 1 or (self._is_full(0) and self._is_full(self.windows - 1))
        return 1 if full else self.windows

    def _is_full(self, number: Size) -> bool:
        start = number * self.stride - self.pad
        last = start + (self.taps - 1) * self.dilation
        return start >= self.counted[0] and last < self.counted[1]

    def table(self) -> Array:
        """How many each window has; one number where all have as many."""
        (low, high), windows = self.counted, self.different
        far = windows * self.stride + self.pad + high >= 1 << 62
        start = np.arange(windows, dtype=object if far else np.int64) * self.stride - self.pad
        first = np.clip(-((start - low) // self.dilation), 0, self.taps)
        end = np.clip(-((start - high) // self.dilation), first, self.taps)
        return (end - first).astype(np.float64)


def _counts(op: NnOp) -> Sequence[_Counts]:
    """Of each spatial dimension of a mean over windows."""
    s, sizes = op.settings, shape_of(op.operands[0])[2:]
    pads = zip(s["pads"][: len(sizes)], s["pads"][len(sizes) :], strict=True)
    more = pads if s["count_include_pad"] else [(0, 0)] * len(sizes)
    counted = [(-low, size + high) for size, (low, high) in zip(sizes, more, strict=True)]
    columns = (s["kernel_shape"], s["strides"], s["dilations"], s["pads"][: len(sizes)], counted)
    return [*map(_Counts, shape_of(op.results[0])[2:], *columns)]


def _has_small_table(op: NnOp) -> str | None:
    windows = prod(each.different for each in _counts(op))
    if windows <= MOST_IN_TABLE:
        return None
    return f"the kernel's table has at most {MOST_IN_TABLE} counts, and these windows {windows}"


@native(
    pooling.AvgPoolOp,
    "avg_pool",
    NHWC,
    NCHW,
    BLOCKED,
    elements=FLOATING,
    applies=_has_small_table,
)
def avg_pool(k: KernelBuilder, op: pooling.AvgPoolOp, x: SSAValue) -> SSAValue:
    """The sum of each window, then times the reciprocal of its count."""
    total, names = _window(k, op, x, "+")
    type, tables = k.result_type(op), [each.table() for each in _counts(op)]
    with np.errstate(divide="ignore"):  # a window of padding alone has no mean: NaN
        scales = 1.0 / reduce(np.multiply, np.ix_(*tables))
    ranges = dict(zip(names, type.get_shape(), strict=True))
    if (scales == scales.flat[0]).all():
        scale = float(scales.flat[0])
        return k.map([total], type, lambda s, a: s.op(arith.MulfOp(a[0], s.like(scale, a[0]))))
    varying = [d for d, size in enumerate(scales.shape) if size > 1]
    factors = k.constant(scales.squeeze().astype(dtype_of(total.type)), "window_scale")
    return k.contract(
        "=",
        ranges,
        {},
        [(total, list(names)), (factors, [names[2 + d] for d in varying])],
        (type, list(names)),
        lambda s, a: s.op(arith.MulfOp(a[0], a[1])),
    )
