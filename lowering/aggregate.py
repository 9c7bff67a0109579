"""The aggregations as ops: identity, accumulation, and the sum over lanes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import IntegerType, VectorType
from xdsl.ir import Attribute, SSAValue

from tessella.dialects.nn.core import is_float, number
from tessella.dialects.tile import ContractOp, YieldOp
from tessella.lowering.values import Emitter, Val

_FLOAT: dict[str, type[arith.FloatingPointLikeBinaryOperation]] = {
    "+": arith.AddfOp,
    "*": arith.MulfOp,
    ">": arith.MaximumfOp,
    "<": arith.MinimumfOp,
}
_INTEGER: dict[str, type[arith.SignlessIntegerBinaryOperation]] = {
    "+": arith.AddiOp,
    "*": arith.MuliOp,
    ">": arith.MaxSIOp,
    "<": arith.MinSIOp,
}
_FLOAT_IDENTITY = {"+": 0.0, "*": 1.0, ">": float("-inf"), "<": float("inf")}
_LANES = {
    True: {"+": "add", "*": "mul", ">": "maximumf", "<": "minimumf"},
    False: {"+": "add", "*": "mul", ">": "maxsi", "<": "minsi"},
}


def identity(e: Emitter, kind: str, element: Attribute, vector_index: str | None) -> SSAValue:
    """The accumulator before any point: a scalar, or a vector where there is a vector index."""
    if is_float(element):
        value = _FLOAT_IDENTITY[kind]
    else:
        assert isinstance(element, IntegerType)
        half = 1 << (element.width.data - 1)
        value = {"+": 0, "*": 1, ">": -half, "<": half - 1}[kind]
    scalar = Val(e.constant(number(value, element), element))
    return e.spread(scalar) if vector_index is not None else scalar.ssa


def accumulate(e: Emitter, kind: str, total: SSAValue, value: SSAValue) -> SSAValue:
    """``total`` and one more value."""
    element = total.type
    if isinstance(element, VectorType):
        element = element.element_type
    table = _FLOAT if is_float(element) else _INTEGER
    return e.op(table[kind](total, value))


def horizontal(e: Emitter, kind: str, totals: Sequence[SSAValue]) -> SSAValue:
    """The one scalar of several vectors of partial results."""
    total = totals[0]
    for other in totals[1:]:
        total = accumulate(e, kind, total, other)
    assert isinstance(total.type, VectorType)
    element = total.type.element_type
    kind_attr = vector.CombiningKindAttr(vector.CombiningKindFlag(_LANES[is_float(element)][kind]))
    op = vector.ReductionOp.create(
        operands=[total], result_types=[element], properties={"kind": kind_attr}
    )
    return e.op(op)


def is_multiply_add(op: ContractOp) -> bool:
    """Whether a statement sums the products of two float operands."""
    ops = list(op.combine.block.ops)
    if op.aggregation.data != "+" or len(ops) != 2:
        return False
    product, last = ops
    return (
        isinstance(product, arith.MulfOp)
        and isinstance(last, YieldOp)
        and tuple(product.operands) == tuple(op.combine.block.args)
        and last.value == product.result
    )
