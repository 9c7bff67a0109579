"""Elementwise ops: unary, binary with NumPy broadcasting, comparisons, `where` and `cast`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import Float64Type, FloatAttr, TensorType
from xdsl.ir import TypeAttribute
from xdsl.irdl import base, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Commutative, Pure

from tessella.dialects.nn.checks import BOOL, check_float, check_number, check_same_element
from tessella.dialects.nn.core import (
    Defaults,
    NnOp,
    Tensor,
    broadcast_shapes,
    dtype_of,
    shape_of,
    tensor,
    tensor_type,
)
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size


class ElementwiseOp(NnOp):
    """An op whose every result element depends on one element of each (broadcast) operand."""

    res = result_def(base(TensorType))
    traits = traits_def(Pure())

    def shape(self) -> tuple[Size, ...]:
        """The broadcast of the operands' shapes."""
        return broadcast_shapes([shape_of(x) for x in self.operands])


class UnaryOp(ElementwiseOp):
    """One operand; the result has its type."""

    x = operand_def(base(TensorType))

    def infer(self) -> Sequence[Tensor]:
        check_number(self, self.x)
        x = tensor_type(self.x)
        return [tensor(x.element_type, shape_of(x))]


class FloatUnaryOp(UnaryOp):
    """One operand, which is floating-point."""

    def infer(self) -> Sequence[Tensor]:
        check_float(self, self.x)
        return super().infer()


class BinaryOp(ElementwiseOp):
    """Two operands, numbers of one element type; the result has it too."""

    lhs = operand_def(base(TensorType))
    rhs = operand_def(base(TensorType))

    def infer(self) -> Sequence[Tensor]:
        check_same_element(self)
        check_number(self, self.lhs)
        return [tensor(tensor_type(self.lhs).element_type, self.shape())]


class CompareOp(BinaryOp):
    """A comparison: the result's elements are booleans."""

    def infer(self) -> Sequence[Tensor]:
        check_same_element(self)
        return [tensor(BOOL, self.shape())]


class LogicalOp(BinaryOp):
    """Booleans to booleans."""

    def infer(self) -> Sequence[Tensor]:
        types = [tensor_type(x).element_type for x in self.operands]
        if any(t != BOOL for t in types):
            raise ShapeError(f"{self.name} takes booleans", found=" and ".join(map(str, types)))
        return [tensor(BOOL, self.shape())]


@irdl_op_definition
class AbsOp(UnaryOp):
    """Elementwise absolute value."""

    name = "nn.abs"


@irdl_op_definition
class NegOp(UnaryOp):
    """Elementwise negation."""

    name = "nn.neg"


@irdl_op_definition
class SignOp(UnaryOp):
    """Elementwise sign: -1, 0 or 1."""

    name = "nn.sign"


@irdl_op_definition
class ReluOp(UnaryOp):
    """Elementwise max(x, 0)."""

    name = "nn.relu"


@irdl_op_definition
class ExpOp(FloatUnaryOp):
    """Elementwise e^x."""

    name = "nn.exp"


@irdl_op_definition
class LogOp(FloatUnaryOp):
    """Elementwise natural logarithm."""

    name = "nn.log"


@irdl_op_definition
class Log2Op(FloatUnaryOp):
    """Elementwise logarithm to the base 2."""

    name = "nn.log2"


@irdl_op_definition
class Log10Op(FloatUnaryOp):
    """Elementwise logarithm to the base 10."""

    name = "nn.log10"


@irdl_op_definition
class SqrtOp(FloatUnaryOp):
    """Elementwise square root."""

    name = "nn.sqrt"


@irdl_op_definition
class ReciprocalOp(FloatUnaryOp):
    """Elementwise 1 / x."""

    name = "nn.reciprocal"


@irdl_op_definition
class FloorOp(FloatUnaryOp):
    """Elementwise rounding down."""

    name = "nn.floor"


@irdl_op_definition
class CeilOp(FloatUnaryOp):
    """Elementwise rounding up."""

    name = "nn.ceil"


@irdl_op_definition
class RoundOp(FloatUnaryOp):
    """Elementwise rounding to nearest, halves to even."""

    name = "nn.round"


@irdl_op_definition
class SinOp(FloatUnaryOp):
    """Elementwise sine."""

    name = "nn.sin"


@irdl_op_definition
class CosOp(FloatUnaryOp):
    """Elementwise cosine."""

    name = "nn.cos"


@irdl_op_definition
class TanOp(FloatUnaryOp):
    """Elementwise tangent."""

    name = "nn.tan"


@irdl_op_definition
class AsinOp(FloatUnaryOp):
    """Elementwise arc sine."""

    name = "nn.asin"


