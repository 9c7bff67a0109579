"""The aggregations as ops: identity, accumulation, and the sum over lanes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, vector
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import IntegerType, i1
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Operation, SSAValue

from tessella.dialects.arith import CmpfOp, SelectOp, element_of
from tessella.dialects.elements import is_unsigned
from tessella.dialects.nn.core import is_float, number
from tessella.lowering.values import Emitter, Val

Accumulate = Callable[[SSAValue, SSAValue], Operation]


@dataclass(frozen=True)
class Aggregation:
    """How an aggregation runs on one kind of elements."""

    accumulate: Accumulate
    lanes: str
    """The kind of ``vector.reduction`` that adds up the lanes."""
    identity: Callable[[int], float]
    """The accumulator before any point, for elements of so many bits."""


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


def _find(kind: str, element: Attribute) -> Aggregation:
    if is_float(element):
        return _FLOATS[kind]
    if is_unsigned(element):
        return _UNSIGNED[kind]
    return (_BOOLEANS if element == i1 else _INTEGERS)[kind]


def _bits(element: Attribute) -> int:
    return element.width.data if isinstance(element, IntegerType) else 0


def identity(e: Emitter, kind: str, element: Attribute, vector_index: str | None) -> SSAValue:
    """The initial accumulator: a scalar, or a vector if there is a vector index."""
    value = _find(kind, element).identity(_bits(element))
    scalar = Val(e.constant(number(value, element), element))
    return e.spread(scalar) if vector_index is not None else scalar.ssa


def accumulate(e: Emitter, kind: str, total: SSAValue, value: SSAValue) -> SSAValue:
    """``total`` and one more value."""
    return e.op(_find(kind, element_of(total.type)).accumulate(total, value))


def greater(e: Emitter, value: SSAValue, total: SSAValue) -> SSAValue:
    """The value if it is greater than ``total``, which it is not if it is NaN."""
    above = e.op(CmpfOp(value, total, "ogt"))
    return e.op(SelectOp(above, value, total))


def horizontal(e: Emitter, kind: str, totals: Sequence[SSAValue]) -> SSAValue:
    """The scalar that several vectors of partial results reduce to."""
    total = totals[0]
    for other in totals[1:]:
        total = accumulate(e, kind, total, other)
    return _over_lanes(e, _find(kind, element_of(total.type)).lanes, total)


def greatest(e: Emitter, totals: Sequence[SSAValue]) -> SSAValue:
    """The greatest of several vectors of numbers, none of them NaN."""
    total = totals[0]
    for other in totals[1:]:
        total = greater(e, other, total)
    return _over_lanes(e, "maxnumf", total, FastMathFlagsAttr([FastMathFlag.NO_NANS]))


def _over_lanes(
    e: Emitter, kind: str, total: SSAValue, flags: FastMathFlagsAttr | None = None
) -> SSAValue:
    element = element_of(total.type)
    kinds = vector.CombiningKindAttr(vector.CombiningKindFlag(kind))
    op = vector.ReductionOp.create(
        operands=[total],
        result_types=[element],
        properties={"kind": kinds} | ({"fastmath": flags} if flags is not None else {}),
    )
    return e.op(op)
