"""NumPy semantics of poolings and window sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tessella.runtime.host.registry import Array, kernel
from tessella.runtime.host.values import least
from tessella.runtime.host.windows import Ints, kernel_points


@dataclass(frozen=True)
class _Pool:
    """The window of a pooling, and the spatial sizes it moves over."""

    sizes: Ints
    kernel_shape: Ints
    strides: Ints
    pads: Ints
    dilations: Ints
    ceil_mode: bool

    def padding(self) -> list[tuple[int, int]]:
        """Return the padding before and after each spatial dimension."""
        rank = len(self.sizes)
        return list(zip(self.pads[:rank], self.pads[rank:], strict=True))

    def extents(self) -> list[int]:
        """Return the number of windows in each spatial dimension (as in ONNX's MaxPool-22 and
        torch's MaxPool2d)."""
        columns = (self.sizes, self.kernel_shape, self.strides, self.dilations, self.padding())
        result: list[int] = []
        for size, kernel_size, stride, dilation, (before, after) in zip(*columns, strict=True):
            rest = size + before + after - (kernel_size - 1) * dilation - 1
            count = rest // stride + 1
            overhangs = self.ceil_mode and rest % stride and count * stride < size + before
            result.append(count + bool(overhangs))
        return result

    def overhang(self) -> list[tuple[int, int]]:
        """Return the overhang of the last windows beyond the padding, as widths for np.pad."""
        columns = (self.extents(), self.strides, self.kernel_shape, self.dilations)
        reach = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(*columns, strict=True)]
        padded = [n + sum(widths) for n, widths in zip(self.sizes, self.padding(), strict=True)]
        return [(0, max(0, r - n)) for r, n in zip(reach, padded, strict=True)]

    def frame(self, array: Array, border: float) -> Array:
        """Pad an array with the value ``border``, by the padding and the overhang of the
        windows."""
        widths = [
            (a, b + c) for (a, b), (_, c) in zip(self.padding(), self.overhang(), strict=True)
        ]
        return np.pad(
            array, [*[(0, 0)] * (array.ndim - len(widths)), *widths], constant_values=border
        )

    def windows(self, framed: Array) -> Iterator[Array]:
        """Yield, for each point of the window, an array of the elements at that point in all window
        positions."""
        for _, window in kernel_points(
            self.kernel_shape, self.strides, self.dilations, self.extents()
        ):
            yield framed[(..., *window)]


@kernel("max_pool")
def max_pool(
    x: Array, *, kernel_shape: Ints, strides: Ints, pads: Ints, dilations: Ints, ceil_mode: bool
) -> Array:
    """Return the largest element of each window of x[N, C, spatial..]; NaN if an element of the
    window is NaN."""
    pool = _Pool(x.shape[2:], kernel_shape, strides, pads, dilations, ceil_mode)
    result = np.full((*x.shape[:2], *pool.extents()), least(x.dtype))
    for window in pool.windows(pool.frame(x, least(x.dtype))):
        np.maximum(result, window, out=result)
    return result


@kernel("avg_pool")
def avg_pool(
    x: Array,
    *,
    kernel_shape: Ints,
    strides: Ints,
    pads: Ints,
    dilations: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
) -> Array:
    """Return the mean of each window in float64, rounded once; NaN for a window without
    elements."""
    pool = _Pool(x.shape[2:], kernel_shape, strides, pads, dilations, ceil_mode)
    counted = np.pad(np.ones(pool.sizes), pool.padding(), constant_values=count_include_pad)
    total = np.zeros((*x.shape[:2], *pool.extents()))
    for window in pool.windows(pool.frame(x.astype(np.float64), 0)):
        total += window
    count = sum(pool.windows(np.pad(counted, pool.overhang())))
    return (total / count).astype(x.dtype)


@kernel("col2im")
def col2im(x: Array, *, image: Ints, strides: Ints, dilations: Ints, starts: Ints) -> Array:
    """Return the image in which each element of x[N, C, kernel.., windows..] is added to the pixel
    at its position in its window (ONNX's Col2Im): a strided sum for each kernel element."""
    rank = len(image)
    block, counts = x.shape[2 : 2 + rank], x.shape[2 + rank :]
    columns = zip(image, starts, counts, strides, block, dilations, strict=True)
    full = [max(n + a, (m - 1) * s + (k - 1) * d + 1) for n, a, m, s, k, d in columns]
    total = np.zeros((*x.shape[:2], *full), x.dtype)
    for point, window in kernel_points(block, strides, dilations, counts):
        total[(..., *window)] += x[(slice(None), slice(None), *point)]
    return total[(..., *(slice(a, a + n) for a, n in zip(starts, image, strict=True)))]
