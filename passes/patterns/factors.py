"""Nested multiplications and divisions as a list of factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tessella.dialects.elements import element_of
from tessella.dialects.nn.core import (
    NnOp,
    broadcast_shapes,
    is_float,
    shape_of,
    tensor_type,
)
from tessella.dialects.nn.elementwise import DivOp, MulOp, PowOp, ReciprocalOp
from tessella.dialects.nn.known import known_number
from tessella.runtime.weights import WeightStore

_SPLIT = (MulOp, DivOp, ReciprocalOp, PowOp)
_ROUNDINGS = 8
"""The largest deviation of a constant from the intended number, in ULP."""


def is_close(number: float, wanted: float, like: SSAValue) -> bool:
    """Return whether a constant equals a number, up to rounding in a value's type."""
    element = tensor_type(like).element_type
    if not is_float(element):
        return number == wanted
    tolerance = _ROUNDINGS * element_of(element).epsilon
    return math.isclose(number, wanted, rel_tol=tolerance)


def is_normal(number: float, like: SSAValue) -> bool:
    """Return whether a number is normal in a floating-point value's type."""
    element = element_of(like.type)
    return element.least_normal <= abs(number) <= element.largest


@dataclass(frozen=True)
class Factors:
    """The product scale * factors / over, and the ops that compute it, from the last to the
    first."""

    scale: float
    factors: Sequence[SSAValue]
    over: Sequence[SSAValue]
    ops: Sequence[NnOp]


def factors_of(value: SSAValue, factors: int, over: int, weights: WeightStore) -> Factors | None:
    """Return a value as a product of ``factors`` factors and ``over`` divisors; None if it is no
    such product.

    An intermediate product that has other uses is not split.
    """
    splitter = _Splitter(value, (factors, over), weights)
    while splitter.step():
        pass
    return splitter.result()


class _Splitter:
    """Splits products into factors until the wanted number is reached."""

    def __init__(self, root: SSAValue, wanted: tuple[int, int], weights: WeightStore) -> None:
        self.root = root
        self.wanted = wanted
        self.weights = weights
        self.scale = 1.0
        self.sides: tuple[list[SSAValue], list[SSAValue]] = ([root], [])
        self.ops: list[NnOp] = []

    def result(self) -> Factors | None:
        """Return the factors and divisors; None if their numbers are not the wanted ones."""
        factors, over = self.sides
        fits = (len(factors), len(over)) == self.wanted
        return Factors(self.scale, factors, over, self.ops) if fits else None

    def step(self) -> bool:
        """Split one factor or divisor that is a product itself. Returns whether there was one."""
        for side in (0, 1):
            for i, value in enumerate(self.sides[side]):
                if self._may_split(value) and (parts := self._parts(value)) is not None:
                    self._split(side, i, parts)
                    return True
        return False

    def _may_split(self, value: SSAValue) -> bool:
        op = value.owner
        return (
            isinstance(op, _SPLIT)
            and not op.is_fixed
            and is_float(tensor_type(value).element_type)
            and (value is self.root or value.has_one_use())
        )

    def _split(self, side: int, i: int, parts: Factors) -> None:
        del self.sides[side][i]
        self.sides[side].extend(parts.factors)
        self.sides[1 - side].extend(parts.over)
        self.scale = self.scale / parts.scale if side else self.scale * parts.scale
        self.ops.extend(parts.ops)

    def _parts(self, value: SSAValue) -> Factors | None:
        """Return the factors and divisors of a product, quotient, reciprocal, square or cube.

        Returns None for other ops, if there are more operands than wanted, if a constant determines
        the shape, and if the constant factor is not a normal number.
        """
        op = value.owner
        match op:
            case MulOp():
                parts = self._operands(op, op.operands, ())
            case DivOp():
                parts = self._operands(op, (op.lhs,), (op.rhs,))
            case ReciprocalOp():
                parts = Factors(1.0, (), (op.x,), (op,))
            case PowOp() if known_number(op.rhs, self.weights) in (2, 3):
                exponent = known_number(op.rhs, self.weights)
                parts = Factors(1.0, (op.lhs,) * int(exponent or 0), (), (op,))
            case _:
                return None
        values = (*parts.factors, *parts.over)
        room = sum(self.wanted) - len(self.sides[0]) - len(self.sides[1]) + 1
        # A constant that determines the product's shape is more than a number.
        is_whole = broadcast_shapes([shape_of(x) for x in values]) == shape_of(value)
        return parts if len(values) <= room and is_whole and is_normal(parts.scale, value) else None

    def _operands(self, op: NnOp, factors: Sequence[SSAValue], over: Sequence[SSAValue]) -> Factors:
        above, below = (self._numbers(values) for values in (factors, over))
        return Factors(
            # A constant may be several factors: c * c.
            math.prod(above[x] for x in factors if x in above)
            / math.prod(below[x] for x in over if x in below),
            [x for x in factors if x not in above],
            [x for x in over if x not in below],
            (op,),
        )

    def _numbers(self, values: Sequence[SSAValue]) -> dict[SSAValue, float]:
        """Return the values that are known numbers, except zeros and numbers that are not finite,
        which cannot be divisors."""
        known = {x: known_number(x, self.weights) for x in values}
        return {x: float(n) for x, n in known.items() if n and math.isfinite(n)}
