"""Values that follow from sizes, which a program reads when it runs."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType, i64
from xdsl.irdl import base, irdl_op_definition, result_def, traits_def
from xdsl.traits import Pure

from tessella.dialects.nn.checks import check_least
from tessella.dialects.nn.core import NnOp, Tensor, tensor
from tessella.dialects.sizes import size_def, sizes_def


class SymbolicOp(NnOp):
    """An op without operands whose result follows from its sizes."""

    res = result_def(base(TensorType))
    traits = traits_def(Pure())


@irdl_op_definition
class SizesOp(SymbolicOp):
    """The values of sizes: `%s = nn.sizes values [[seq], 64] : tensor<2xi64>`."""

    name = "nn.sizes"
    values = sizes_def()

    def infer(self) -> Sequence[Tensor]:
        return [tensor(i64, [len(self.settings["values"])])]


@irdl_op_definition
class IotaOp(SymbolicOp):
    """0, 1, 2..: `%i = nn.iota count [seq] : tensor<[seq]xi64>`."""

    name = "nn.iota"
    count = size_def()

    def infer(self) -> Sequence[Tensor]:
        count = self.settings["count"]
        check_least(self, "count", [count], 0)
        return [tensor(i64, [count])]
