"""Values known at compile time: weights by symbol, and splats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    FlatSymbolRefAttr,
    FloatAttr,
    IntegerAttr,
    SymbolRefAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import base, irdl_op_definition, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tessella.dialects.nn.checks import BOOL
from tessella.dialects.nn.core import NnOp, Tensor, number, shape_of, tensor, tensor_type
from tessella.support.errors import ShapeError


class ConstantOp(NnOp):
    """Base of the ops without operands that have a result known at compile time."""

    res = result_def(base(TensorType))
    traits = traits_def(Pure())

    def infer(self) -> Sequence[Tensor]:
        """Return the declared type of the result."""
        type = tensor_type(self.res)
        return [tensor(type.element_type, shape_of(type))]


@irdl_op_definition
class WeightOp(ConstantOp):
    """A tensor of the weight store: `%w = nn.weight @conv1.w : tensor<8x3xf32>`.

    The store holds the elements in the memory order of the result's place (row-major without one).
    """

    name = "nn.weight"
    symbol = prop_def(FlatSymbolRefAttr)
    LEADING: ClassVar[str | None] = "symbol"

    def __init__(self, symbol: str, type: Tensor) -> None:
        # networks have thousands of weights, and the checks of xDSL's constructor would double the
        # time
        properties = {"symbol": SymbolRefAttr(symbol)}
        Operation.__init__(self, properties=properties, result_types=[type])


@irdl_op_definition
class SplatOp(ConstantOp):
    """A constant tensor of equal elements: `%s = nn.splat 0.5 : f32 : tensor<8xf32>`."""

    name = "nn.splat"
    value = prop_def(Attribute)
    LEADING: ClassVar[str | None] = "value"

    def __init__(self, value: float, type: Tensor) -> None:
        element = type.element_type
        super().__init__(properties={"value": number(value, element)}, result_types=[type])

    @property
    def number(self) -> float | int:
        """The value of every element."""
        value = self.value
        assert isinstance(value, FloatAttr | IntegerAttr)
        number = value.value.data
        # the IR stores a true i1 as -1
        return bool(number) if value.type == BOOL else number

    def infer(self) -> Sequence[Tensor]:
        type = tensor_type(self.res)
        if (
            not isinstance(self.value, FloatAttr | IntegerAttr)
            or self.value.type != type.element_type
        ):
            raise ShapeError(
                "nn.splat: the value is not of the element type",
                expected=f"a number of type {type.element_type}",
                found=str(self.properties["value"]),
            )
        return super().infer()
