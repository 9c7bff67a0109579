"""Elementwise ops.

A row of `runtime/host/elementwise.py` describes an op; `where`, `cast` and `bitcast` have a class
instead. The class of a row gets a name in this module once code refers to it: ``AddOp`` is
``OPS["add"]``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard, TypeVar

from xdsl.dialects.builtin import Float64Type, FloatAttr, TensorType
from xdsl.ir import Operation, SSAValue, TypeAttribute
from xdsl.irdl import base, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Commutative, OpTrait, Pure

from tessella.dialects.elements import complex_of, element_of, part_of
from tessella.dialects.nn.checks import (
    BOOL,
    check_float,
    check_integer,
    check_number,
    check_real,
    check_same_element,
)
from tessella.dialects.nn.constants import SplatOp
from tessella.dialects.nn.core import (
    NnOp,
    Tensor,
    broadcast_shapes,
    dtype_of,
    is_float,
    shape_of,
    tensor,
    tensor_type,
)
from tessella.dialects.nn.known import splat_number
from tessella.dialects.nn.movement import ExpandOp
from tessella.dialects.nn.positions import difference
from tessella.dialects.nn.traits import (
    ComputesSizes,
    CountsPositions,
    Idempotent,
    IdentityByType,
    Involution,
    Neutral,
    TakesComplex,
)
from tessella.runtime.host.elementwise import ROWS, Kind, Law, Row
from tessella.runtime.weights import WeightStore
from tessella.support.elements import widens
from tessella.support.errors import ShapeError
from tessella.support.size_functions import where
from tessella.support.sizes import Size, bounds_of


class ElementwiseOp(NnOp):
    """An op that computes each element of the result from one element of each operand, after
    broadcasting."""

    res = result_def(base(TensorType))
    traits = traits_def(Pure())

    def shape(self) -> tuple[Size, ...]:
        """Return the broadcast of the operands' shapes."""
        return broadcast_shapes([shape_of(x) for x in self.operands])


class UnaryOp(ElementwiseOp):
    """An elementwise op with one operand, of numbers; the result has the type of the operand."""

    x = operand_def(base(TensorType))

    def infer(self) -> Sequence[Tensor]:
        check_number(self, self.x)
        x = tensor_type(self.x)
        return [tensor(x.element_type, shape_of(x))]


class FloatUnaryOp(UnaryOp):
    """An elementwise op with one floating-point operand; the result has its type."""

    def infer(self) -> Sequence[Tensor]:
        check_float(self, self.x)
        return super().infer()


class PartOp(UnaryOp):
    """An elementwise op from numbers to real numbers: the result has the type of the operand, or
    for complex numbers the type of their parts."""

    def infer(self) -> Sequence[Tensor]:
        [x] = super().infer()
        return [tensor(part_of(x.element_type), shape_of(x))]


class PredicateOp(FloatUnaryOp):
    """An elementwise test of floating-point numbers: the elements of the result are booleans."""

    def infer(self) -> Sequence[Tensor]:
        return [tensor(BOOL, shape_of(super().infer()[0]))]


class BooleanOp(UnaryOp):
    """An elementwise op from booleans to booleans, with one operand."""

    def infer(self) -> Sequence[Tensor]:
        return _booleans(self)


class BinaryOp(ElementwiseOp):
    """An elementwise op with two operands, numbers of one element type, which the result also
    has."""

    lhs = operand_def(base(TensorType))
    rhs = operand_def(base(TensorType))

    def infer(self) -> Sequence[Tensor]:
        check_same_element(self)
        check_number(self, self.lhs)
        return [tensor(tensor_type(self.lhs).element_type, self.shape())]


class PartsOp(BinaryOp):
    """An elementwise op from real and imaginary parts, of one float type, to complex numbers."""

    def infer(self) -> Sequence[Tensor]:
        [parts] = super().infer()
        made = complex_of(parts.element_type)
        if made is None:
            raise ShapeError(f"{self.name} takes parts of f32 or f64", found=str(parts))
        return [tensor(made, self.shape())]


class CompareOp(BinaryOp):
    """An elementwise comparison: the elements of the result are booleans."""

    def infer(self) -> Sequence[Tensor]:
        check_same_element(self)
        check_real(self, self.lhs)
        return [tensor(BOOL, self.shape())]

    def by_sign(self) -> tuple[bool, ...] | None:
        """Return the result of the comparison for integers with lhs - rhs equal to -1, 0 and 1;
        None if the sign of the difference does not determine the result."""
        compares = self.get_trait(ComputesSizes)
        return None if compares is None else tuple(compares.function(d, 0) for d in (-1, 0, 1))

    def simplified(self) -> SSAValue | Sequence[NnOp] | None:
        """Return a constant if both operands are linear functions of the element's position
        (``positions.py``) and the comparison has the same result at all positions: i <= j is true
        if every i is at most every j. Otherwise return None."""
        compares, signs = self.get_trait(ComputesSizes), self.by_sign()
        if compares is None or signs is None or signs[0] == signs[-1]:
            return None
        found = difference(self, WeightStore())
        if found is None:
            return None
        # the comparison is monotone in the difference, so its value at both ends decides
        ends = (bounds_of(end)[i] for i, end in enumerate(found.ends(shape_of(self.res))))
        low, high = (compares.function(end, 0) for end in ends)
        return [SplatOp(low, tensor_type(self.res))] if low == high else None


