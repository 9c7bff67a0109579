"""Gradients of convolutions and of transposed convolutions.

The gradient with respect to an image is a convolution of the other kind. The gradient with respect
to a kernel is, for each element of the kernel, a matrix product of the result's gradient and the
image elements that the windows read at that position.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as combinations
from typing import Any

from tessella.dialects import nn
from tessella.frontends.emitter import Value, concat
from tessella.support.decisions import known_all
from tessella.support.sizes import Size

MOST_TAPS = 128
"""The largest kernel, in elements per pair of channels, for which a gradient is computed: each
element takes a matrix product."""


@dataclass(frozen=True)
class WindowSettings:
    """The settings of a convolution; ``pads`` lists the padding before each spatial dimension, then
    the padding after each."""

    strides: Sequence[int]
    pads: Sequence[int]
    dilations: Sequence[int]
    groups: int
    transposed: bool

    @property
    def settings(self) -> dict[str, Any]:
        """The properties of an op with these windows."""
        window = {name: tuple(getattr(self, name)) for name in ("strides", "pads", "dilations")}
        return {**window, "groups": self.groups}

    def of_image(self, x: Value, w: Value, gradient: Value) -> Value:
        """Emit the gradient with respect to the image ``x``, given the gradient of the result."""
        if self.transposed:
            y = gradient.op(nn.ConvOp, w, **self.settings)
        else:
            more = self._unread(x, w, gradient)
            y = gradient.op(nn.ConvTransposeOp, w, output_pads=more, **self.settings)
        # the output padding of a transposed convolution may make room for more windows
        return y.slice([0] * x.rank, x.shape)

    def _unread(self, x: Value, w: Value, gradient: Value) -> tuple[int, ...]:
        """Return, for each dimension, the number of elements at its end that no window reads."""
        padded = (n + sum(self.pads[d :: x.rank - 2]) for d, n in enumerate(x.shape[2:]))
        columns = zip(padded, self._ends(w.shape[2:], gradient.shape[2:]), strict=True)
        return known_all(n - end for n, end in columns)

    def _ends(self, kernel: Sequence[Size], windows: Sequence[Size]) -> list[Size]:
        """Return the size of each dimension, with padding, up to the end of its last window."""
        columns = zip(windows, kernel, self.strides, self.dilations, strict=True)
        return [(m - 1) * s + (k - 1) * d + 1 for m, k, s, d in columns]

    def of_kernel(self, x: Value, w: Value, gradient: Value) -> Value:
        """Emit the gradient with respect to the kernel ``w`` [O, I / groups, kernel..], which must
        have at most ``MOST_TAPS`` elements for each pair of channels."""
        image, small = (gradient, x) if self.transposed else (x, gradient)
        kernel, windows = known_all(w.shape[2:]), small.shape[2:]
        (batch, rows), columns = small.shape[:2], image.shape[1]
        count = math.prod(windows)
        left = small.reshape((batch, self.groups, rows // self.groups, count))
        framed = self._framed(image, kernel, windows)
        taps: list[Value] = []
        for tap in combinations(*map(range, kernel)):
            starts: list[Size] = [0, 0, *(i * d for i, d in zip(tap, self.dilations, strict=True))]
            read = framed.slice(starts, (batch, columns, *windows), [1, 1, *self.strides])
            right = read.reshape((batch, self.groups, columns // self.groups, count))
            taps.append(left.op(nn.MatmulOp, right, transpose_b=True).sum([0]))
        shape = (rows, columns // self.groups, 1)
        return concat([tap.reshape(shape) for tap in taps], 2).reshape((*shape[:2], *kernel))

    def _framed(self, image: Value, kernel: Sequence[Size], windows: Sequence[Size]) -> Value:
        """Emit an image with padding, so that all windows lie inside."""
        low = self.pads[: image.rank - 2]
        columns = zip(self._ends(kernel, windows), image.shape[2:], low, strict=True)
        high = (max(0, rest) for rest in known_all(end - n - p for end, n, p in columns))
        return image.pad([0, 0, *low], [0, 0, *high])


def has_kernel_gradient(w: Value) -> bool:
    """Return whether a kernel is small enough for its gradient to be computed."""
    return math.prod(known_all(w.shape[2:])) <= MOST_TAPS


def of_bias(gradient: Value) -> Value:
    """Emit the gradient with respect to a bias: the sums over all dimensions except the
    channels."""
    return gradient.sum([0, *range(2, gradient.rank)])
