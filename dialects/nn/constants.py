"""Values known at compile time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
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

from tessella.dialects.layout import NCHW, unpack
from tessella.dialects.nn.checks import BOOL
from tessella.dialects.nn.core import (
    Array,
    NnOp,
    Tensor,
    dtype_of,
    number,
    shape_of,
    tensor,
    tensor_type,
)
from tessella.dialects.place import PlaceAttr, place_of
from tessella.runtime.elements import full, unpacked
from tessella.runtime.weights import WeightStore
from tessella.support.decisions import known, known_all
from tessella.support.errors import InternalError, ShapeError


class ConstantOp(NnOp):
    """A constant: the result is known at compile time."""

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


def weight_array(op: WeightOp, weights: WeightStore) -> Array:
    """Return a weight as an array in logical order, whatever the memory order of the stored array.
    Raises InternalError if the store does not have the weight."""
    symbol = op.symbol.root_reference.data
    array = weights.get(symbol)
    if array is None:
        raise InternalError(f"the weight @{symbol} is not in the store")
    place, shape = place_of(op.res.type), known_all(shape_of(op.res))
    array = unpacked(array, _stored(place, shape), dtype_of(op.res.type))
    if place is None or place.layout.same_memory(NCHW, shape):
        return np.reshape(array, shape)
    return unpack(array, place.layout, shape)


def _stored(place: PlaceAttr | None, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a weight's array in the store: its logical shape if the memory is
    row-major, otherwise one dimension."""
    if place is None or place.layout.same_memory(NCHW, shape):
        return shape
    return (known(place.layout.size(shape)),)


def splat_array(op: SplatOp) -> Array:
    """Return the array of a splat: a view of a single element, which takes no further memory."""
    return full(known_all(shape_of(op.res)), op.number, dtype_of(op.res.type))