class LogicalOp(BinaryOp):
    """An elementwise op from two boolean operands to booleans."""

    def infer(self) -> Sequence[Tensor]:
        return _booleans(self)


class BitsOp(UnaryOp):
    """An elementwise op with one integer operand; the result has its type."""

    def infer(self) -> Sequence[Tensor]:
        check_integer(self, self.x)
        return super().infer()


class BitwiseOp(BinaryOp):
    """An elementwise op with two operands, integers of one type, which the result also has."""

    def infer(self) -> Sequence[Tensor]:
        check_integer(self, self.lhs)
        return super().infer()


class QuantizingOp(ElementwiseOp):
    """An elementwise op that quantizes floats: the scale has the type of the floats, the zero point
    has the type of the result."""

    x = operand_def(base(TensorType))
    scale = operand_def(base(TensorType))
    zero = operand_def(base(TensorType))

    def infer(self) -> Sequence[Tensor]:
        check_float(self, self.x)
        check_same_element(self, (self.x, self.scale))
        element = element_of(self.zero.type)
        if element.name not in QUANTIZED:
            raise ShapeError(
                f"{self.name} takes zero points of {', '.join(QUANTIZED)}",
                found=str(self.zero.type),
            )
        return [tensor(tensor_type(self.zero).element_type, self.shape())]


class DequantizingOp(ElementwiseOp):
    """An elementwise op that dequantizes integers: the zero point has the type of the integers, the
    scale has the type of the result."""

    x = operand_def(base(TensorType))
    scale = operand_def(base(TensorType))
    zero = operand_def(base(TensorType))

    def infer(self) -> Sequence[Tensor]:
        check_same_element(self, (self.x, self.zero))
        check_float(self, self.scale)
        element = element_of(self.x.type)
        if not element.is_integer or element.bits > 32:
            raise ShapeError(f"{self.name} takes integers of up to 32 bits", found=str(self.x.type))
        return [tensor(tensor_type(self.scale).element_type, self.shape())]


QUANTIZED = ("i8", "u8", "i16", "u16")
"""The names of the element types that floats may be quantized to."""


def _booleans(op: ElementwiseOp) -> Sequence[Tensor]:
    types = [tensor_type(x).element_type for x in op.operands]
    if any(t != BOOL for t in types):
        raise ShapeError(f"{op.name} takes booleans", found=" and ".join(map(str, types)))
    return [tensor(BOOL, op.shape())]


_BASES: Mapping[Kind, type[ElementwiseOp]] = {
    "unary": UnaryOp,
    "float": FloatUnaryOp,
    "part": PartOp,
    "predicate": PredicateOp,
    "boolean": BooleanOp,
    "binary": BinaryOp,
    "parts": PartsOp,
    "comparison": CompareOp,
    "logic": LogicalOp,
    "bits": BitsOp,
    "bitwise": BitwiseOp,
    "quantize": QuantizingOp,
    "dequantize": DequantizingOp,
}


_LAWS: Mapping[Law, type[OpTrait]] = {
    "commutative": Commutative,
    "idempotent": Idempotent,
    "involution": Involution,
}


def _square(op: BinaryOp) -> Sequence[NnOp] | None:
    """Return x * x for the power x ^ 2; None for any other exponent."""
    return [MulOp.make([op.lhs, op.lhs])] if splat_number(op.rhs) == 2 else None


def _div_power_of_two(op: BinaryOp) -> Sequence[NnOp] | None:
    """Return x * 2^-k for the division x / 2^k, if both powers are normal numbers of the type;
    otherwise None."""
    number, type = splat_number(op.rhs), tensor_type(op.rhs)
    if number is None or not is_float(type.element_type):
        return None
    fraction, exponent = math.frexp(number)
    most = 1 / element_of(type).least_normal
    if abs(fraction) != 0.5 or not 1 / most <= math.ldexp(0.5, exponent) <= most:
        return None
    inverse = SplatOp(1 / number, type)
    return [inverse, MulOp.make([op.lhs, inverse])]


def _clip_nothing(op: UnaryOp) -> SSAValue | None:
    """Return x for clip(x, -inf, inf); None for other bounds."""
    settings = op.settings
    return op.x if (settings["low"], settings["high"]) == (-math.inf, math.inf) else None


