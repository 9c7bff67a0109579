"""Converters of products and convolutions with an activation, scaled or transposed operands, or
channels-last images."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tessella.dialects import nn
from tessella.frontends.emitter import Value, product
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.activations import Activation, activation
from tessella.frontends.onnx.ops.contributed.channels import channels_first
from tessella.frontends.onnx.ops.elementwise import swish_of
from tessella.frontends.onnx.ops.linear import convolution, gemm
from tessella.frontends.onnx.registry import contributed
from tessella.support.errors import ShapeError

# ** products **


@contributed("FusedMatMul", alpha=1.0)
def fused_matmul(call: Call) -> Value:
    """Emit alpha * A' * B', where batch dimensions and matrices may be transposed."""
    a, b = _batches(call, 0, "A"), _batches(call, 1, "B")
    alpha, turned = call.number("alpha"), call.flag("transB") and b.rank > 1
    if call.flag("transA") and a.rank > 1:
        a = _turned(a)
    if turned and a.rank > 1:
        y = a.op(nn.MatmulOp, b, transpose_b=True)
    else:
        y = product(a, _turned(b) if turned else b)
    return y if alpha == 1 else y * alpha


contributed("TransposeMatMul", alpha=1.0)(fused_matmul)


def _batches(call: Call, index: int, letter: str) -> Value:
    """Return an operand with the batch dimensions first. If the attribute says so, they follow the
    first dimension of the matrix in the node."""
    x = call.operand(index)
    is_apart = call.flag(f"transBatch{letter}") and x.rank > 2
    return x.transpose((*range(1, x.rank - 1), 0, x.rank - 1)) if is_apart else x


def _turned(x: Value) -> Value:
    """Emit a transpose of matrices."""
    return x.transpose((*range(x.rank - 2), x.rank - 1, x.rank - 2))


@contributed("FusedMatMulActivation", alpha=1.0)
def fused_matmul_activation(call: Call) -> Value:
    """Emit FusedMatMul, then an activation function."""
    return _activated_by_names(call, fused_matmul(call))


@contributed("FusedGemm", alpha=1.0, beta=1.0)
def fused_gemm(call: Call) -> Value:
    """Emit Gemm, then an activation function."""
    return _activated_by_names(call, gemm(call))


@contributed("GemmFastGelu")
def gemm_fast_gelu(call: Call) -> Value:
    """Emit the tanh approximation of GELU of a product plus a bias."""
    y, bias = product(call.x, call.operand(1)), call.optional(2)
    return (y if bias is None else y + bias).op(nn.GeluTanhOp)


def _activated_by_names(call: Call, y: Value) -> Value:
    """Emit the activation function of the node, with parameters in attributes of their own."""
    name = call.text("activation", "")
    if not name:
        return y

    def take(parameter: str, default: float) -> float:
        return call.number(f"activation_{parameter}", default)

    return activation(call, name, take)(y)


# ** convolutions **


@contributed("FusedConv", group=1)
def fused_conv(call: Call) -> Value:
    """Emit a convolution, then the sum with a residual, then an activation function."""
    y, residual = convolution(call, call.x, call.operand(1), call.optional(2)), call.optional(3)
    return _activated(call, y if residual is None else y + residual)


@contributed("NhwcConv", group=1)
def nhwc_conv(call: Call) -> Value:
    """Emit a convolution of channels-last images; weights are those of ONNX's Conv."""
    w, bias = call.operand(1), call.optional(2)
    return channels_first(call.x, lambda x: convolution(call, x, w, bias))


@contributed("NhwcFusedConv", group=1)
def nhwc_fused_conv(call: Call) -> Value:
    """Emit FusedConv of channels-last images; weights are those of ONNX's Conv."""
    y, residual = nhwc_conv(call), call.optional(3)
    return _activated(call, y if residual is None else y + residual)


def _activated(call: Call, y: Value) -> Value:
    """Emit the activation function of the node, with parameters in one list. Raises ShapeError if
    the list does not have the parameters of the function."""
    name, given = call.text("activation", ""), list(call.numbers("activation_params") or ())
    if not name:
        return y

    def take(parameter: str, default: float | None) -> float:
        if not given and default is None:
            raise _wrong_parameters(name, "short")
        return given.pop(0) if given or default is None else default

    own = _OF_CONVOLUTIONS.get(name)
    function = own(take) if own else activation(call, name, take)
    if given:
        raise _wrong_parameters(name, "long")
    return function(y)


def _wrong_parameters(name: str, kind: str) -> ShapeError:
    return ShapeError(
        f"attribute 'activation_params' is too {kind}", expected=f"the parameters of {name}"
    )


_Take = Callable[[str, float | None], float]
"""A function that takes the next parameter of the list, or else the default."""


def _clip(take: _Take) -> Activation:
    low, high = take("min", None), take("max", None)
    return lambda y: y.op(nn.ClipOp, low=low, high=high)


def _swish(take: _Take) -> Activation:
    alpha = take("alpha", 1.0)
    return lambda y: swish_of(y, alpha)


_OF_CONVOLUTIONS: Mapping[str, Callable[[_Take], Activation]] = {
    "Clip": _clip,
    "HardSwish": lambda _: lambda y: y.op(nn.HardSwishOp),
    "Silu": _swish,
    "Swish": _swish,
}
"""Activation functions that only convolutions have: each takes its parameters from the list."""
