"""Matrices of two numbers on either side of a diagonal, which comparisons of positions produce.

    %v = nn.less_equal %columns, %rows        column <= row + past

With concrete sizes, these values are constants, and are examined as arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.core import dtype_of, shape_of
from tessella.dialects.nn.known import known_number
from tessella.dialects.nn.movement import ExpandOp, ReshapeOp
from tessella.dialects.nn.positions import difference
from tessella.runtime.elements import full, widened
from tessella.runtime.weights import WeightStore
from tessella.support.sizes import Size

Number = float | int


@dataclass(frozen=True)
class Diagonal:
    """A matrix with only two numbers, or a batch of equal ones: ``below`` where column <= row +
    past, and ``above`` elsewhere."""

    past: Size
    below: Number
    above: Number


def diagonal(value: SSAValue, weights: WeightStore) -> Diagonal | None:
    """Return a value as a ``Diagonal``; None if it is not computed from comparisons of positions
    and numbers."""
    op = value.owner
    if isinstance(op, ReshapeOp | ExpandOp):
        same = shape_of(op.x)[-2:] == shape_of(value)[-2:]
        plain = isinstance(op, ExpandOp) or all(n == 1 for n in shape_of(op.x)[:-2])
        return diagonal(op.x, weights) if same and plain else None
    if isinstance(op, ew.CompareOp) and (found := _compared(op, weights)) is not None:
        return found
    return _computed(op, weights) if isinstance(op, ew.ElementwiseOp) else None


def _compared(op: ew.CompareOp, weights: WeightStore) -> Diagonal | None:
    signs, found = op.by_sign(), difference(op, weights)
    if signs is None or found is None:
        return None
    if found.factors == {-1: -1, -2: 1}:
        signs, found = signs[::-1], -found
    below, at, above = signs
    if found.factors != {-1: 1, -2: -1} or below == above:
        return None
    return Diagonal((0 if at == below else -1) - found.constant, below, above)


def _computed(op: ew.ElementwiseOp, weights: WeightStore) -> Diagonal | None:
    """Return the result of an elementwise op as a ``Diagonal``; None unless its operands are
    numbers and diagonal matrices with the same diagonal."""
    columns: list[tuple[Number, Number]] = []
    pasts: set[Size] = set()
    for x in op.operands:
        number = known_number(x, weights)
        found = None if number is not None else diagonal(x, weights)
        if number is not None:
            columns.append((number, number))
        elif found is not None and shape_of(x)[-2:] == shape_of(op.res)[-2:]:
            columns.append((found.below, found.above))
            pasts.add(found.past)
        else:
            return None
    if len(pasts) != 1:
        return None
    dtypes = [dtype_of(x.type) for x in op.operands]
    below, above = (
        widened(op.evaluate(*(full((1,), n, t) for n, t in zip(each, dtypes, strict=True)))[0])
        for each in zip(*columns, strict=True)
    )
    return Diagonal(pasts.pop(), below.item(), above.item())
