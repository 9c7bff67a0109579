"""xDSL's `arith` dialect with the vector forms that MLIR has and xDSL 0.74 does not verify.

The vector forms are ``arith.select`` with a vector of conditions, ``arith.cmpi`` and ``arith.cmpf``
on vectors, and the integer and float casts on vectors. The classes have the same op names and print
as MLIR does; ``Arith`` replaces xDSL's dialect of that name. ``Arith`` also has MLIR's
``arith.remf``, and two further ops, ``arith.nearest`` and ``arith.lookup``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    VectorType,
    f64,
    i1,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException


def element_of(type: Attribute) -> Attribute:
    """Return the element type of a vector type; a scalar type is returned unchanged."""
    return type.element_type if isinstance(type, VectorType) else type


def with_element(type: Attribute, element: Attribute) -> Attribute:
    """Return a type with the element type replaced by ``element``: a vector type keeps its shape, a
    scalar type becomes ``element``."""
    return VectorType(element, type.get_shape()) if isinstance(type, VectorType) else element


def _check_same_shape(op: IRDLOperation, a: Attribute, b: Attribute) -> None:
    shapes = [t.get_shape() if isinstance(t, VectorType) else None for t in (a, b)]
    if shapes[0] != shapes[1]:
        raise VerifyException(f"{op.name}: expected equal shapes, found {a} and {b}")


@irdl_op_definition
class SelectOp(IRDLOperation):
    """Selection between two values by a condition, for scalars (`arith.select %c, %a, %b : f32`),
    or for vectors lane by lane (`: vector<16xi1>, vector<16xf32>`)."""

    name = "arith.select"
    cond = operand_def()
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def __init__(
        self, cond: SSAValue | Operation, lhs: SSAValue | Operation, rhs: SSAValue | Operation
    ) -> None:
        lhs = SSAValue.get(lhs)
        super().__init__(operands=[cond, lhs, rhs], result_types=[lhs.type])

    def verify_(self) -> None:
        if len({self.lhs.type, self.rhs.type, self.result.type}) != 1:
            raise VerifyException("arith.select: the values differ in type")
        if element_of(self.cond.type) != i1:
            raise VerifyException(
                f"arith.select: expected a condition of i1, found {self.cond.type}"
            )
        if isinstance(self.cond.type, VectorType):
            _check_same_shape(self, self.cond.type, self.lhs.type)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if isinstance(self.cond.type, VectorType):
            printer.print_attribute(self.cond.type)
            printer.print_string(", ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> SelectOp:
        operands = [parser.parse_unresolved_operand()]
        for _ in range(2):
            parser.parse_punctuation(",")
            operands.append(parser.parse_unresolved_operand())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        types = [parser.parse_type()]
        if parser.parse_optional_punctuation(","):
            types.append(parser.parse_type())
        condition, value = (i1, types[0]) if len(types) == 1 else types
        cond, lhs, rhs = parser.resolve_operands(operands, [condition, value, value], position)
        op = cls(cond, lhs, rhs)
        op.attributes |= attributes
        return op


class CompareOp(IRDLOperation):
    """A comparison of scalars, or of vectors lane by lane: `arith.cmpi slt, %a, %b :
    vector<16xi64>`."""

    predicate = prop_def(IntegerAttr)
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    PREDICATES: ClassVar[Sequence[str]]

    def __init__(self, lhs: SSAValue | Operation, rhs: SSAValue | Operation, kind: str) -> None:
        lhs = SSAValue.get(lhs)
        super().__init__(
            operands=[lhs, rhs],
            result_types=[with_element(lhs.type, i1)],
            properties={"predicate": IntegerAttr(self.PREDICATES.index(kind), 64)},
        )

    def verify_(self) -> None:
        if self.lhs.type != self.rhs.type:
            raise VerifyException(f"{self.name}: the operands differ in type")
        if self.result.type != with_element(self.lhs.type, i1):
            raise VerifyException(f"{self.name}: the result is i1, or a vector of i1")

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.PREDICATES[self.predicate.value.data]}, ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.lhs.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        kind = parser.parse_identifier()
        if kind not in cls.PREDICATES:
            parser.raise_error(f"expected a predicate, found {kind!r}")
        parser.parse_punctuation(",")
        lhs = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        rhs = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        type = parser.parse_type()
        a, b = parser.resolve_operands([lhs, rhs], [type, type], position)
        op = cls(a, b, kind)
        op.attributes |= attributes
        return op


@irdl_op_definition
class CmpiOp(CompareOp):
    """A comparison of integers or indices, or of vectors of them."""

    name = "arith.cmpi"
    PREDICATES: ClassVar[Sequence[str]] = tuple(arith.CMPI_COMPARISON_OPERATIONS)


@irdl_op_definition
class CmpfOp(CompareOp):
    """A comparison of floats, or of vectors of them."""

    name = "arith.cmpf"
    fastmath = opt_prop_def(arith.FastMathFlagsAttr)
    PREDICATES: ClassVar[Sequence[str]] = tuple(arith.CMPF_COMPARISON_OPERATIONS)


@irdl_op_definition
class RemFOp(IRDLOperation):
    """The exact remainder of a floating-point division whose quotient is truncated towards zero:
    C's `fmod`."""

    name = "arith.remf"
    _T: ClassVar = VarConstraint("T", AnyAttr())
    lhs = operand_def(_T)
    rhs = operand_def(_T)
    result = result_def(_T)
    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($result)"

    def __init__(self, lhs: SSAValue | Operation, rhs: SSAValue | Operation) -> None:
        super().__init__(operands=[lhs, rhs], result_types=[SSAValue.get(lhs).type])


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A constant: `arith.constant 1.0 : f32`. Its integer types may be unsigned."""

    name = "arith.constant"
    value = prop_def(IntegerAttr | FloatAttr | DenseIntOrFPElementsAttr)
    result = result_def()
    traits = traits_def(Pure(), ConstantLike())

    def __init__(self, value: IntegerAttr | FloatAttr | DenseIntOrFPElementsAttr) -> None:
        super().__init__(properties={"value": value}, result_types=[value.get_type()])

    def verify_(self) -> None:
        if self.value.get_type() != self.result.type:
            raise VerifyException("arith.constant: the value has another type than the result")

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes)
        printer.print_string(" ")
        printer.print_attribute(self.value)

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        attributes = parser.parse_optional_attr_dict()
        value = parser.parse_attribute()
        if not isinstance(value, IntegerAttr | FloatAttr | DenseIntOrFPElementsAttr):
            parser.raise_error(f"expected a number, found {value}")
        op = cls(value)
        op.attributes |= attributes
        return op


class CastOp(IRDLOperation):
    """A cast of a scalar, or of a vector lane by lane."""

    input = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def __init__(self, input: SSAValue | Operation, type: Attribute) -> None:
        super().__init__(operands=[input], result_types=[type])

    def verify_(self) -> None:
        _check_same_shape(self, self.input.type, self.result.type)


def _cast(upstream: type[Operation]) -> type[CastOp]:
    """Return an op class with the name of the xDSL cast op ``upstream`` that accepts scalars and
    vectors."""
    body: dict[str, Any] = {
        "name": upstream.name,
        "__doc__": CastOp.__doc__,
        "__annotations__": {},
    }
    return irdl_op_definition(type(upstream.__name__, (CastOp,), body))


_CASTS = (
    arith.IndexCastOp,
    arith.ExtSIOp,
    arith.ExtUIOp,
    arith.TruncIOp,
    arith.SIToFPOp,
    arith.UIToFPOp,
    arith.FPToSIOp,
    arith.FPToUIOp,
    arith.ExtFOp,
    arith.TruncFOp,
    arith.BitcastOp,
)


@irdl_op_definition
class NearestOp(CastOp):
    """Rounding of a float to the nearest integer, with ties to even. The float must be in the range
    of i32."""

    name = "arith.nearest"


@irdl_op_definition
class LookupOp(IRDLOperation):
    """Selection of a float from a constant table by the lowest bits of an integer: `arith.lookup
    %code {table = array<f64: ..>} : i32 to f32`. For a table of 16 floats, these are the lowest 4
    bits."""

    name = "arith.lookup"
    code = operand_def()
    table = prop_def(DenseArrayBase[Float64Type])
    result = result_def()
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$code attr-dict `:` type($code) `to` type($result)"

    def __init__(self, code: SSAValue | Operation, table: Sequence[float], type: Attribute) -> None:
        numbers = DenseArrayBase.from_list(f64, list(table))
        super().__init__(operands=[code], result_types=[type], properties={"table": numbers})

    @property
    def numbers(self) -> tuple[float, ...]:
        """The floats of the table."""
        return self.table.get_values()

    def verify_(self) -> None:
        _check_same_shape(self, self.code.type, self.result.type)
        size = len(self.table)
        if size < 2 or size & (size - 1):
            raise VerifyException(f"{self.name}: expected a power of two of floats, found {size}")


CASTS: dict[str, type[CastOp]] = {
    **{cast.name: _cast(cast) for cast in _CASTS},
    NearestOp.name: NearestOp,
}
"""The classes of the cast ops, by op name."""

VECTOR_FORMS: dict[str, type[Operation]] = {
    **CASTS,
    SelectOp.name: SelectOp,
    CmpiOp.name: CmpiOp,
    CmpfOp.name: CmpfOp,
    ConstantOp.name: ConstantOp,
}
"""The classes of this module that replace xDSL's classes, by op name."""

Arith = Dialect(
    "arith",
    [
        LookupOp,
        NearestOp,
        RemFOp,
        *(VECTOR_FORMS.get(op.name, op) for op in arith.Arith.operations),
    ],
    list(arith.Arith.attributes),
)
