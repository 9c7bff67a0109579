"""The `acme` dialect."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import Float64Type, FloatAttr
from xdsl.ir import Dialect
from xdsl.irdl import irdl_op_definition, prop_def

from tessella.dialects.nn.core import Tensor
from tessella.dialects.nn.elementwise import FloatUnaryOp
from tessella.support.errors import ShapeError


@irdl_op_definition
class SquareplusOp(FloatUnaryOp):
    """Elementwise (x + sqrt(x^2 + b)) / 2, for b >= 0.

    A smooth relu. Barron, "Squareplus: A Softplus-Like Algebraic Rectifier", arXiv 2112.11687.
    """

    name = "acme.squareplus"
    b = prop_def(FloatAttr[Float64Type])

    def infer(self) -> Sequence[Tensor]:
        if not self.b.value.data >= 0:
            raise ShapeError("acme.squareplus: expected b >= 0", found=str(self.b.value.data))
        return super().infer()


Acme = Dialect("acme", [SquareplusOp], [])
