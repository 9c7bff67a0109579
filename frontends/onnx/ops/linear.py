"""Converters of matrix products and convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tessella.dialects import nn
from tessella.frontends import loops
from tessella.frontends.emitter import Value, Values, product, where
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.windows import check_length, kernel_of, window
from tessella.frontends.onnx.registry import converts
from tessella.frontends.shapes import split_padding
from tessella.support.decisions import decided_max
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size


@converts("MatMul", 1, 13, complex=True)
def matmul(call: Call) -> Value:
    """Emit a matrix product. A vector on the left is a row, on the right a column."""
    return product(call.operand(0), call.operand(1))


@converts("Gemm", 1, 13, complex=True)
def gemm(call: Call) -> Value:
    """Emit alpha * A' * B' + beta * C, without a multiplication by a factor of 1."""
    a, b, c = call.operand(0), call.operand(1), call.optional(2)
    alpha, beta = call.number("alpha"), call.number("beta")
    if call.flag("transA"):
        a = a.transpose((1, 0))
    for matrix in (a, b):
        if matrix.rank != 2:
            raise ShapeError("Gemm takes matrices", found=str(matrix.type))
    y = a.op(nn.MatmulOp, b, transpose_b=call.flag("transB"))
    if y.is_float or y.is_complex or (alpha.is_integer() and beta.is_integer()):
        return _sum(y, alpha, c, beta)
    wide = None if c is None else c.cast(np.float64)
    return _sum(y.cast(np.float64), alpha, wide, beta).cast(y.dtype)


def _sum(y: Value, alpha: float, c: Value | None, beta: float) -> Value:
    """Emit ``alpha * y + beta * c`` in the shape of ``y``. Raises ShapeError if ``c`` does not
    broadcast to it."""
    y = _scaled(y, alpha)
    if c is None or beta == 0:
        return y
    result = y + _scaled(c, beta)
    if result.shape != y.shape:
        raise ShapeError("C does not broadcast to A * B", found=str(c.type), expected=str(y.type))
    return result


def _scaled(x: Value, factor: float) -> Value:
    return x if factor == 1 else x * factor


@converts("Conv", 1, 22, complex=True)
def conv(call: Call) -> Value:
    """Emit a convolution with any number of spatial dimensions."""
    return convolution(call, call.operand(0), call.operand(1), call.optional(2))


def convolution(call: Call, x: Value, w: Value, bias: Value | None) -> Value:
    """Emit a convolution of ``x`` with ``w``, with strides, padding, dilations and groups from the
    node's attributes."""
    _check_ranks(x, w)
    kernel = kernel_of(call, w)
    settings = window(call, kernel, x.shape[2:])
    return x.op(
        nn.ConvOp,
        w,
        bias,
        strides=settings.strides,
        pads=settings.pads,
        dilations=settings.dilations,
        groups=call.integer("group"),
    )


def _check_ranks(x: Value, w: Value) -> None:
    if x.rank != w.rank or x.rank < 3:
        raise ShapeError(
            "a convolution of the wrong rank",
            expected="x[N, C, spatial..] and a weight of the same rank",
            found=f"{x.type} and {w.type}",
        )


@converts("ConvTranspose", 1, 22, complex=True)
def conv_transpose(call: Call) -> Value:
    """Emit a transposed convolution. Either the padding determines the output's size, or the given
    output size determines the padding."""
    x, w = call.operand(0), call.operand(1)
    _check_ranks(x, w)
    kernel, sizes = kernel_of(call, w), x.shape[2:]
    settings = window(call, kernel, sizes)
    extra = call.integers("output_padding") or (0,) * len(sizes)
    check_length("output_padding", extra, len(sizes))
    pads, mode = settings.pads, call.text("auto_pad", "NOTSET")
    wanted: Sequence[Size] | None = call.integers("output_shape")
    if wanted is None and mode.startswith("SAME"):
        wanted = tuple(n * s for n, s in zip(sizes, settings.strides, strict=True))
    if wanted is not None:
        wanted = wanted[-len(sizes) :]
        check_length("output_shape", wanted, len(sizes))
        columns = zip(
            sizes, kernel, settings.strides, settings.dilations, extra, wanted, strict=True
        )
        totals = [
            (n - 1) * stride + more + (k - 1) * dilation + 1 - size
            for n, k, stride, dilation, more, size in columns
        ]
        # if `auto_pad` is not given, an odd total pads one more element before the data than after
        # it
        surplus = [decided_max(t, 0) for t in totals]
        pads = split_padding(surplus, more_before=mode != "SAME_UPPER")
        extra = tuple(e + decided_max(-t, 0) for e, t in zip(extra, totals, strict=True))
    return x.op(
        nn.ConvTransposeOp,
        w,
        call.optional(2),
        strides=settings.strides,
        pads=pads,
        dilations=settings.dilations,
        output_pads=extra,
        groups=call.integer("group"),
    )


@converts("Det", 11, 22)
def det(call: Call) -> Value:
    """Emit the determinants of square matrices, by elimination with a pivot for each column.
    A matrix without elements has the determinant 1."""
    x = call.x
    *batch, height, width = x.shape if x.rank > 1 else (*x.shape, 0, 1)
    if height != width:
        raise ShapeError("Det takes square matrices", expected="[.., n, n]", found=str(x.type))
    if height == 0:
        return call.build.splat(1, batch, x.dtype)
    matrices = x.reshape((math.prod(batch), height, width))

    def step(state: Values, numbers: Values) -> tuple[Values, Values]:
        a, product = state
        number = numbers[0]
        # in the step, where they become constants if the size is a number
        rows, columns = (call.positions(height, axis, 3) for axis in (1, 2))
        column = where(columns.equals(number), a, 0).sum([2], keepdims=True)
        size = where(rows < number, -1, abs(column))
        pivot = size.op(nn.ArgMaxOp, axis=1, keepdims=True, select_last_index=False)
        is_pivot, is_first = rows.equals(pivot), rows.equals(number)
        picked, first, value = (
            where(chosen, of, 0).sum([1], keepdims=True)
            for chosen, of in ((is_pivot, a), (is_first, a), (is_pivot, column))
        )
        swapped = where(is_first, picked, where(is_pivot, first, a))
        below = where(columns.equals(number), swapped, 0).sum([2], keepdims=True)
        # a column of zeros leaves the product 0, whatever follows
        factor = where((rows > number) & ~value.equals(0), below / value, 0)
        product = product * where(pivot.equals(number), value, -value)
        return [swapped - factor * picked, product], ()

    first = [matrices, call.build.splat(1, (matrices.shape[0], 1, 1), x.dtype)]
    _, product = loops.scan(call.build, "det_step", first, [call.positions(height, 0, 1)], step)
    return product.reshape(batch)
