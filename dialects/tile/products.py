"""Recognition of statements that sum products, by their combine bodies."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects import arith
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tessella.dialects.elements import find_element
from tessella.dialects.tile.bodies import YieldOp
from tessella.support.elements import Element

WIDENINGS = ("arith.extf", "arith.extui", "arith.extsi")


class ProductElements(NamedTuple):
    """The element types of a sum of products: of the two operands as they are read, and of the
    sum."""

    a: Element
    b: Element
    accumulated: Element


def factors(aggregation: str, combine: Block) -> ProductElements | None:
    """Return the element types of the products that a statement sums: the body only multiplies its
    two operands, possibly widened. None for any other statement."""
    ops = [op for op in combine.ops if not _widens_argument(op)]
    if aggregation != "+" or len(ops) != 2:
        return None
    product, last = ops
    if not (
        isinstance(product, arith.MulfOp | arith.MuliOp)
        and isinstance(last, YieldOp)
        and last.value == product.result
        and tuple(map(_argument, product.operands)) == tuple(combine.args)
    ):
        return None
    types = (*(arg.type for arg in combine.args), last.value.type)
    a, b, accumulated = map(find_element, types)
    if a is None or b is None or accumulated is None:
        return None
    return ProductElements(a, b, accumulated)


def _widens_argument(op: Operation) -> bool:
    return op.name in WIDENINGS and isinstance(op.operands[0], BlockArgument)


def _argument(value: SSAValue) -> SSAValue:
    """Return the body argument that a value equals, or is a widening of; any other value is
    returned unchanged."""
    owner = value.owner
    if isinstance(owner, Operation) and _widens_argument(owner):
        return owner.operands[0]
    return value
