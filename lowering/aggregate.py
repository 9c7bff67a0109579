"""Ops for the aggregations of a statement (sum, product, minimum, maximum): the initial value, one
accumulation, and the combination of a vector's lanes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import vector
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import IntegerType
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, SSAValue

from tessella.dialects.arith import CmpfOp, SelectOp, element_of
from tessella.dialects.nn.core import number
from tessella.dialects.tile.aggregations import aggregation_of
from tessella.lowering.values import BlockEmitter, Val


def _bits(element: Attribute) -> int:
    return element.width.data if isinstance(element, IntegerType) else 0


def identity(e: BlockEmitter, kind: str, element: Attribute, vector_index: str | None) -> SSAValue:
    """Return the initial accumulator: a scalar, or a vector if there is a vector index."""
    value = aggregation_of(kind, element).identity(_bits(element))
    scalar = Val(e.constant(number(value, element), element))
    return e.spread(scalar) if vector_index is not None else scalar.ssa


def accumulate(e: BlockEmitter, kind: str, total: SSAValue, value: SSAValue) -> SSAValue:
    """Return the aggregate of ``total`` and one more value."""
    return e.op(aggregation_of(kind, element_of(total.type)).accumulate(total, value))


def greater(e: BlockEmitter, value: SSAValue, total: SSAValue) -> SSAValue:
    """Return ``value`` if it is greater than ``total``, else ``total``. A NaN value is never
    greater."""
    above = e.op(CmpfOp(value, total, "ogt"))
    return e.op(SelectOp(above, value, total))


def horizontal(e: BlockEmitter, kind: str, totals: Sequence[SSAValue]) -> SSAValue:
    """Combine the lanes of several vectors of partial results into one scalar."""
    total = totals[0]
    for other in totals[1:]:
        total = accumulate(e, kind, total, other)
    return _over_lanes(e, aggregation_of(kind, element_of(total.type)).lanes, total)


def greatest(e: BlockEmitter, totals: Sequence[SSAValue]) -> SSAValue:
    """Return the greatest lane of several vectors, in which no lane may be NaN."""
    total = totals[0]
    for other in totals[1:]:
        total = greater(e, other, total)
    return _over_lanes(e, "maxnumf", total, FastMathFlagsAttr([FastMathFlag.NO_NANS]))


def every(e: BlockEmitter, flags: SSAValue) -> SSAValue:
    """Return whether all lanes are true."""
    return _over_lanes(e, "and", flags)


def _over_lanes(
    e: BlockEmitter, kind: str, total: SSAValue, flags: FastMathFlagsAttr | None = None
) -> SSAValue:
    element = element_of(total.type)
    kinds = vector.CombiningKindAttr(vector.CombiningKindFlag(kind))
    op = vector.ReductionOp.create(
        operands=[total],
        result_types=[element],
        properties={"kind": kinds} | ({"fastmath": flags} if flags is not None else {}),
    )
    return e.op(op)