def _if_real(op: UnaryOp) -> SSAValue | None:
    """Return x for the real part and for the conjugate of a real number x; None for a complex
    number."""
    return None if element_of(op.x.type).is_complex else op.x


def _imag_of_real(op: UnaryOp) -> Sequence[NnOp] | None:
    """Return 0 for the imaginary part of a real number; None for a complex number."""
    return None if element_of(op.x.type).is_complex else [SplatOp(0, tensor_type(op.x))]


_SIMPLIFIED: Mapping[str, Callable[[Any], SSAValue | Sequence[NnOp] | None]] = {
    "pow": _square,
    "div": _div_power_of_two,
    "clip": _clip_nothing,
    "real": _if_real,
    "imag": _imag_of_real,
    "conj": _if_real,
}
"""The method ``simplified`` of ops, by the op's name, for simplifications that no trait of the op
expresses."""


def _traits(row: Row) -> Sequence[OpTrait]:
    laws: list[OpTrait] = [_LAWS[law]() for law in row.laws if law in _LAWS]
    if row.complex:
        laws.append(TakesComplex())
    neutral = [] if row.neutral is None else [Neutral(row.neutral)]
    if row.sizes is None:
        return [*laws, *neutral]
    function = row.sizes

    def positions(op: NnOp, *operands: Any) -> Any:
        return function(*operands)

    counts = [CountsPositions(positions)] if "additive" in row.laws else []
    return [*laws, *neutral, ComputesSizes(function), *counts]


def _op_class(row: Row) -> type[ElementwiseOp]:
    """Return the op class that a row of the table of elementwise ops describes: ``LeakyReluOp`` for
    `leaky_relu`."""
    fields: dict[str, Any] = {
        "__module__": __name__,
        "__doc__": f"Elementwise {row.meaning}.",
        "name": f"nn.{row.name}",
        **{parameter: prop_def(FloatAttr[Float64Type]) for parameter in row.parameters},
    }
    fields["traits"] = traits_def(*_traits(row))
    if row.name in _SIMPLIFIED:
        fields["simplified"] = _SIMPLIFIED[row.name]
    name = "".join(map(str.capitalize, row.name.split("_")))
    found = irdl_op_definition(type(f"{name}Op", (_BASES[row.kind],), fields))
    found.DEFAULTS = row.parameters
    return found


OPS: Mapping[str, type[ElementwiseOp]] = {name: _op_class(row) for name, row in ROWS.items()}
"""The op class of each row of the table of elementwise ops, by the row's name."""

_Base = TypeVar("_Base", bound=ElementwiseOp)


def _named(base: type[_Base], name: str) -> type[_Base]:
    """Return the op class with this name, which must be a subclass of ``base``."""
    found = OPS[name]
    assert issubclass(found, base)
    return found


AbsOp = _named(PartOp, "abs")
RealOp = _named(PartOp, "real")
ImagOp = _named(PartOp, "imag")
ConjOp = _named(UnaryOp, "conj")
NegOp = _named(UnaryOp, "neg")
SignOp = _named(UnaryOp, "sign")
ReluOp = _named(UnaryOp, "relu")
ExpOp = _named(FloatUnaryOp, "exp")
LogOp = _named(FloatUnaryOp, "log")
SqrtOp = _named(FloatUnaryOp, "sqrt")
ReciprocalOp = _named(FloatUnaryOp, "reciprocal")
FloorOp = _named(FloatUnaryOp, "floor")
CeilOp = _named(FloatUnaryOp, "ceil")
RoundOp = _named(FloatUnaryOp, "round")
TanhOp = _named(FloatUnaryOp, "tanh")
ErfOp = _named(FloatUnaryOp, "erf")
SigmoidOp = _named(FloatUnaryOp, "sigmoid")
SoftplusOp = _named(FloatUnaryOp, "softplus")
HardSwishOp = _named(FloatUnaryOp, "hard_swish")
MishOp = _named(FloatUnaryOp, "mish")
SiluOp = _named(FloatUnaryOp, "silu")
GeluOp = _named(FloatUnaryOp, "gelu")
GeluTanhOp = _named(FloatUnaryOp, "gelu_tanh")
NotOp = _named(BooleanOp, "not")
IsNanOp = _named(PredicateOp, "is_nan")
IsInfOp = _named(PredicateOp, "is_inf")
LeakyReluOp = _named(FloatUnaryOp, "leaky_relu")
HardSigmoidOp = _named(FloatUnaryOp, "hard_sigmoid")
ClipOp = _named(UnaryOp, "clip")
AddOp = _named(BinaryOp, "add")
SubOp = _named(BinaryOp, "sub")
MulOp = _named(BinaryOp, "mul")
DivOp = _named(BinaryOp, "div")
PowOp = _named(BinaryOp, "pow")
ComplexOp = _named(PartsOp, "complex")
MinOp = _named(BinaryOp, "min")
MaxOp = _named(BinaryOp, "max")
ModOp = _named(BinaryOp, "mod")
FmodOp = _named(BinaryOp, "fmod")
EqualOp = _named(CompareOp, "equal")
LessOp = _named(CompareOp, "less")
LessEqualOp = _named(CompareOp, "less_equal")
GreaterOp = _named(CompareOp, "greater")
GreaterEqualOp = _named(CompareOp, "greater_equal")
AndOp = _named(LogicalOp, "and")
OrOp = _named(LogicalOp, "or")
XorOp = _named(LogicalOp, "xor")
BitLeftOp = _named(BitwiseOp, "bit_left")
BitRightOp = _named(BitwiseOp, "bit_right")
QuantizeOp = _named(QuantizingOp, "quantize")
DequantizeOp = _named(DequantizingOp, "dequantize")


