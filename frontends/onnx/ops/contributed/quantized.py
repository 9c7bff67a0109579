"""Converters of quantized ops of ONNX Runtime's own domain, ``com.microsoft``: an op on floats
between conversions.

    QLinearAdd a b  ->  quantize (add (dequantize a) (dequantize b))

Scales and zero points are scalars unless a converter says otherwise; a zero point that is left out
is 0.
"""

from __future__ import annotations

from tessella.dialects import nn
from tessella.frontends.emitter import Value, concat, product, where
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops import quantization
from tessella.frontends.onnx.ops.contributed.channels import Function, channels_first
from tessella.frontends.onnx.ops.contributed.elementwise import softmax_from
from tessella.frontends.onnx.ops.pooling import average_pool, global_average_pool, max_pool
from tessella.frontends.onnx.registry import contributed
from tessella.support.errors import ShapeError


def _scalar(value: Value) -> Value:
    """Return a per-tensor parameter as a scalar. Raises ShapeError for a per-channel one."""
    if value.shape not in ((), (1,)):
        raise ShapeError("a scale or zero point is not a scalar", found=str(value.type))
    return value.reshape(())


def _zero(call: Call, index: int, like: Value) -> Value:
    """Return the zero point at an operand index, or 0 in the type of ``like`` if it is absent."""
    found = call.optional(index)
    return like.like(0) if found is None else _scalar(found)


def _float(call: Call, first: int) -> Value:
    """Emit the dequantized operand at index ``first``; its scale and zero point are the next
    operands."""
    x = call.operand(first)
    scale = _scalar(call.operand(first + 1))
    return x.op(nn.DequantizeOp, scale, _zero(call, first + 2, x))


def _bytes(call: Call, y: Value, scale: int, like: Value) -> Value:
    """Emit the quantized result ``y``; ``scale`` is the index of the scale, which the zero point
    follows."""
    zero = _zero(call, scale + 1, like)
    return y.op(nn.QuantizeOp, _scalar(call.operand(scale)), zero)


# ** elementwise ops **


@contributed("QLinearAdd")
def qlinear_add(call: Call) -> Value:
    """Emit the quantized sum of two quantized tensors."""
    return _bytes(call, _float(call, 0) + _float(call, 3), 6, call.x)


@contributed("QLinearMul")
def qlinear_mul(call: Call) -> Value:
    """Emit the quantized elementwise product of two quantized tensors."""
    return _bytes(call, _float(call, 0) * _float(call, 3), 6, call.x)


@contributed("QLinearWhere")
def qlinear_where(call: Call) -> Value:
    """Emit a selection between the elements of two quantized tensors by a condition."""
    y = where(call.operand(0), _float(call, 1), _float(call, 4))
    return _bytes(call, y, 7, call.operand(1))


@contributed("QLinearSigmoid")
def qlinear_sigmoid(call: Call) -> Value:
    """Emit the quantized sigmoid 1 / (1 + e^-x) of a quantized tensor."""
    return _bytes(call, _float(call, 0).op(nn.SigmoidOp), 3, call.x)


@contributed("QLinearLeakyRelu", alpha=0.01)
def qlinear_leaky_relu(call: Call) -> Value:
    """Emit the quantized leaky ReLU of a quantized tensor: x, or alpha * x below 0."""
    y = _float(call, 0).op(nn.LeakyReluOp, alpha=call.number("alpha"))
    return _bytes(call, y, 3, call.x)


@contributed("QLinearSoftmax", axis=-1)
def qlinear_softmax(call: Call) -> Value:
    """Emit the quantized softmax along an axis; before op set 13, over all dimensions from the axis
    on."""
    x, axis = _float(call, 0), call.axis(call.x)
    is_along_axis = call.integer("opset") >= 13
    y = x.op(nn.SoftmaxOp, axis=axis) if is_along_axis else softmax_from(x, axis)
    return _bytes(call, y, 3, call.x)


@contributed("QLinearConcat")
def qlinear_concat(call: Call) -> Value:
    """Emit a concatenation of quantized tensors, each with its own scale and zero point."""
    first = call.operand(2)
    parts = [_float(call, i) for i in range(2, len(call.inputs), 3)]
    return _bytes(call, concat(parts, call.axis(first)), 0, first)


# ** pools and means **


def _of_images(call: Call, x: Value, function: Function) -> Value:
    """Apply a function of channels-first images to ``x``, which are channels-last images if the
    node says so."""
    return channels_first(x, function) if call.flag("channels_last") else function(x)


@contributed("QLinearAveragePool")
def qlinear_average_pool(call: Call) -> Value:
    """Emit quantized average pooling: the mean of each window."""
    y = _of_images(call, _float(call, 0), lambda x: average_pool(call.replaced({0: x})))
    return _bytes(call, y, 3, call.x)


