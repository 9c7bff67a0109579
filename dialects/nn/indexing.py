"""Gather and scatter.

Indices are integers of i64 or i32. Negative indices count from the back. An index out of range is
an ExecutionError at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import I64, IntegerAttr, StringAttr, TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import base, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tessella.dialects.elements import element_of
from tessella.dialects.nn.checks import (
    check_axes,
    check_choice,
    check_index,
    check_number,
    check_rank,
    check_same_element,
    check_shape,
)
from tessella.dialects.nn.core import (
    Defaults,
    NnOp,
    Tensor,
    shape_of,
    shapes_differ,
    tensor,
    tensor_type,
)
from tessella.dialects.nn.known import splat_number
from tessella.dialects.nn.movement import ReshapeOp, SliceOp
from tessella.dialects.nn.traits import MovesElements, ReadsOnce
from tessella.support.conditions import decided
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size, bounds_of

REDUCTIONS = ("none", "add", "mul", "max", "min")


class IndexedOp(NnOp):
    """An access to data, the first operand, at indices, the second operand."""

    res = result_def(base(TensorType))
    traits = traits_def(Pure())

    def result(self, shape: Sequence[Size]) -> Sequence[Tensor]:
        """Return the type of the result in a list: the element type of data, and this shape."""
        return [tensor(tensor_type(self.operands[0]).element_type, shape)]

    def check_elements(self, axis: int) -> None:
        """Raise ShapeError unless the indices select single elements along `axis` of data."""
        check_index(self, self.operands[1])
        data, indices = map(shape_of, self.operands[:2])
        check_axes(self, [axis], len(data))
        if len(data) != len(indices):
            raise ShapeError(f"{self.name}: ranks differ", found=f"data {data}, indices {indices}")
        pairs = enumerate(zip(data, indices, strict=True))
        if any(decided(index > size) for d, (size, index) in pairs if d != axis):
            raise ShapeError(
                f"{self.name}: indices exceed data in a dimension other than {axis}",
                expected=f"at most {data}",
                found=str(indices),
            )

    def check_tuples(self, batch_dims: int) -> Size:
        """Return the length of the index tuples in the last dimension of indices. Raises ShapeError
        unless the tuples fit the rank of data without its first ``batch_dims`` dimensions."""
        check_index(self, self.operands[1])
        check_rank(self, self.operands[1], batch_dims + 1)
        data, indices = map(shape_of, self.operands[:2])
        rank, length = len(data) - batch_dims, indices[-1]
        if not (decided(length >= 1) and decided(length <= rank)):
            raise ShapeError(
                f"{self.name}: index tuples of the wrong length",
                expected=f"in [1, {rank}]",
                found=str(length),
            )
        return length


@irdl_op_definition
class GatherOp(IndexedOp):
    """data[:, .., indices, .., :]: the slices of data at `indices` along `axis`."""

    name = "nn.gather"
    traits = traits_def(MovesElements(indices=(1,)))
    DEFAULTS: ClassVar[Defaults] = {"axis": 0}
    data = operand_def(base(TensorType))
    indices = operand_def(base(TensorType))
    axis = prop_def(IntegerAttr[I64])

    def infer(self) -> Sequence[Tensor]:
        check_index(self, self.indices)
        data, axis = shape_of(self.data), self.settings["axis"]
        check_axes(self, [axis], len(data))
        return self.result((*data[:axis], *shape_of(self.indices), *data[axis + 1 :]))

    def simplified(self) -> SSAValue | Sequence[NnOp] | None:
        """Return a reshaped slice of data, gather(x, i) = reshape(x[i:i+1]), if there is a single
        index, its value is known, and it is in bounds for all sizes. Otherwise return None."""
        index, shape, axis = splat_number(self.indices), shape_of(self.data), self.settings["axis"]
        least = [bounds_of(n)[0] for n in shape]
        one = all(n == 1 for n in shape_of(self.indices))
        if index is None or not one or not all(least) or not -least[axis] <= index < least[axis]:
            return None
        starts: list[Size] = [0] * len(shape)
        starts[axis] = int(index) if index >= 0 else shape[axis] + int(index)
        sizes, steps = (*shape[:axis], 1, *shape[axis + 1 :]), (1,) * len(shape)
        part = SliceOp.make([self.data], starts=tuple(starts), sizes=sizes, steps=steps)
        return [part, ReshapeOp.make([part], shape=shape_of(self.res))]


@irdl_op_definition
class GatherElementsOp(IndexedOp):
    """For each position of `indices`, the element of data at that position, with the coordinate
    along `axis` replaced by the index."""

    name = "nn.gather_elements"
    traits = traits_def(MovesElements(indices=(1,)))
    DEFAULTS: ClassVar[Defaults] = {"axis": 0}
    data = operand_def(base(TensorType))
    indices = operand_def(base(TensorType))
    axis = prop_def(IntegerAttr[I64])

    def infer(self) -> Sequence[Tensor]:
        self.check_elements(self.settings["axis"])
        return self.result(shape_of(self.indices))


@irdl_op_definition
class GatherNdOp(IndexedOp):
    """The slices of data at the index tuples in the last dimension of `indices`. The first
    `batch_dims` dimensions of data and indices are batch dimensions, which run in parallel."""

    name = "nn.gather_nd"
    traits = traits_def(MovesElements(indices=(1,)))
    DEFAULTS: ClassVar[Defaults] = {"batch_dims": 0}
    data = operand_def(base(TensorType))
    indices = operand_def(base(TensorType))
    batch_dims = prop_def(IntegerAttr[I64])

    def infer(self) -> Sequence[Tensor]:
        data, indices, batch = (
            shape_of(self.data),
            shape_of(self.indices),
            self.settings["batch_dims"],
        )
        if not 0 <= batch < min(len(data), len(indices)):
            raise ShapeError(
                "nn.gather_nd: batch_dims is out of range",
                expected=f"in [0, {min(len(data), len(indices))})",
                found=str(batch),
            )
        if shapes_differ(data[:batch], indices[:batch]):
            raise ShapeError(
                "nn.gather_nd: batches differ", found=f"data {data}, indices {indices}"
            )
        length = self.check_tuples(batch)
        return self.result((*indices[:-1], *data[batch + length :]))


class ScatterOp(IndexedOp):
    """A copy of data with `updates` written at `indices`.

    `reduction` is `none`, or `add`, `mul`, `max` or `min`, which combine an update with the element
    at its position. If several updates go to one position without a reduction, the last one wins.
    """

    DEFAULTS: ClassVar[Defaults] = {"reduction": "none"}
    reduction = prop_def(StringAttr)

    def infer(self) -> Sequence[Tensor]:
        data, _, updates = self.operands
        check_same_element(self, (data, updates))
        check_choice(self, "reduction", self.settings["reduction"], REDUCTIONS)
        is_sum = self.settings["reduction"] in ("add", "mul")
        if self.settings["reduction"] != "none" and not (
            is_sum and element_of(data.type).is_complex
        ):
            check_number(self, data)
        return self.result(shape_of(data))


@irdl_op_definition
class ScatterElementsOp(ScatterOp):
    """A scatter of single elements: each update goes to its own position, except that the
    coordinate along `axis` is taken from `indices`."""

    name = "nn.scatter_elements"
    traits = traits_def(ReadsOnce())
    DEFAULTS: ClassVar[Defaults] = {**ScatterOp.DEFAULTS, "axis": 0}
    data = operand_def(base(TensorType))
    indices = operand_def(base(TensorType))
    updates = operand_def(base(TensorType))
    axis = prop_def(IntegerAttr[I64])

    def infer(self) -> Sequence[Tensor]:
        self.check_elements(self.settings["axis"])
        check_shape(self, self.updates, shape_of(self.indices))
        return super().infer()


@irdl_op_definition
class ScatterNdOp(ScatterOp):
    """A scatter of slices: each update goes to the slice of data at an index tuple in the last
    dimension of `indices`."""

    name = "nn.scatter_nd"
    traits = traits_def(ReadsOnce())
    data = operand_def(base(TensorType))
    indices = operand_def(base(TensorType))
    updates = operand_def(base(TensorType))

    def infer(self) -> Sequence[Tensor]:
        length = self.check_tuples(0)
        data, indices = shape_of(self.data), shape_of(self.indices)
        check_shape(self, self.updates, (*indices[:-1], *data[length:]))
        return super().infer()