@irdl_op_definition
class WhereOp(ElementwiseOp):
    """Elementwise selection: lhs where the condition is true, otherwise rhs."""

    name = "nn.where"
    condition = operand_def(base(TensorType))
    lhs = operand_def(base(TensorType))
    rhs = operand_def(base(TensorType))
    traits = traits_def(ComputesSizes(where))

    def infer(self) -> Sequence[Tensor]:
        if tensor_type(self.condition).element_type != BOOL:
            raise ShapeError("nn.where takes a boolean condition", found=str(self.condition.type))
        check_same_element(self, (self.lhs, self.rhs))
        return [tensor(tensor_type(self.lhs).element_type, self.shape())]

    def simplified(self) -> SSAValue | Sequence[NnOp] | None:
        """Return x for where(true, x, y) and where(c, x, x), and y for where(false, x, y),
        broadcast if necessary; None for any other operands."""
        condition = splat_number(self.condition)
        if condition is None and self.lhs is not self.rhs:
            return None
        branch = self.rhs if condition is False else self.lhs
        if branch.type == self.res.type:
            return branch
        return [ExpandOp.make([branch], shape=shape_of(self.res))]


@irdl_op_definition
class CastOp(ElementwiseOp):
    """Elementwise conversion to the element type `to`, as NumPy's `astype` converts. Complex
    numbers become complex numbers or booleans only."""

    name = "nn.cast"
    x = operand_def(base(TensorType))
    to = prop_def(TypeAttribute)
    traits = traits_def(IdentityByType())

    def infer(self) -> Sequence[Tensor]:
        if isinstance(self.to, TensorType):
            raise ShapeError(
                "nn.cast converts to an element type", found=str(self.properties["to"])
            )
        dtype_of(self.to)
        start, end = element_of(self.x.type), element_of(self.to)
        if start.is_complex and not (end.is_complex or end.kind == "boolean"):
            raise ShapeError(
                "nn.cast: the imaginary parts of complex numbers would be lost",
                expected="a complex type or booleans",
                found=f"{start.name} to {end.name}",
                hint="take the real parts, the imaginary parts or the absolute values first",
            )
        if start.kind == "string" and end.is_complex:
            raise ShapeError("nn.cast: strings do not become complex numbers", found=end.name)
        return [tensor(self.to, self.shape())]


@irdl_op_definition
class BitcastOp(ElementwiseOp):
    """Elementwise reinterpretation of the bits as the element type `to`, which has as many bits."""

    name = "nn.bitcast"
    x = operand_def(base(TensorType))
    to = prop_def(TypeAttribute)
    traits = traits_def(IdentityByType())

    def infer(self) -> Sequence[Tensor]:
        start, end = element_of(tensor_type(self.x).element_type), element_of(self.to)
        if start.bits != end.bits:
            raise ShapeError(
                "nn.bitcast: the elements differ in their bits",
                expected=f"an element of {start.bits} bits, as {start.name} has",
                found=f"{end.name}, which has {end.bits}",
            )
        return [tensor(self.to, self.shape())]


CONVERSION = "nn.conversion"
"""The name of the attribute that marks an `nn.cast` within a group as a conversion between the
element types of two kernels' places. A cast without the attribute is an op of the user's
program."""


def is_conversion(op: Operation) -> TypeGuard[CastOp]:
    """Return whether an op is a cast within a group that converts between places
    (``CONVERSION``)."""
    return isinstance(op, CastOp) and CONVERSION in op.attributes


def widened_from(value: SSAValue) -> SSAValue | None:
    """Return the operand of the `nn.cast` that computes a value, if the cast converts a float with
    native code to a float type without loss; None for any other value."""
    op = value.owner
    if not isinstance(op, CastOp):
        return None
    start, end = (element_of(tensor_type(x).element_type) for x in (op.x, op.res))
    is_float = start.is_native and start.is_float and end.is_float
    return op.x if is_float and widens(start.name, end.name) else None
