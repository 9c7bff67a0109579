"""Checks shared by the `infer` functions of several families. All raise ShapeError."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, i32, i64
from xdsl.ir import Attribute, SSAValue

from tessella.dialects.elements import attribute_of, element_of
from tessella.dialects.nn.core import NnOp, is_float, shape_of, shapes_differ, shown, tensor_type
from tessella.dialects.nn.traits import TakesComplex
from tessella.support.conditions import decided
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size

BOOL = IntegerType(1)
BYTES = {attribute_of("u8"), attribute_of("i8")}
"""The element types with products that may be summed in i32: signed and unsigned bytes."""


def check_same_element(op: NnOp, values: Sequence[SSAValue] | None = None) -> None:
    """Check that these values (by default all operands) have one element type."""
    operands = op.operands if values is None else values
    elements = {tensor_type(x).element_type: None for x in operands}
    if len(elements) > 1:
        raise ShapeError(f"{op.name}: element types differ", found=" and ".join(map(str, elements)))


def product_element(
    op: NnOp, sums: Attribute | None, a: SSAValue, b: SSAValue, *others: SSAValue
) -> Attribute:
    """Return the element type of a product's result. With ``sums``, the result has this type, which
    must be i32: the factors ``a`` and ``b`` must then be 8-bit integers, and the operands
    ``others`` i32. Without ``sums``, all operands and the result have one element type. Raises
    ShapeError if the element types differ from this."""
    if sums is None:
        check_same_element(op)
        check_number(op, a)
        return tensor_type(a).element_type
    factors = [tensor_type(x).element_type for x in (a, b)]
    if sums != i32 or not BYTES.issuperset(factors):
        raise ShapeError(
            f"{op.name}: no sums of this element",
            expected="sums in i32 of products of ui8 and i8",
            found=f"sums in {sums} of products of {factors[0]} and {factors[1]}",
        )
    for other in others:
        if tensor_type(other).element_type != sums:
            raise ShapeError(f"{op.name}: expected {sums} beside the sums", found=str(other.type))
    return sums


def check_float(op: NnOp, value: SSAValue) -> None:
    """Check that the value's elements are floating-point, or complex if the op takes these."""
    if not takes_complex(op, value) and not is_float(tensor_type(value).element_type):
        raise ShapeError(f"{op.name} takes floating-point elements", found=str(value.type))


def check_integer(op: NnOp, value: SSAValue) -> None:
    """Check that the value's elements are integers."""
    if not element_of(value.type).is_integer:
        raise ShapeError(f"{op.name} takes integers", found=str(value.type))


def check_number(op: NnOp, value: SSAValue) -> None:
    """Check that the value's elements are numbers, not booleans or strings, and complex only if the
    op takes these."""
    if element_of(value.type).kind in ("boolean", "string"):
        raise ShapeError(f"{op.name} takes numbers", found=str(value.type))
    check_real(op, value)


def check_real(op: NnOp, value: SSAValue) -> None:
    """Check that the value's elements are not complex, unless the op takes complex numbers."""
    if element_of(value.type).is_complex and not takes_complex(op, value):
        raise ShapeError(
            f"{op.name} takes real numbers",
            found=str(value.type),
            hint="take the real parts, the imaginary parts or the absolute values first",
        )


def takes_complex(op: NnOp, value: SSAValue) -> bool:
    """Return whether the value's elements are complex, and the op takes complex numbers."""
    return element_of(value.type).is_complex and op.has_trait(TakesComplex)


def check_index(op: NnOp, value: SSAValue) -> None:
    """Check that the value's elements are indices: i64 or i32."""
    if tensor_type(value).element_type not in (i64, i32):
        raise ShapeError(f"{op.name} takes indices of type i64 or i32", found=str(value.type))


def check_rank(op: NnOp, value: SSAValue, least: int) -> None:
    """Check that the value has at least this many dimensions."""
    rank = len(shape_of(value))
    if rank < least:
        raise ShapeError(
            f"{op.name}: a rank is too small", expected=f"at least {least}", found=str(value.type)
        )


def check_axes(op: NnOp, axes: Sequence[int], rank: int) -> None:
    """Check that each axis is in the range from 0 to ``rank`` - 1, and occurs once."""
    if not all(0 <= axis < rank for axis in axes):
        raise ShapeError(
            f"{op.name}: an axis is out of range", expected=f"in [0, {rank})", found=str(list(axes))
        )
    if len(set(axes)) != len(axes):
        raise ShapeError(
            f"{op.name}: an axis is given twice", expected="distinct axes", found=str(list(axes))
        )


def check_length(op: NnOp, name: str, values: Sequence[object], length: int) -> None:
    """Check that the property ``name`` has this many values."""
    if len(values) != length:
        raise ShapeError(
            f"{op.name}: {name} has the wrong length", expected=str(length), found=str(list(values))
        )


def check_least(op: NnOp, name: str, values: Sequence[Size], least: int) -> None:
    """Check that the property ``name`` has no value below ``least``."""
    if not all(decided(value >= least) for value in values):
        raise ShapeError(
            f"{op.name}: {name} is out of range", expected=f">= {least}", found=str(list(values))
        )


def check_choice(op: NnOp, name: str, value: str, choices: Sequence[str]) -> None:
    """Check that the value of the property ``name`` is one of ``choices``."""
    if value not in choices:
        raise ShapeError(
            f"{op.name}: unknown {name}", expected=f"one of {', '.join(choices)}", found=repr(value)
        )


def check_shape(op: NnOp, value: SSAValue, shape: Sequence[Size]) -> None:
    """Check that the value has this shape."""
    if shapes_differ(shape_of(value), shape):
        raise ShapeError(
            f"{op.name}: an operand has the wrong shape",
            expected=shown(shape),
            found=str(value.type),
        )
