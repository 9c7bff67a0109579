"""Reductions, and other ops along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import I64, BoolAttr, DenseArrayBase, IntegerAttr, TensorType, i64
from xdsl.irdl import base, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tessella.dialects.nn.checks import check_axes, check_float, check_number, check_real
from tessella.dialects.nn.core import (
    LAST_AXIS,
    ByRank,
    Defaults,
    NnOp,
    Tensor,
    shape_of,
    tensor,
    tensor_type,
)
from tessella.dialects.nn.traits import ReadsRows, ReducesSizes, TakesComplex
from tessella.dialects.sizes import size_def
from tessella.support.decisions import differs
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size


def reduced_shape(shape: Sequence[Size], axes: Sequence[int], keepdims: bool) -> tuple[Size, ...]:
    """Return the shape after a reduction: the axes have size 1 with ``keepdims``, otherwise they
    are removed."""
    kept: list[Size] = [1 if axis in axes else size for axis, size in enumerate(shape)]
    return tuple(size for axis, size in enumerate(kept) if keepdims or axis not in axes)


class ReduceOp(NnOp):
    """A reduction over `axes`. If `axes` is empty, the result is x; if there are no elements to
    reduce, it is the identity of the reduction. With `keepdims`, the reduced dimensions stay, with
    size 1."""

    DEFAULTS: ClassVar[Defaults] = {
        "axes": ByRank("all", lambda rank: tuple(range(rank))),
        "keepdims": False,
    }
    x = operand_def(base(TensorType))
    axes = prop_def(DenseArrayBase[I64])
    keepdims = prop_def(BoolAttr)
    res = result_def(base(TensorType))
    traits = traits_def(Pure(), ReadsRows())

    def infer(self) -> Sequence[Tensor]:
        check_real(self, self.x)
        shape, settings = shape_of(self.x), self.settings
        axes = settings["axes"]
        check_axes(self, axes, len(shape))
        reduced = reduced_shape(shape, axes, settings["keepdims"])
        return [tensor(tensor_type(self.x).element_type, reduced)]


class ArithmeticReduceOp(ReduceOp):
    """A reduction of numbers. Booleans are not allowed."""

    def infer(self) -> Sequence[Tensor]:
        check_number(self, self.x)
        return super().infer()


@irdl_op_definition
class ReduceSumOp(ArithmeticReduceOp):
    """The sum of the elements along `axes`."""

    name = "nn.reduce_sum"
    traits = traits_def(TakesComplex(), ReducesSizes(np.add))


@irdl_op_definition
class ReduceMeanOp(ArithmeticReduceOp):
    """The mean of the elements along `axes`: NaN if there are none. The mean of integers is rounded
    towards zero, and 0 if there are none."""

    name = "nn.reduce_mean"
    traits = traits_def(TakesComplex())


@irdl_op_definition
class ReduceMaxOp(ReduceOp):
    """The largest element along `axes`: NaN if any is NaN, and the type's least value if there are
    no elements."""

    name = "nn.reduce_max"
    traits = traits_def(ReducesSizes(np.maximum))


@irdl_op_definition
class ReduceMinOp(ReduceOp):
    """The smallest element along `axes`: NaN if any is NaN, and the type's largest value if there
    are no elements."""

    name = "nn.reduce_min"
    traits = traits_def(ReducesSizes(np.minimum))


@irdl_op_definition
class ReduceProdOp(ArithmeticReduceOp):
    """The product of the elements along `axes`."""

    name = "nn.reduce_prod"
    traits = traits_def(TakesComplex(), ReducesSizes(np.multiply))


class ArgOp(NnOp):
    """The index of an element along `axis`, an i64. If several elements are equal, it is the first
    of them, or the last with `select_last_index`. With `keepdims`, the dimension `axis` stays, with
    size 1."""

    DEFAULTS: ClassVar[Defaults] = {"keepdims": False, "select_last_index": False}
    x = operand_def(base(TensorType))
    axis = prop_def(IntegerAttr[I64])
    keepdims = prop_def(BoolAttr)
    select_last_index = prop_def(BoolAttr)
    res = result_def(base(TensorType))
    traits = traits_def(Pure())

    def infer(self) -> Sequence[Tensor]:
        check_real(self, self.x)
        shape, settings = shape_of(self.x), self.settings
        axis: int = settings["axis"]
        check_axes(self, [axis], len(shape))
        if not differs(shape[axis], 0):
            raise ShapeError(
                f"{self.name}: there are no elements along axis {axis}",
                expected="at least one",
                found=str(shape),
            )
        return [tensor(i64, reduced_shape(shape, [axis], settings["keepdims"]))]


@irdl_op_definition
class ArgMaxOp(ArgOp):
    """The index of the largest element along `axis`. NaN counts as larger than all numbers."""

    name = "nn.arg_max"


@irdl_op_definition
class ArgMinOp(ArgOp):
    """The index of the smallest element along `axis`. NaN counts as smaller than all numbers."""

    name = "nn.arg_min"


class AlongAxisOp(NnOp):
    """An op along `axis`: the result has the type of x."""

    x = operand_def(base(TensorType))
    axis = prop_def(IntegerAttr[I64])
    res = result_def(base(TensorType))
    traits = traits_def(Pure())

    def infer(self) -> Sequence[Tensor]:
        check_real(self, self.x)
        x = tensor_type(self.x)
        check_axes(self, [self.settings["axis"]], len(shape_of(x)))
        return [tensor(x.element_type, shape_of(x))]


@irdl_op_definition
class SoftmaxOp(AlongAxisOp):
    """e^x / sum(e^x) along an axis."""

    name = "nn.softmax"
    traits = traits_def(ReadsRows())
    DEFAULTS: ClassVar[Defaults] = {"axis": LAST_AXIS}

    def infer(self) -> Sequence[Tensor]:
        check_float(self, self.x)
        return super().infer()


@irdl_op_definition
class LogSoftmaxOp(AlongAxisOp):
    """x - log(sum(e^x)) along an axis."""

    name = "nn.log_softmax"
    traits = traits_def(ReadsRows())
    DEFAULTS: ClassVar[Defaults] = {"axis": LAST_AXIS}

    def infer(self) -> Sequence[Tensor]:
        check_float(self, self.x)
        return super().infer()


class CumulativeOp(AlongAxisOp):
    """A cumulative op: each element of the result is the aggregate of all elements of x up to its
    position along the axis. With `exclusive`, the element at the position itself does not count;
    with `reverse`, the aggregate starts at the end of the axis."""

    traits = traits_def(ReadsRows())
    DEFAULTS: ClassVar[Defaults] = {"exclusive": False, "reverse": False}
    exclusive = prop_def(BoolAttr)
    reverse = prop_def(BoolAttr)


@irdl_op_definition
class CumsumOp(CumulativeOp):
    """The cumulative sums along an axis."""

    name = "nn.cumsum"
    traits = traits_def(TakesComplex())

    def infer(self) -> Sequence[Tensor]:
        check_number(self, self.x)
        return super().infer()


@irdl_op_definition
class CumprodOp(CumulativeOp):
    """The cumulative products along an axis."""

    name = "nn.cumprod"
    traits = traits_def(TakesComplex())

    def infer(self) -> Sequence[Tensor]:
        check_number(self, self.x)
        return super().infer()


@irdl_op_definition
class CummaxOp(CumulativeOp):
    """The cumulative maxima along an axis, for booleans the cumulative `or`. After a NaN, all
    results are NaN."""

    name = "nn.cummax"


@irdl_op_definition
class CumminOp(CumulativeOp):
    """The cumulative minima along an axis, for booleans the cumulative `and`. After a NaN, all
    results are NaN."""

    name = "nn.cummin"


@irdl_op_definition
class TopkOp(NnOp):
    """The k largest elements along an axis, sorted, and their indices, which are i64; the smallest
    elements unless `largest`.

    Equal elements keep their order. NaN counts as larger than all numbers.
    """

    name = "nn.topk"
    DEFAULTS: ClassVar[Defaults] = {"axis": LAST_AXIS, "largest": True}
    RESULTS: ClassVar[int] = 2
    x = operand_def(base(TensorType))
    k = size_def()
    axis = prop_def(IntegerAttr[I64])
    largest = prop_def(BoolAttr)
    values = result_def(base(TensorType))
    indices = result_def(base(TensorType))
    traits = traits_def(Pure())

    def infer(self) -> Sequence[Tensor]:
        check_number(self, self.x)
        shape, settings = list(shape_of(self.x)), self.settings
        axis, k = settings["axis"], settings["k"]
        check_axes(self, [axis], len(shape))
        if not 0 <= k <= shape[axis]:
            raise ShapeError(
                "nn.topk: k is out of range", expected=f"in [0, {shape[axis]}]", found=str(k)
            )
        shape[axis] = k
        return [tensor(tensor_type(self.x).element_type, shape), tensor(i64, shape)]
