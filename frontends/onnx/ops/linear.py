"""Matrix products and convolutions."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import dtype_of, is_float, shape_of, tensor_type
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.windows import check_length, split_padding, window
from tessella.frontends.onnx.registry import converts
from tessella.support.errors import ShapeError


@converts("MatMul", 1, 13)
def matmul(call: Call) -> SSAValue:
    """A vector is a row on the left and a column on the right."""
    return product(call, call.operand(0), call.operand(1))


def product(call: Call, a: SSAValue, b: SSAValue) -> SSAValue:
    """NumPy's matmul of any ranks but 0."""
    left, right = shape_of(a), shape_of(b)
    if not left or not right:
        raise ShapeError("a matrix product of a scalar")
    if len(left) == 1:
        a = call.reshape(a, (1, *left))
    if len(right) == 1:
        b = call.reshape(b, (*right, 1))
    result = call.emit(nn.MatmulOp, a, b, transpose_b=False)
    shape = list(shape_of(result))
    if len(right) == 1:
        del shape[-1]
    if len(left) == 1:
        del shape[-1 if len(right) == 1 else -2]
    return call.reshape(result, shape)


@converts("Gemm", 1, 13)
def gemm(call: Call) -> SSAValue:
    """alpha * A' * B' + beta * C, where a factor that is 1 costs nothing."""
    a, b, c = call.operand(0), call.operand(1), call.optional(2)
    if call.flag("transA"):
        a = call.transpose(a, (1, 0))
    for matrix in (a, b):
        if len(shape_of(matrix)) != 2:
            raise ShapeError("Gemm takes matrices", found=str(matrix.type))
    y = call.emit(nn.MatmulOp, a, b, transpose_b=call.flag("transB"))
    alpha, beta = call.number("alpha"), call.number("beta")
    if is_float(tensor_type(y).element_type) or (alpha.is_integer() and beta.is_integer()):
        return _sum(call, y, alpha, c, beta)
    wide = None if c is None else call.cast(c, np.float64)
    return call.cast(_sum(call, call.cast(y, np.float64), alpha, wide, beta), dtype_of(y.type))


def _sum(call: Call, y: SSAValue, alpha: float, c: SSAValue | None, beta: float) -> SSAValue:
    """``alpha * y + beta * c``, which has the shape of y."""
    y = _scaled(call, y, alpha)
    if c is None or beta == 0:
        return y
    result = call.emit(nn.AddOp, y, _scaled(call, c, beta))
    if shape_of(result) != shape_of(y):
        raise ShapeError("C does not broadcast to A * B", found=str(c.type), expected=str(y.type))
    return result


def _scaled(call: Call, x: SSAValue, factor: float) -> SSAValue:
    return x if factor == 1 else call.emit(nn.MulOp, x, call.scalar(factor, x))


@converts("Conv", 1, 22)
def conv(call: Call) -> SSAValue:
    """Any number of spatial dimensions."""
    return convolution(call, call.operand(0), call.operand(1), call.optional(2))


def convolution(call: Call, x: SSAValue, w: SSAValue, bias: SSAValue | None) -> SSAValue:
    """A convolution with the node's attributes."""
    _check_ranks(x, w)
    kernel = shape_of(w)[2:]
    _check_kernel(call, kernel)
    settings = window(call, kernel, shape_of(x)[2:])
    return call.emit(
        nn.ConvOp,
        *filter(None, (x, w, bias)),
        strides=settings.strides,
        pads=settings.pads,
        dilations=settings.dilations,
        groups=call.integer("group"),
    )


def _check_ranks(x: SSAValue, w: SSAValue) -> None:
    if len(shape_of(x)) != len(shape_of(w)) or len(shape_of(x)) < 3:
        raise ShapeError(
            "a convolution of the wrong rank",
            expected="x[N, C, spatial..] and a weight of the same rank",
            found=f"{x.type} and {w.type}",
        )


def _check_kernel(call: Call, kernel: tuple[int, ...]) -> None:
    told = call.integers("kernel_shape")
    if told and told != kernel:
        raise ShapeError(
            "attribute 'kernel_shape' does not fit the weight",
            expected=str(list(kernel)),
            found=str(list(told)),
        )


@converts("ConvTranspose", 1, 22)
def conv_transpose(call: Call) -> SSAValue:
    """The output's size is told by padding, or the padding by the output's size."""
    x, w = call.operand(0), call.operand(1)
    _check_ranks(x, w)
    kernel, sizes = shape_of(w)[2:], shape_of(x)[2:]
    _check_kernel(call, kernel)
    settings = window(call, kernel, sizes)
    extra = call.integers("output_padding") or (0,) * len(sizes)
    check_length("output_padding", extra, len(sizes))
    pads, mode = settings.pads, call.text("auto_pad", "NOTSET")
    wanted = call.integers("output_shape")
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
        pads = split_padding(mode, [max(total, 0) for total in totals])
        extra = tuple(e + max(-t, 0) for e, t in zip(extra, totals, strict=True))
    return call.emit(
        nn.ConvTransposeOp,
        *filter(None, (x, w, call.optional(2))),
        strides=settings.strides,
        pads=pads,
        dilations=settings.dilations,
        output_pads=extra,
        groups=call.integer("group"),
    )


def _zeroed(call: Call, value: SSAValue, index: int, axis: int) -> SSAValue:
    """A quantized operand as int32 with its zero point, if given, at 0."""
    wide = call.cast(value, np.int32)
    zero = call.optional(index)
    if zero is None:
        return wide
    rank, size = len(shape_of(value)), shape_of(zero)
    if len(size) == 1 and rank > 1:
        zero = call.reshape(zero, [size[0] if d == axis % rank else 1 for d in range(rank)])
    return call.emit(nn.SubOp, wide, call.cast(zero, np.int32))


@converts("MatMulInteger", 10, 10)
def matmul_integer(call: Call) -> SSAValue:
    """In int32; a zero point for each row of A and column of B, or one for all."""
    a, b = _zeroed(call, call.operand(0), 2, -2), _zeroed(call, call.operand(1), 3, -1)
    return product(call, a, b)


@converts("ConvInteger", 10, 10)
def conv_integer(call: Call) -> SSAValue:
    """In int32; padding counts as the zero point, so as 0."""
    x, w = _zeroed(call, call.operand(0), 2, 0), _zeroed(call, call.operand(1), 3, 0)
    return convolution(call, x, w, None)
