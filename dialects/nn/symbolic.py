"""Values computed from sizes, which a program reads at run time."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType, i64
from xdsl.irdl import base, irdl_op_definition, result_def, traits_def
from xdsl.traits import Pure

from tessella.dialects.nn.checks import check_least
from tessella.dialects.nn.core import NnOp, Tensor, tensor
from tessella.dialects.nn.positions import Positions
from tessella.dialects.nn.traits import CountsPositions
from tessella.dialects.sizes import size_def, sizes_def


class SymbolicOp(NnOp):
    """Base of ops without operands that compute their result from sizes, which are properties of
    the op."""

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
    """The integers from 0 to a size, which is excluded: `%i = nn.iota count [seq] :
    tensor<[seq]xi64>`."""

    name = "nn.iota"
    traits = traits_def(CountsPositions(_iota))
    count = size_def()

    def infer(self) -> Sequence[Tensor]:
        count = self.settings["count"]
        check_least(self, "count", [count], 0)
        return [tensor(i64, [count])]