@contributed("QLinearGlobalAveragePool")
def qlinear_global_average_pool(call: Call) -> Value:
    """Emit the quantized mean over the spatial dimensions."""
    y = _of_images(call, _float(call, 0), lambda x: global_average_pool(call.replaced({0: x})))
    return _bytes(call, y, 3, call.x)


@contributed("NhwcMaxPool", storage_order=0)
def nhwc_max_pool(call: Call) -> Value:
    """Emit max pooling of channels-last images."""
    return channels_first(call.x, lambda x: max_pool(call.replaced({0: x}))[0])


@contributed("QLinearReduceMean", keepdims=1)
def qlinear_reduce_mean(call: Call) -> Value:
    """Emit the quantized mean over the given axes, or over all axes."""
    x = _float(call, 0)
    axes = [axis % x.rank for axis in call.integers("axes") or range(x.rank)]
    return _bytes(call, x.mean(axes, keepdims=call.flag("keepdims")), 3, call.x)


# ** products **


@contributed("QLinearConv", group=1)
def qlinear_conv(call: Call) -> Value:
    """Emit a quantized convolution: ONNX's QLinearConv, with channels-last images if the attribute
    says so."""
    return _of_images(call, call.x, lambda x: quantization.qlinear_conv(call.replaced({0: x})))


@contributed("MatMulIntegerToFloat")
def matmul_integer_to_float(call: Call) -> Value:
    """Emit a product of quantized matrices as floats; B may have a scale and zero point per
    column."""
    return quantized_product(call, (0, 2, 4), (1, 3, 5), 6)


@contributed("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(call: Call) -> Value:
    """Emit a product of a matrix of floats, which is quantized by its range of values, and a
    quantized matrix."""
    x, scale, zero = quantization.dynamic_quantize(call)
    return _product(call, x.op(nn.DequantizeOp, scale, zero), (1, 2, 3), 4)


Indices = tuple[int, int, int]
"""The operand indices of a quantized tensor, its scale and its zero point."""


def quantized_product(call: Call, a: Indices, b: Indices, bias: int) -> Value:
    """Emit the product of two quantized matrices as floats, plus the bias at an operand index if
    there is one; ``b`` may have a scale and zero point per column."""
    x = call.operand(a[0])
    wide = x.op(nn.DequantizeOp, _scalar(call.operand(a[1])), _zero(call, a[2], x))
    return _product(call, wide, b, bias)


def _product(call: Call, a: Value, b: Indices, bias: int) -> Value:
    """Emit the product of ``a`` and a quantized matrix, plus the bias at an operand index if there
    is one."""
    matrix = call.operand(b[0])
    wide = matrix.op(nn.DequantizeOp, *_of_columns(call, matrix, b[1], b[2]))
    y, more = product(a, wide), call.optional(bias)
    return y if more is None else y + more


def _of_columns(call: Call, b: Value, scale: int, zero: int) -> tuple[Value, Value]:
    """Return the scale and zero point of a matrix, each a scalar or one number per column."""
    given = call.operand(scale), call.optional(zero)
    point = b.like(0) if given[1] is None else given[1]
    first, second = (v.reshape(()) if v.shape == (1,) else v for v in (given[0], point))
    return first, second


@contributed("QGemm", alpha=1.0)
def qgemm(call: Call) -> Value:
    """Emit alpha * A' * B' + C for quantized matrices, where C has the scale of the product. The
    result is quantized if its scale is given."""
    a, alpha = _float(call, 0), call.number("alpha")
    b, (scale, zero) = call.operand(3), _of_columns(call, call.operand(3), 4, 5)
    turned = call.flag("transB")
    if turned:
        scale, zero = (v.column() if v.rank else v for v in (scale, zero))
    wide = b.op(nn.DequantizeOp, scale, zero)
    if call.flag("transA"):
        a = a.transpose((1, 0))
    steps = _scalar(call.operand(1)) * call.operand(4)
    bias = call.optional(6)
    if bias is not None and bias.rank == 1 and alpha == 1:
        vector = bias.op(nn.DequantizeOp, steps.expand(bias.shape), bias.like(0))
        y = a.op(nn.FcOp, wide, vector, transpose_w=turned)
    else:
        y = a.op(nn.MatmulOp, wide, transpose_b=turned)
        y = y if alpha == 1 else y * alpha
        if bias is not None:
            y = y + bias.op(nn.DequantizeOp, steps * alpha, bias.like(0))
    if call.optional(7) is None:
        return y
    zero = call.operand(8) if call.optional(8) is not None else call.x.like(0)
    return y.op(nn.QuantizeOp, _scalar(call.operand(7)), _scalar(zero))


# ** conversions, also for types that ONNX's own ops supported later **

contributed("QuantizeLinear", axis=1)(quantization.quantize)
contributed("DequantizeLinear", axis=1)(quantization.dequantize)