@irdl_op_definition
class AcosOp(FloatUnaryOp):
    """Elementwise arc cosine."""

    name = "nn.acos"


@irdl_op_definition
class AtanOp(FloatUnaryOp):
    """Elementwise arc tangent."""

    name = "nn.atan"


@irdl_op_definition
class SinhOp(FloatUnaryOp):
    """Elementwise hyperbolic sine."""

    name = "nn.sinh"


@irdl_op_definition
class CoshOp(FloatUnaryOp):
    """Elementwise hyperbolic cosine."""

    name = "nn.cosh"


@irdl_op_definition
class TanhOp(FloatUnaryOp):
    """Elementwise hyperbolic tangent."""

    name = "nn.tanh"


@irdl_op_definition
class AsinhOp(FloatUnaryOp):
    """Elementwise inverse hyperbolic sine."""

    name = "nn.asinh"


@irdl_op_definition
class AcoshOp(FloatUnaryOp):
    """Elementwise inverse hyperbolic cosine."""

    name = "nn.acosh"


@irdl_op_definition
class AtanhOp(FloatUnaryOp):
    """Elementwise inverse hyperbolic tangent."""

    name = "nn.atanh"


@irdl_op_definition
class ErfOp(FloatUnaryOp):
    """Elementwise error function."""

    name = "nn.erf"


@irdl_op_definition
class SigmoidOp(FloatUnaryOp):
    """Elementwise 1 / (1 + e^-x)."""

    name = "nn.sigmoid"


@irdl_op_definition
class SoftplusOp(FloatUnaryOp):
    """Elementwise log(1 + e^x)."""

    name = "nn.softplus"


@irdl_op_definition
class SoftsignOp(FloatUnaryOp):
    """Elementwise x / (1 + |x|)."""

    name = "nn.softsign"


@irdl_op_definition
class HardSwishOp(FloatUnaryOp):
    """Elementwise x * clip(x/6 + 1/2, 0, 1)."""

    name = "nn.hard_swish"


@irdl_op_definition
class SiluOp(FloatUnaryOp):
    """Elementwise x * sigmoid(x)."""

    name = "nn.silu"


@irdl_op_definition
class GeluOp(FloatUnaryOp):
    """Elementwise x/2 * (1 + erf(x / sqrt 2))."""

    name = "nn.gelu"


@irdl_op_definition
class GeluTanhOp(FloatUnaryOp):
    """Elementwise tanh approximation of gelu."""

    name = "nn.gelu_tanh"


@irdl_op_definition
class NotOp(UnaryOp):
    """Elementwise logical negation."""

    name = "nn.not"

    def infer(self) -> Sequence[Tensor]:
        if tensor_type(self.x).element_type != BOOL:
            raise ShapeError("nn.not takes booleans", found=str(self.x.type))
        return [tensor(BOOL, self.shape())]


@irdl_op_definition
class IsNanOp(FloatUnaryOp):
    """Elementwise: whether x is not a number."""

    name = "nn.is_nan"

    def infer(self) -> Sequence[Tensor]:
        return [tensor(BOOL, shape_of(super().infer()[0]))]


@irdl_op_definition
class IsInfOp(FloatUnaryOp):
    """Elementwise: whether x is an infinity."""

    name = "nn.is_inf"

    def infer(self) -> Sequence[Tensor]:
        return [tensor(BOOL, shape_of(super().infer()[0]))]


class AlphaOp(FloatUnaryOp):
    """A function with one parameter."""

    alpha = prop_def(FloatAttr[Float64Type])


class AlphaBetaOp(AlphaOp):
    """A function with two parameters."""

    beta = prop_def(FloatAttr[Float64Type])


@irdl_op_definition
class LeakyReluOp(AlphaOp):
    """Elementwise x where x >= 0, alpha * x below."""

    DEFAULTS: ClassVar[Defaults] = {"alpha": 0.01}
    name = "nn.leaky_relu"


@irdl_op_definition
class EluOp(AlphaOp):
    """Elementwise x where x >= 0, alpha * (e^x - 1) below."""

    DEFAULTS: ClassVar[Defaults] = {"alpha": 1.0}
    name = "nn.elu"


@irdl_op_definition
class CeluOp(AlphaOp):
    """Elementwise max(x, 0) + min(0, alpha * (e^(x / alpha) - 1))."""

    DEFAULTS: ClassVar[Defaults] = {"alpha": 1.0}
    name = "nn.celu"


@irdl_op_definition
class ThresholdedReluOp(AlphaOp):
    """Elementwise x where x > alpha, 0 elsewhere."""

    DEFAULTS: ClassVar[Defaults] = {"alpha": 1.0}
    name = "nn.thresholded_relu"


