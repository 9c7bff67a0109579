"""Values computed from sizes, and sizes computed from values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import TensorType, i64
from xdsl.irdl import base, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from tessella.dialects.nn.checks import check_least, check_length, check_rank, check_shape
from tessella.dialects.nn.core import NnOp, Tensor, shape_of, tensor, tensor_type
from tessella.dialects.nn.positions import Positions
from tessella.dialects.nn.traits import CountsPositions, DefinesSymbols, Definition
from tessella.dialects.sizes import size_def, sizes_def
from tessella.support.conditions import always
from tessella.support.errors import ShapeError
from tessella.support.sizes import MOST, Size, product, symbols_of


class SymbolicOp(NnOp):
    """An op without operands that computes its result from sizes, which are properties of the op.
    The result has elements of i64."""

    res = result_def(base(TensorType))
    traits = traits_def(Pure())


def _one_size(op: SizesOp) -> Positions | None:
    values = op.settings["values"]
    return Positions({}, values[0]) if len(values) == 1 else None


@irdl_op_definition
class SizesOp(SymbolicOp):
    """A vector of sizes as integers: `%s = nn.sizes values [[seq], 64] : tensor<2xi64>`."""

    name = "nn.sizes"
    traits = traits_def(CountsPositions(_one_size))
    values = sizes_def()

    def infer(self) -> Sequence[Tensor]:
        return [tensor(i64, [len(self.settings["values"])])]


def _iota(op: IotaOp) -> Positions:
    return Positions({-1: 1}, 0)


@irdl_op_definition
class IotaOp(SymbolicOp):
    """The integers from 0 to a size, which is excluded.

    `%i = nn.iota count [seq] : tensor<[seq]xi64>`
    """

    name = "nn.iota"
    traits = traits_def(CountsPositions(_iota))
    count = size_def()

    def infer(self) -> Sequence[Tensor]:
        count = self.settings["count"]
        check_least(self, "count", [count], 0)
        return [tensor(i64, [count])]


class Found(NamedTuple):
    """A dimension of a result whose size is known only after the op has run."""

    result: int
    axis: int
    most: Size = MOST
    """An upper bound on the size."""


def _definitions(op: FindingOp) -> Sequence[Definition]:
    pairs = zip(op.settings["sizes"], op.found, strict=True)
    return [Definition(s, *found) for size, found in pairs for s in symbols_of([size])]


class FindingOp(NnOp):
    """Base of ops with result sizes that are known only after the op has run.

    `sizes` lists these sizes: symbols that the op defines, or numbers in a program that is
    specialised for their values.
    """

    sizes = sizes_def()
    traits = traits_def(DefinesSymbols(_definitions))

    @property
    @abstractmethod
    def found(self) -> Sequence[Found]:
        """For each of `sizes`, the first dimension of a result that has this size."""

    def found_sizes(self) -> tuple[Size, ...]:
        """Return `sizes`. Raises ShapeError if their number is wrong, or if one is neither a number
        nor a symbol that begins at 0."""
        sizes: tuple[Size, ...] = self.settings["sizes"]
        check_length(self, "sizes", sizes, len(self.found))
        for size in sizes:
            if any(size != symbol.size or symbol.low for symbol in symbols_of([size])):
                raise ShapeError(
                    f"{self.name}: a size is not a symbol that begins at 0", found=f"{size}"
                )
        return sizes


@irdl_op_definition
class TrimOp(FindingOp):
    """The first `count` slices of x along its first dimension.

    `%y = nn.trim %x, %count sizes [[k]] : tensor<[k]x4xf32>` defines the symbol k, whose value is
    the i64 `count`.

    The op follows native code whose number of results depends on values: the code writes the
    results to the front of an array of the maximum size, and counts them.
    """

    name = "nn.trim"
    x = operand_def(base(TensorType))
    count = operand_def(base(TensorType))
    res = result_def(base(TensorType))

    @property
    def found(self) -> Sequence[Found]:
        """The dimension of the result that has the number of slices."""
        return (Found(0, 0, shape_of(self.x)[0]),)

    def infer(self) -> Sequence[Tensor]:
        check_rank(self, self.x, 1)
        check_shape(self, self.count, ())
        element = tensor_type(self.x).element_type
        if tensor_type(self.count).element_type != i64:
            raise ShapeError(f"{self.name}: count is an i64", found=str(self.count.type))
        (size,), (room, *others) = self.found_sizes(), shape_of(self.x)
        if not symbols_of([size]) and always(size > room):
            raise ShapeError(
                f"{self.name}: x has too few slices", expected=f"{size}", found=f"{room}"
            )
        return [tensor(element, (size, *others))]

    @property
    def operations(self) -> Size:
        """The number of elements of the result."""
        return product(shape_of(self.res))
