"""Integer tensors with elements that are linear functions of their positions.

    %0    = nn.iota count [seq]                0, 1, 2..
    %1    = nn.add %0, %past                   past, past + 1..
    %rows = nn.reshape %1 shape [[seq], 1]     row + past

The trait ``CountsPositions`` marks an op with a result that counts positions if its operands do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tessella.dialects.elements import element_of
from tessella.dialects.nn.core import NnOp, shape_of
from tessella.dialects.nn.known import known_number
from tessella.dialects.nn.traits import CountsPositions
from tessella.runtime.weights import WeightStore
from tessella.support.sizes import Size


@dataclass(frozen=True)
class Positions:
    """A linear function of an element's position: the sum of its coordinates times ``factors``,
    plus ``constant``."""

    factors: Mapping[int, int]
    """The factor of each dimension. Dimensions are counted from the last one, which is -1."""
    constant: Size

    def __add__(self, other: Positions) -> Positions:
        axes = {**self.factors, **other.factors}
        factors = {d: self.factors.get(d, 0) + other.factors.get(d, 0) for d in axes}
        return Positions({d: k for d, k in factors.items() if k}, self.constant + other.constant)

    def __mul__(self, factor: int) -> Positions:
        factors = {d: k * factor for d, k in self.factors.items() if factor}
        return Positions(factors, self.constant * factor)

    def __neg__(self) -> Positions:
        return self * -1

    def __sub__(self, other: Positions) -> Positions:
        return self + -other

    def ends(self, shape: Sequence[Size]) -> tuple[Size, Size]:
        """Return the least and the greatest value of the function in a nonempty tensor of this
        shape."""
        ends = [k * (shape[d] - 1) for d, k in self.factors.items()]
        signs = list(self.factors.values())
        low = sum((end for end, k in zip(ends, signs, strict=True) if k < 0), self.constant)
        return low, sum((end for end, k in zip(ends, signs, strict=True) if k > 0), self.constant)


def positions_of(value: SSAValue, weights: WeightStore) -> Positions | None:
    """Return the elements of an integer value as a linear function of their positions; None if no
    such function is known."""
    if not element_of(value.type).is_integer:
        return None
    if (number := known_number(value, weights)) is not None:
        return Positions({}, int(number))
    op = value.owner
    counts = op.get_trait(CountsPositions) if isinstance(op, NnOp) else None
    if counts is None or not isinstance(op, NnOp):
        return None
    taken = [positions_of(x, weights) for x in op.operands]
    found = None if None in taken else counts.function(op, *taken)
    if found is None:
        return None
    # a dimension of size 1 has a single position, and may be broadcast
    shape = shape_of(value)
    return Positions({d: k for d, k in found.factors.items() if shape[d] != 1}, found.constant)


def difference(op: NnOp, weights: WeightStore) -> Positions | None:
    """Return the first operand of an op minus the second as a linear function of positions; None if
    no such function is known for one of the operands."""
    lhs, rhs = (positions_of(x, weights) for x in op.operands)
    return None if lhs is None or rhs is None else lhs - rhs
