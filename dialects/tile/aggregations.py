"""The aggregations of statements, by the kind of elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, Operation, SSAValue

from tessella.dialects.elements import is_unsigned
from tessella.dialects.nn.core import is_float

Accumulate = Callable[[SSAValue, SSAValue], Operation]


@dataclass(frozen=True)
class Aggregation:
    """How code computes an aggregation, such as a sum, of elements of one kind: signed or unsigned
    integers, floats, or booleans."""

    accumulate: Accumulate
    lanes: str
    """The kind of ``vector.reduction`` that combines the lanes."""
    identity: Callable[[int], float]
    """A function from the bit width of the elements to the initial value of the accumulator."""


def _smallest(bits: int) -> int:
    return -(1 << (bits - 1))


def _largest(bits: int) -> int:
    return (1 << (bits - 1)) - 1


_FLOATS = {
    "+": Aggregation(arith.AddfOp, "add", lambda _: 0.0),
    "*": Aggregation(arith.MulfOp, "mul", lambda _: 1.0),
    ">": Aggregation(arith.MaximumfOp, "maximumf", lambda _: -math.inf),
    "<": Aggregation(arith.MinimumfOp, "minimumf", lambda _: math.inf),
}
_INTEGERS = {
    "+": Aggregation(arith.AddiOp, "add", lambda _: 0),
    "*": Aggregation(arith.MuliOp, "mul", lambda _: 1),
    ">": Aggregation(arith.MaxSIOp, "maxsi", _smallest),
    "<": Aggregation(arith.MinSIOp, "minsi", _largest),
}
_UNSIGNED = {
    "+": _INTEGERS["+"],
    "*": _INTEGERS["*"],
    ">": Aggregation(arith.MaxUIOp, "maxui", lambda _: 0),
    "<": Aggregation(arith.MinUIOp, "minui", lambda bits: (1 << bits) - 1),
}
_BOOLEANS = {
    "+": Aggregation(arith.OrIOp, "or", lambda _: 0),
    "*": Aggregation(arith.AndIOp, "and", lambda _: 1),
    ">": Aggregation(arith.OrIOp, "or", lambda _: 0),
    "<": Aggregation(arith.AndIOp, "and", lambda _: 1),
}


def aggregation_of(kind: str, element: Attribute) -> Aggregation:
    """Return how code computes the aggregation ``kind``, such as ``+`` or ``>``, of elements of
    this type."""
    if is_float(element):
        return _FLOATS[kind]
    if is_unsigned(element):
        return _UNSIGNED[kind]
    return (_BOOLEANS if element == i1 else _INTEGERS)[kind]
