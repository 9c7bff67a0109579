"""Ops that draw random numbers, and the op that samples classes by random numbers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import I64, Float64Type, FloatAttr, IntegerAttr, TensorType, f64, i64
from xdsl.ir import TypeAttribute
from xdsl.irdl import (
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from tessella.dialects.elements import element_of
from tessella.dialects.nn.checks import check_float, check_least
from tessella.dialects.nn.core import NnOp, Tensor, shape_of, shapes_differ, tensor, tensor_type
from tessella.dialects.sizes import sizes_def
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size, product


class DrawingOp(NnOp):
    """Base of ops that draw random numbers of the element type `to`.

    Each run of an op draws new numbers, so the ops are not `Pure`. With `seed`, all runs draw the
    numbers of NumPy's `RandomState` for this seed.
    """

    shape = sizes_def()
    to = prop_def(TypeAttribute)
    seed = opt_prop_def(IntegerAttr[I64])
    res = result_def(base(TensorType))

    def infer(self) -> Sequence[Tensor]:
        shape = self.settings["shape"]
        check_least(self, "shape", shape, 0)
        if isinstance(self.to, TensorType) or not element_of(self.to).is_float:
            raise ShapeError(f"{self.name} draws floating-point numbers", found=str(self.to))
        return [tensor(self.to, shape)]


@irdl_op_definition
class RandomUniformOp(DrawingOp):
    """Numbers that are uniformly distributed between `low` and `high`.

    `%r = nn.random_uniform low 0.0 high 1.0 shape [2, 3] to f32 : tensor<2x3xf32>`
    """

    name = "nn.random_uniform"
    low = prop_def(FloatAttr[Float64Type])
    high = prop_def(FloatAttr[Float64Type])


@irdl_op_definition
class RandomNormalOp(DrawingOp):
    """Numbers of the normal distribution with the mean `mean` and the standard deviation `scale`.

    `%r = nn.random_normal mean 0.0 scale 1.0 shape [2, 3] to f32 : tensor<2x3xf32>`
    """

    name = "nn.random_normal"
    mean = prop_def(FloatAttr[Float64Type])
    scale = prop_def(FloatAttr[Float64Type])


@irdl_op_definition
class ChooseClassesOp(NnOp):
    """Samples of classes: each number of `draws`, between 0 and 1, selects a class of its row by
    the cumulative probabilities of the classes.

    `logits`, [rows, classes], are logarithms of probabilities, which need not be normalized.
    `draws`, [rows, count], are of f64. The op fails on a row without a positive probability.

    `%c = nn.choose_classes %logits, %draws : tensor<2x5xi64>`
    """

    name = "nn.choose_classes"
    logits = operand_def(base(TensorType))
    draws = operand_def(base(TensorType))
    res = result_def(base(TensorType))
    traits = traits_def(Pure())

    def infer(self) -> Sequence[Tensor]:
        check_float(self, self.logits)
        logits, draws = shape_of(self.logits), shape_of(self.draws)
        if tensor_type(self.draws).element_type != f64:
            raise ShapeError(f"{self.name}: the draws are of f64", found=str(self.draws.type))
        if len(logits) != 2 or len(draws) != 2 or shapes_differ(logits[:1], draws[:1]):
            raise ShapeError(
                f"{self.name} takes matrices with equally many rows",
                found=f"{self.logits.type} and {self.draws.type}",
            )
        return [tensor(i64, draws)]

    @property
    def host_bytes(self) -> Size:
        """The bytes of the comparisons of all draws with all classes: a boolean and a number of 8
        bytes each, as the NumPy kernel sums them."""
        return 9 * product(shape_of(self.draws)) * shape_of(self.logits)[1]
