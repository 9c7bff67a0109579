"""Converters of matrix products and convolutions, and of their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product as combinations

from tessella.dialects import nn
from tessella.frontends.emitter import Emitter, Value, concat, product
from tessella.frontends.torch.promote import Operand, lifted
from tessella.frontends.torch.registry import aten, refuse
from tessella.support.decisions import known_all
from tessella.support.sizes import Size

MOST_TAPS = 128
"""Limit on the elements of a kernel whose gradient is computed: each takes a matrix product."""


def _times(x: Value, factor: Operand) -> Value:
    return x if factor == 1 else x * lifted(x.emitter, factor, x.dtype)


@aten("mm", "bmm", "mv", "dot")
def mm(emit: Emitter, a: Value, b: Value) -> Value:
    return product(a, b)


@aten("addmm", "baddbmm", "addmv")
def addmm(
    emit: Emitter, bias: Value, a: Value, b: Value, *, beta: Operand = 1, alpha: Operand = 1
) -> Value:
    y = _times(product(a, b), alpha)
    return y if beta == 0 else y + _times(bias, beta)


def _each(values: Sequence[int], rank: int) -> list[int]:
    """Return a setting for each spatial dimension: one number stands for all."""
    return [*values] * (rank if len(values) == 1 else 1)


@aten("convolution")
def convolution(
    emit: Emitter,
    x: Value,
    w: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Value:
    rank = x.rank - 2
    window = {
        "strides": tuple(_each(stride, rank)),
        "pads": tuple(_each(padding, rank) * 2),
        "dilations": tuple(_each(dilation, rank)),
        "groups": groups,
    }
    if not transposed:
        return x.op(nn.ConvOp, w, bias, **window)
    more = tuple(_each(output_padding, rank))
    return x.op(nn.ConvTransposeOp, w, bias, output_pads=more, **window)


@aten("convolution_backward", note=f"kernels of at most {MOST_TAPS} elements")
def convolution_backward(
    emit: Emitter,
    grad: Value,
    x: Value,
    w: Value,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> list[Value | None]:
    rank = x.rank - 2
    strides, pads, spread = (_each(setting, rank) for setting in (stride, padding, dilation))
    found: list[Value | None] = [None] * 3
    if output_mask[0]:
        more = [0] * rank if transposed else _left_over(x, grad, w, strides, pads, spread)
        y = convolution(emit, grad, w, None, strides, pads, spread, not transposed, more, groups)
        # the output padding of a transposed convolution may make room for more windows
        found[0] = y.slice([0] * x.rank, x.shape)
    if output_mask[1]:
        image, small = (grad, x) if transposed else (x, grad)
        found[1] = _of_kernel(image, small, known_all(w.shape[2:]), strides, pads, spread, groups)
    if output_mask[2]:
        found[2] = grad.sum([0, *range(2, grad.rank)])
    return found


def _left_over(
    x: Value, grad: Value, w: Value, stride: list[int], padding: list[int], dilation: list[int]
) -> list[int]:
    """Return the elements at the end of each dimension that no window reads."""
    columns = zip(x.shape[2:], grad.shape[2:], w.shape[2:], stride, padding, dilation, strict=True)
    return [*known_all(n + 2 * p - (m - 1) * s - (k - 1) * d - 1 for n, m, k, s, p, d in columns)]


def _of_kernel(
    image: Value,
    small: Value,
    kernel: Sequence[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> Value:
    """Emit the gradient of a kernel [O, I / groups, kernel..]: for each of its elements, the
    product of ``small`` [N, O, windows..] and the elements of ``image`` [N, I, spatial..] that the
    windows read there."""
    if math.prod(kernel) > MOST_TAPS:
        raise refuse("the gradient of a large kernel", kernel)
    (batch, rows), windows = small.shape[:2], small.shape[2:]
    columns, count = image.shape[1], math.prod(windows)
    left = small.reshape((batch, groups, rows // groups, count))
    pads = [0, 0, *padding]
    framed = image.pad(pads, [0, 0, *_after(image, windows, kernel, stride, padding, dilation)])
    taps: list[Value] = []
    for tap in combinations(*map(range, kernel)):
        starts: list[Size] = [0, 0, *(i * d for i, d in zip(tap, dilation, strict=True))]
        read = framed.slice(starts, (batch, columns, *windows), [1, 1, *stride])
        right = read.reshape((batch, groups, columns // groups, count))
        taps.append(left.op(nn.MatmulOp, right, transpose_b=True).sum([0]))
    shape = (rows, columns // groups, 1)
    return concat([tap.reshape(shape) for tap in taps], 2).reshape((*shape[:2], *kernel))


def _after(
    image: Value,
    windows: Sequence[Size],
    kernel: Sequence[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
) -> list[Size]:
    """Return the padding after each dimension with which all windows lie inside."""
    columns = zip(image.shape[2:], windows, kernel, stride, padding, dilation, strict=True)
    rests = ((m - 1) * s + (k - 1) * d + 1 - n - p for n, m, k, s, p, d in columns)
    return [max(0, rest) for rest in known_all(rests)]
