"""Converters of matrix products and convolutions, and of their gradients."""

from __future__ import annotations

from collections.abc import Sequence

from tessella.dialects import nn
from tessella.frontends.convolution_gradients import (
    MOST_TAPS,
    WindowSettings,
    has_kernel_gradient,
    of_bias,
)
from tessella.frontends.emitter import Emitter, Value, product
from tessella.frontends.torch.promote import Operand, lifted
from tessella.frontends.torch.registry import aten, refuse


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


@aten("addbmm")
def addbmm(
    emit: Emitter, bias: Value, a: Value, b: Value, *, beta: Operand = 1, alpha: Operand = 1
) -> Value:
    y = _times(product(a, b).sum([0]), alpha)
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
    windows = WindowSettings(strides, pads * 2, spread, groups, transposed)
    found: list[Value | None] = [None] * 3
    if output_mask[0]:
        found[0] = windows.of_image(x, w, grad)
    if output_mask[1]:
        if not has_kernel_gradient(w):
            raise refuse("the gradient of a large kernel", w.shape[2:])
        found[1] = windows.of_kernel(x, w, grad)
    if output_mask[2]:
        found[2] = of_bias(grad)
    return found
