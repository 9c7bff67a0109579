"""Quantized ops, computed in the integers and floats that their definitions name."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import dtype_of, is_float, shape_of
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.model import DTYPES, Node
from tessella.frontends.onnx.ops.linear import convolution, product
from tessella.frontends.onnx.registry import Rule, converts
from tessella.frontends.onnx.tensors import element_name
from tessella.support.errors import ShapeError

DType = np.dtype[Any]


def _output_type(node: Node) -> str | None:
    code = node.attributes.get("output_dtype", 0)
    return f"type {element_name(code)} is not supported" if _foreign(code) else None


def _foreign(code: int) -> bool:
    return bool(code) and element_name(code) not in DTYPES


def _precision(node: Node) -> str | None:
    code = node.attributes.get("precision", 0)
    is_known = not code or element_name(code) in _PRECISIONS
    return None if is_known else f"a division in {element_name(code)} is not supported"


_PRECISIONS = ("float64", "float32", "float16", "bfloat16")
_TYPES = Rule("to types that tessella has", _output_type)
_DIVISION = Rule("divides in floating-point types", _precision)


def _along(call: Call, value: SSAValue, x: SSAValue) -> SSAValue:
    """A scale or zero point in the shape in which it broadcasts to x: one, by axis, or by block."""
    shape, size = shape_of(x), shape_of(value)
    if not size or size == (1,):
        return call.reshape(value, ())
    axis = front_axis(call.integer("axis"), len(shape))
    block = call.attribute("block_size") or 0
    if block:
        call.build.check_made(shape[axis])
        indices = np.minimum(np.arange(shape[axis]) // block, size[axis] - 1)
        return call.emit(nn.GatherOp, value, call.constant(indices.astype(np.int64)), axis=axis)
    if len(size) != 1 or size[0] != shape[axis]:
        raise ShapeError(
            "a scale or zero point does not fit the axis",
            expected=f"{shape[axis]} elements",
            found=str(value.type),
        )
    return call.reshape(value, [size[0] if d == axis else 1 for d in range(len(shape))])


def _shifted(call: Call, x: SSAValue, zero: SSAValue | None) -> SSAValue:
    """x as int32 less its zero point."""
    wide = call.cast(x, np.int32)
    return wide if zero is None else call.emit(nn.SubOp, wide, call.cast(zero, np.int32))


@converts("DequantizeLinear", 10, 28, _TYPES)
def dequantize(call: Call) -> SSAValue:
    """(x - zero point) * scale."""
    zero = call.optional(2)
    x = _shifted(call, call.x, None if zero is None else _along(call, zero, call.x))
    scale, code = _along(call, call.operand(1), call.x), call.attribute("output_dtype")
    dtype = dtype_of(scale.type)
    wide = _wide(dtype)
    y = call.emit(nn.MulOp, call.cast(x, wide), call.cast(scale, wide))
    return call.cast(y, DTYPES[element_name(code)] if code else dtype)


def _wide(dtype: DType) -> DType:
    """The type itself, or float32 for float16 and bfloat16, which round sums of integers."""
    return dtype if dtype.name in ("float32", "float64") else np.dtype(np.float32)


@converts("QuantizeLinear", 10, 28, _TYPES, _DIVISION)
def quantize(call: Call) -> SSAValue:
    """x / scale, rounded and shifted, within the range of the result's type. The division has the
    attribute `precision`, or the scale's type."""
    zero, code = call.optional(2), call.attribute("output_dtype")
    dtype: DType = np.dtype(np.uint8)
    if zero is not None:
        dtype = dtype_of(zero.type)
    elif code:
        dtype = DTYPES[element_name(code)]
    scale = _along(call, call.operand(1), call.x)
    precision = _division(call, scale)
    x = call.emit(nn.DivOp, call.cast(call.x, precision), call.cast(scale, precision))
    return _rounded(call, x, None if zero is None else _along(call, zero, call.x), dtype)


def _division(call: Call, scale: SSAValue) -> DType:
    """The type in which x is divided by its scale."""
    code = call.attribute("precision")
    if code:
        return DTYPES[element_name(code)]
    return dtype_of(scale.type) if is_float(scale.type) else np.dtype(np.float32)


def _rounded(call: Call, x: SSAValue, zero: SSAValue | None, dtype: DType) -> SSAValue:
    whole = call.emit(nn.RoundOp, x)
    if zero is not None:
        wide = _wide(dtype_of(whole.type))
        whole = call.emit(nn.AddOp, call.cast(whole, wide), call.cast(zero, wide))
    return call.cast(whole, dtype)


def _by_dimension(call: Call, value: SSAValue, axis: int, rank: int) -> SSAValue:
    """A scale or zero point: one element, or one for each index of a dimension."""
    size = shape_of(value)
    if not size or size == (1,):
        return call.reshape(value, ())
    if len(size) != 1:
        return value
    return call.reshape(value, [size[0] if d == axis % rank else 1 for d in range(rank)])


@converts("QLinearMatMul", 10, 21)
def qlinear_matmul(call: Call) -> SSAValue:
    """The product in int32, then scaled."""
    a, b = call.operand(0), call.operand(3)
    ranks = len(shape_of(a)), len(shape_of(b))
    (a_scale, a_zero), (b_scale, b_zero) = (
        [_by_dimension(call, call.operand(i), axis, rank) for i in pair]
        for pair, axis, rank in (((1, 2), -2, ranks[0]), ((4, 5), -1, ranks[1]))
    )
    total = product(call, _shifted(call, a, a_zero), _shifted(call, b, b_zero))
    return _requantized(call, total, (a_scale, b_scale, call.operand(6)), call.operand(7))


def _requantized(
    call: Call, total: SSAValue, scales: tuple[SSAValue, SSAValue, SSAValue], zero: SSAValue
) -> SSAValue:
    left, right, out = (call.cast(scale, np.float32) for scale in scales)
    scale = call.emit(nn.DivOp, call.emit(nn.MulOp, left, right), _scalar(call, out))
    scaled = call.emit(nn.MulOp, call.cast(total, np.float32), scale)
    return _rounded(call, scaled, _scalar(call, zero), dtype_of(zero.type))


def _scalar(call: Call, value: SSAValue) -> SSAValue:
    return call.reshape(value, ()) if shape_of(value) == (1,) else value


@converts("QLinearConv", 10, 10)
def qlinear_conv(call: Call) -> SSAValue:
    """The convolution in int32, then scaled; weights may have a scale for each output channel."""
    x, w = call.operand(0), call.operand(3)
    rank = len(shape_of(x))
    x = _shifted(call, x, _scalar(call, call.operand(2)))
    w = _shifted(call, w, _by_dimension(call, call.operand(5), 0, rank))
    total = convolution(call, x, w, call.optional(8))
    w_scale = _by_dimension(call, call.operand(4), 1, rank)
    scales = (_scalar(call, call.operand(1)), w_scale, call.operand(6))
    return _requantized(call, total, scales, call.operand(7))
