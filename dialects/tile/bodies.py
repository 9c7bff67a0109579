"""Ops of the scalar bodies of statements, and construction of bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import IndexType, StringAttr, TensorType
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.nn.core import shape_of, tensor_type

SCALAR_DIALECTS = ("arith", "math")
"""The names of the dialects with the arithmetic ops that bodies may contain."""


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The terminator of a statement's scalar body, with the value that the body yields and the
    coordinates of an indexed write: `tile.yield %value at %row : f32`."""

    name = "tile.yield"
    value = operand_def()
    coordinates = var_operand_def(IndexType)
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$value (`at` $coordinates^)? attr-dict `:` type($value)"

    def __init__(self, value: SSAValue, coordinates: Sequence[SSAValue] = ()) -> None:
        super().__init__(operands=[value, list(coordinates)])


@irdl_op_definition
class IndexOp(IRDLOperation):
    """The value of an index at the point for which a body is evaluated: `%n = tile.index "x"`."""

    name = "tile.index"
    index = prop_def(StringAttr)
    res = result_def(IndexType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$index attr-dict"

    def __init__(self, index: str) -> None:
        super().__init__(properties={"index": StringAttr(index)}, result_types=[IndexType()])


@irdl_op_definition
class ExtractOp(IRDLOperation):
    """The element of a tensor at computed coordinates: `%v = tile.extract %T[%i, %j] : tensor<..>`.

    If a coordinate is out of range, the call fails its check, and an element inside the tensor is
    read instead.
    """

    name = "tile.extract"
    source = operand_def(base(TensorType))
    coordinates = var_operand_def(IndexType)
    res = result_def()
    traits = traits_def(Pure())
    assembly_format = "$source `[` $coordinates `]` attr-dict `:` type($source) `->` type($res)"

    def __init__(self, source: SSAValue, coordinates: Sequence[SSAValue]) -> None:
        super().__init__(
            operands=[source, list(coordinates)],
            result_types=[tensor_type(source).element_type],
        )

    def verify_(self) -> None:
        rank = len(shape_of(self.source))
        if rank != len(self.coordinates):
            raise VerifyException(
                f"tile.extract: expected {rank} coordinates, found {len(self.coordinates)}"
            )
        element = tensor_type(self.source).element_type
        if self.res.type != element:
            raise VerifyException(f"tile.extract: expected {element}, found {self.res.type}")


def yielded(block: Block) -> SSAValue:
    """Return the value that a statement's body yields."""
    last = block.last_op
    if not isinstance(last, YieldOp):
        raise VerifyException("a body of tile.contract ends in tile.yield")
    return last.value


def coordinates_of(block: Block) -> tuple[SSAValue, ...]:
    """Return the coordinates that the body of an indexed write yields; empty for any other body."""
    last = block.last_op
    return tuple(last.coordinates) if isinstance(last, YieldOp) else ()


def scalar_region(
    types: Sequence[Attribute], body: Callable[[Block, Sequence[SSAValue]], SSAValue]
) -> Region:
    """Return a region with one block, which has arguments of these scalar types. ``body(block,
    arguments)`` adds the ops and returns the value that the block yields."""
    block = Block(arg_types=types)
    block.add_op(YieldOp(body(block, block.args)))
    return Region(block)
