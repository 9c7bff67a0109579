"""Converters of quantized ops, which compute in the integers and floats that the ONNX definitions
name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import Value, product
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.casts import converted
from tessella.frontends.onnx.model import DTYPES, Node
from tessella.frontends.onnx.ops.linear import convolution
from tessella.frontends.onnx.registry import Rule, converts
from tessella.frontends.onnx.tensors import element_name
from tessella.runtime.elements import computing, element_of
from tessella.runtime.host.values import limits_of
from tessella.support.conditions import always
from tessella.support.decisions import known
from tessella.support.errors import InvalidModelError, ShapeError
from tessella.support.sizes import Size

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


def _block_size(call: Call) -> int:
    block = call.integer("block_size", 0)
    if block < 0:
        raise InvalidModelError(
            "attribute 'block_size' is negative", expected=">= 0", found=str(block)
        )
    return block


def _along(call: Call, value: Value, x: Value) -> Value:
    """Return a scale or zero point in a shape that broadcasts to ``x``: one number per tensor, per
    index of an axis, or per block."""
    if not value.rank or value.shape == (1,):
        call.meaningless("axis", "block_size")
        return value.reshape(())
    axis = call.axis(x)
    if block := _block_size(call):
        [count] = call.build.limited(x.shape[axis])
        indices = np.minimum(np.arange(count) // block, known(value.shape[axis]) - 1)
        return value.gather(call.constant(indices.astype(np.int64)), axis)
    if value.shape != (x.shape[axis],):
        raise ShapeError(
            "a scale or zero point does not fit the axis",
            expected=f"{x.shape[axis]} elements",
            found=str(value.type),
        )
    return _by_dimension(value, axis, x.rank)


def _broadcasting(call: Call) -> tuple[Value, Value, Value | None]:
    """Return the operand, the scale and the zero point in shapes that broadcast.

    If whole blocks have parameters, the axis becomes a dimension of blocks and one inside them.
    """
    x, scale, zero = call.x, call.operand(1), call.optional(2)
    block = _block_size(call)
    # the axis of a scale of one number may be out of range
    axis = call.axis(x) if block and scale.rank == x.rank else None
    if axis is not None and always(x.shape[axis] == scale.shape[axis] * block):
        return in_blocks(x, scale, zero, axis)
    return x, _along(call, scale, x), None if zero is None else _along(call, zero, x)


def in_blocks(
    x: Value, scale: Value, zero: Value | None, axis: int
) -> tuple[Value, Value, Value | None]:
    """Return an operand with a dimension of blocks and one inside them in place of an axis, and the
    parameters of its blocks in shapes that broadcast to it. All blocks are whole."""

    def divided(value: Value, *sizes: Size) -> Value:
        return value.reshape((*value.shape[:axis], *sizes, *value.shape[axis + 1 :]))

    count = scale.shape[axis]
    point = None if zero is None else divided(zero, count, 1)
    return divided(x, count, x.shape[axis] // count), divided(scale, count, 1), point


def _by_dimension(value: Value, axis: int, rank: int) -> Value:
    """Return a scale or zero point in a shape that broadcasts to a tensor of rank ``rank``: one
    number, or one for each index of dimension ``axis``."""
    if not value.rank or value.shape == (1,):
        return value.reshape(())
    if value.rank != 1:
        return value
    return value.reshape([value.shape[0] if d == axis % rank else 1 for d in range(rank)])


def _shifted(x: Value, zero: Value | None) -> Value:
    """Emit ``x`` minus its zero point, as int32."""
    wide = x.cast(np.int32)
    return wide if zero is None else wide - zero.cast(np.int32)


@converts("DequantizeLinear", 10, 28, _TYPES)
def dequantize(call: Call) -> Value:
    """Emit (x - zero point) * scale."""
    x, scale, zero = _broadcasting(call)
    code, wide = call.attribute("output_dtype"), scale.cast(_wide(scale.dtype))
    if x.is_float:
        y = x.cast(wide.dtype) * wide
    else:
        y = x.op(nn.DequantizeOp, wide, x.like(0) if zero is None else zero)
    return y.cast(DTYPES[element_name(code)] if code else scale.dtype).reshape(call.x.shape)


def _wide(dtype: DType) -> DType:
    """Return float32 for float16 and bfloat16, which would round sums of integers, and other types
    unchanged."""
    return dtype if dtype.name in ("float32", "float64") else np.dtype(np.float32)


@converts("QuantizeLinear", 10, 28, _TYPES, _DIVISION)
def quantize(call: Call) -> Value:
    """Emit x / scale, rounded, shifted by the zero point and saturated to the result's type.

    The division is computed in the type of the attribute `precision`, or in the scale's type.
    Results that are floats are rounded once, by the conversion to their type.
    """
    zero, code = call.optional(2), call.attribute("output_dtype")
    dtype: DType = np.dtype(np.uint8)
    if zero is not None:
        dtype = zero.dtype
    elif code:
        dtype = DTYPES[element_name(code)]
    scale = _along(call, call.operand(1), call.x)
    precision = _division(call, scale)
    x, scale = call.x.cast(precision), scale.cast(precision)
    point = None if zero is None else _along(call, zero, call.x)
    element = element_of(dtype)
    if element is not None and element.is_float:
        wide = (x / scale).cast(_wide(x.dtype))
        return converted(call, wide if point is None else wide + point.cast(wide.dtype), dtype)
    call.meaningless("saturate")  # numbers beyond an integer type's range always saturate
    return _quantized(x, scale, point, dtype)


def _division(call: Call, scale: Value) -> DType:
    """Return the type in which an operand is divided by its scale."""
    code = call.attribute("precision")
    if code:
        return DTYPES[element_name(code)]
    return scale.dtype if scale.is_float else np.dtype(np.float32)


def _quantized(x: Value, scale: Value, zero: Value | None, dtype: DType) -> Value:
    element = element_of(dtype)
    if element is not None and element.bits < 8:
        # bytes have native code, and saturate to the smaller range without another rounding
        wide, (low, high) = computing(element), limits_of(element)
        y = _quantized(x, scale, None if zero is None else zero.cast(wide), wide)
        return y.op(nn.ClipOp, low=float(low), high=float(high)).cast(dtype)
    wide = _wide(x.dtype)
    if x.dtype != wide:
        # The quotient is rounded to its type, but the sum with the zero point is not. The cast
        # rounds to that type even if operations in it are computed in a wider one.
        x = (x.cast(wide) / scale.cast(wide)).cast(x.dtype).cast(wide)
        scale = x.emitter.scalar(1.0, wide)
    if dtype.name in _QUANTIZED:
        point = x.emitter.scalar(0, dtype) if zero is None else zero
        return x.op(nn.QuantizeOp, scale, point)
    whole = (x / scale).op(nn.RoundOp)
    return (whole if zero is None else whole + zero.cast(wide)).cast(dtype)


_QUANTIZED = ("int8", "uint8", "int16", "uint16")


@converts("DynamicQuantizeLinear", 11, 11)
def dynamic_quantize(call: Call) -> Sequence[Value]:
    """Emit x as uint8, quantized by the range of its values (and 0), with the scale and the zero
    point."""
    x = call.x
    axes = range(x.rank)
    low = x.op(nn.ReduceMinOp, axes=tuple(axes), keepdims=False).op(nn.MinOp, x.like(0.0))
    high = x.max(tuple(axes)).op(nn.MaxOp, x.like(0.0))
    scale = (high - low) / 255.0
    none = x.emitter.scalar(0, np.uint8)
    zero = (-low).op(nn.QuantizeOp, scale, none)
    return x.op(nn.QuantizeOp, scale, zero), scale, zero


@converts("MatMulInteger", 10, 10)
def matmul_integer(call: Call) -> Value:
    """Emit a matrix product in int32. Zero points are scalars, or one per row of A and column
    of B."""
    a, b = _zeroed(call, 0, 2, -2), _zeroed(call, 1, 3, -1)
    return product(a, b)


@converts("ConvInteger", 10, 10)
def conv_integer(call: Call) -> Value:
    """Emit a convolution in int32. Padding equals the zero point, so it counts as 0."""
    x, w = _zeroed(call, 0, 2, 0), _zeroed(call, 1, 3, 0)
    return convolution(call, x, w, None)


def _zeroed(call: Call, index: int, zero: int, axis: int) -> Value:
    """Emit the operand at ``index`` as int32 minus its zero point, the operand at ``zero``, if
    given: a scalar, or one for each index of dimension ``axis``."""
    x, point = call.operand(index), call.optional(zero)
    return _shifted(x, None if point is None else _by_dimension(point, axis, x.rank))


@converts("QLinearMatMul", 10, 21)
def qlinear_matmul(call: Call) -> Value:
    """Emit a matrix product in int32, scaled and quantized to the result's type."""
    scales = [
        _by_dimension(call.operand(scale), axis, call.operand(index).rank)
        for index, scale, axis in ((0, 1, -2), (3, 4, -1))
    ]
    total = product(_zeroed(call, 0, 2, -2), _zeroed(call, 3, 5, -1))
    return _requantized(total, (*scales, call.operand(6)), call.operand(7))


def _requantized(total: Value, scales: Sequence[Value], zero: Value) -> Value:
    left, right, out = (scale.cast(np.float32) for scale in scales)
    y = total.cast(np.float32) * (left * right / _scalar(out))
    return _quantized(y, y.like(1.0), _scalar(zero), zero.dtype)


def _scalar(value: Value) -> Value:
    return value.reshape(()) if value.shape == (1,) else value


@converts("QLinearConv", 10, 10)
def qlinear_conv(call: Call) -> Value:
    """Emit a convolution in int32, scaled and quantized to the result's type. Weights may have a
    scale for each output channel."""
    x, w = _shifted(call.x, _scalar(call.operand(2))), _zeroed(call, 3, 5, 0)
    total = convolution(call, x, w, call.optional(8))
    w_scale = _by_dimension(call.operand(4), 1, call.x.rank)
    scales = (_scalar(call.operand(1)), w_scale, call.operand(6))
    return _requantized(total, scales, call.operand(7))