@irdl_op_definition
class HardSigmoidOp(AlphaBetaOp):
    """Elementwise clip(alpha * x + beta, 0, 1)."""

    DEFAULTS: ClassVar[Defaults] = {"alpha": 0.2, "beta": 0.5}
    name = "nn.hard_sigmoid"


@irdl_op_definition
class SeluOp(AlphaBetaOp):
    """Elementwise beta * (x where x > 0, alpha * (e^x - 1) below)."""

    DEFAULTS: ClassVar[Defaults] = {"alpha": 1.6732632423543772, "beta": 1.0507009873554805}
    name = "nn.selu"


@irdl_op_definition
class ClipOp(UnaryOp):
    """Elementwise min(max(x, low), high); the bounds may be infinite."""

    name = "nn.clip"
    DEFAULTS: ClassVar[Defaults] = {"low": -math.inf, "high": math.inf}
    low = prop_def(FloatAttr[Float64Type])
    high = prop_def(FloatAttr[Float64Type])


@irdl_op_definition
class AddOp(BinaryOp):
    """Elementwise lhs + rhs."""

    name = "nn.add"
    traits = traits_def(Commutative())


@irdl_op_definition
class SubOp(BinaryOp):
    """Elementwise lhs - rhs."""

    name = "nn.sub"


@irdl_op_definition
class MulOp(BinaryOp):
    """Elementwise lhs * rhs."""

    name = "nn.mul"
    traits = traits_def(Commutative())


@irdl_op_definition
class DivOp(BinaryOp):
    """Elementwise lhs / rhs; integers round towards zero."""

    name = "nn.div"


@irdl_op_definition
class PowOp(BinaryOp):
    """Elementwise lhs to the power of rhs."""

    name = "nn.pow"


@irdl_op_definition
class MinOp(BinaryOp):
    """Elementwise smaller of both; NaN if either is."""

    name = "nn.min"
    traits = traits_def(Commutative())


@irdl_op_definition
class MaxOp(BinaryOp):
    """Elementwise larger of both; NaN if either is."""

    name = "nn.max"
    traits = traits_def(Commutative())


@irdl_op_definition
class ModOp(BinaryOp):
    """Elementwise remainder with the sign of rhs."""

    name = "nn.mod"


@irdl_op_definition
class FmodOp(BinaryOp):
    """Elementwise remainder with the sign of lhs."""

    name = "nn.fmod"


@irdl_op_definition
class EqualOp(CompareOp):
    """Elementwise lhs == rhs."""

    name = "nn.equal"
    traits = traits_def(Commutative())


@irdl_op_definition
class LessOp(CompareOp):
    """Elementwise lhs < rhs."""

    name = "nn.less"


@irdl_op_definition
class LessEqualOp(CompareOp):
    """Elementwise lhs <= rhs."""

    name = "nn.less_equal"


@irdl_op_definition
class GreaterOp(CompareOp):
    """Elementwise lhs > rhs."""

    name = "nn.greater"


@irdl_op_definition
class GreaterEqualOp(CompareOp):
    """Elementwise lhs >= rhs."""

    name = "nn.greater_equal"


@irdl_op_definition
class AndOp(LogicalOp):
    """Elementwise logical and."""

    name = "nn.and"
    traits = traits_def(Commutative())


@irdl_op_definition
class OrOp(LogicalOp):
    """Elementwise logical or."""

    name = "nn.or"
    traits = traits_def(Commutative())


@irdl_op_definition
class XorOp(LogicalOp):
    """Elementwise logical exclusive or."""

    name = "nn.xor"
    traits = traits_def(Commutative())


@irdl_op_definition
class WhereOp(ElementwiseOp):
    """Elementwise: lhs where the condition holds, else rhs."""

    name = "nn.where"
    condition = operand_def(base(TensorType))
    lhs = operand_def(base(TensorType))
    rhs = operand_def(base(TensorType))

    def infer(self) -> Sequence[Tensor]:
        if tensor_type(self.condition).element_type != BOOL:
            raise ShapeError("nn.where takes a boolean condition", found=str(self.condition.type))
        check_same_element(self, (self.lhs, self.rhs))
        return [tensor(tensor_type(self.lhs).element_type, self.shape())]


@irdl_op_definition
class CastOp(ElementwiseOp):
    """Elementwise conversion to the element type `to`, as NumPy's `astype` converts."""

    name = "nn.cast"
    x = operand_def(base(TensorType))
    to = prop_def(TypeAttribute)

    def infer(self) -> Sequence[Tensor]:
        if isinstance(self.to, TensorType):
            raise ShapeError(
                "nn.cast converts to an element type", found=str(self.properties["to"])
            )
        dtype_of(self.to)
        return [tensor(self.to, self.shape())]
