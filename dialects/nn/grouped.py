"""Products of consecutive groups of rows, as in mixtures of experts whose tokens are sorted by
expert.

`ends[e]` is the row after the last one of group e, and the first row of group e + 1. An end before
an earlier end, or before the first row, counts as that end or row, and an end after the last row as
the number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.irdl import base, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from tessella.dialects.nn.checks import check_index, check_number, check_same_element
from tessella.dialects.nn.core import NnOp, Tensor, shape_of, tensor, tensor_type
from tessella.dialects.nn.host_work import POINT, STEPS
from tessella.dialects.nn.traits import SumsProducts
from tessella.support.conditions import decided
from tessella.support.decisions import differs
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size, product


class GroupedOp(NnOp):
    """A product of groups of rows. The first two operands are factors, the third one has the
    ends."""

    res = result_def(base(TensorType))
    traits = traits_def(Pure(), SumsProducts())

    def check(self, ranks: tuple[int, int], sizes: tuple[str, str]) -> None:
        """Check the elements of all operands, the rank of the factors, and that there are groups.
        ``sizes`` describe the factors."""
        a, b, ends = self.operands
        check_same_element(self, (a, b))
        check_number(self, a)
        check_index(self, ends)
        groups = shape_of(ends)
        found = tuple(len(shape_of(value)) for value in (a, b))
        if found != ranks or len(groups) != 1 or not decided(groups[0] > 0):
            raise ShapeError(
                f"{self.name} takes {sizes[0]}, {sizes[1]} and the ends of one group or more",
                found=f"{a.type}, {b.type}, {ends.type}",
            )

    def agree(self, what: str, left: Size, right: Size) -> None:
        """Raise ShapeError if two sizes differ."""
        if differs(left, right):
            raise ShapeError(f"{self.name}: {what} differ", found=f"{left} and {right}")

    def result(self, shape: Sequence[Size]) -> Sequence[Tensor]:
        """Return the type of the result in a list: the element type of the factors, and this
        shape."""
        return [tensor(tensor_type(self.operands[0]).element_type, shape)]

    @property
    def host_bytes(self) -> Size:
        return self.operations // STEPS + POINT * shape_of(self.operands[2])[0]


@irdl_op_definition
class GroupedMatmulOp(GroupedOp):
    """The product of each row of x[S, K] and the matrix of its group, w[E, K, N]: [S, N].

    Rows after the last group are 0. The matrix of a group without rows is not read.
    """

    name = "nn.grouped_matmul"
    x = operand_def(base(TensorType))
    w = operand_def(base(TensorType))
    ends = operand_def(base(TensorType))

    def infer(self) -> Sequence[Tensor]:
        self.check((2, 3), ("x[S, K]", "w[E, K, N]"))
        rows, inner = shape_of(self.x)
        groups, depth, columns = shape_of(self.w)
        self.agree("the inner sizes", inner, depth)
        self.agree("the numbers of matrices and groups", groups, shape_of(self.ends)[0])
        return self.result((rows, columns))

    @property
    def contracted(self) -> Mapping[int, int]:
        return {0: 1, 1: 1}

    @property
    def operations(self) -> Size:
        return product(shape_of(self.res)) * shape_of(self.x)[1]


@irdl_op_definition
class GroupedOuterOp(GroupedOp):
    """The sum of the outer products of the rows of each group, of a[S, M] and b[S, N]: [E, M, N].

    It is 0 for a group without rows. Rows after the last group are not read.
    """

    name = "nn.grouped_outer"
    a = operand_def(base(TensorType))
    b = operand_def(base(TensorType))
    ends = operand_def(base(TensorType))

    def infer(self) -> Sequence[Tensor]:
        self.check((2, 2), ("a[S, M]", "b[S, N]"))
        (rows, left), (others, right) = shape_of(self.a), shape_of(self.b)
        self.agree("the numbers of rows", rows, others)
        return self.result((*shape_of(self.ends), left, right))

    @property
    def contracted(self) -> Mapping[int, int]:
        return {0: 0, 1: 0}

    @property
    def operations(self) -> Size:
        return product(shape_of(self.a)) * shape_of(self.b)[1]
