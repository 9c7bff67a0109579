"""Values computed from sizes, and sizes computed from values."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType, i64
from xdsl.irdl import base, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from tessella.dialects.nn.checks import check_least, check_rank, check_shape
from tessella.dialects.nn.core import NnOp, Tensor, shape_of, tensor, tensor_type
from tessella.dialects.nn.positions import Positions
from tessella.dialects.nn.traits import CountsPositions, DefinesSymbols, Definition
from tessella.dialects.sizes import size_def, sizes_def
from tessella.support.conditions import always
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size, Symbol, product, symbols_of


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


def _counted(op: TrimOp) -> Sequence[Definition]:
    symbol = op.symbol
    return () if symbol is None else (Definition(symbol, 0, 0, shape_of(op.x)[0]),)


@irdl_op_definition
class TrimOp(NnOp):
    """The first `count` slices of x along its first dimension.

    `%y = nn.trim %x, %count size [k] : tensor<[k]x4xf32>` defines the symbol k, whose value is the
    i64 `count`.

    Native code stores results whose number depends on values at the front of an array with room for
    all of them, and counts them.
    """

    name = "nn.trim"
    traits = traits_def(DefinesSymbols(_counted))
    x = operand_def(base(TensorType))
    count = operand_def(base(TensorType))
    size = size_def()
    res = result_def(base(TensorType))

    @property
    def symbol(self) -> Symbol | None:
        """The symbol that the op defines; None in a program that is specialised for its value."""
        return next(iter(symbols_of([self.settings["size"]])), None)

    def infer(self) -> Sequence[Tensor]:
        check_rank(self, self.x, 1)
        check_shape(self, self.count, ())
        element, size = tensor_type(self.x).element_type, self.settings["size"]
        if tensor_type(self.count).element_type != i64:
            raise ShapeError(f"{self.name}: count is an i64", found=str(self.count.type))
        if self.symbol is not None and (size != self.symbol.size or self.symbol.low):
            raise ShapeError(
                f"{self.name}: the size is not a symbol that begins at 0", found=f"{size}"
            )
        room, *others = shape_of(self.x)
        if self.symbol is None and always(size > room):
            raise ShapeError(
                f"{self.name}: x has too few slices", expected=f"{size}", found=f"{room}"
            )
        return [tensor(element, (size, *others))]

    @property
    def operations(self) -> Size:
        """The number of elements of the result."""
        return product(shape_of(self.res))
