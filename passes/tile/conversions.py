"""Operations that convert floats of narrow storage types, such as bf16, to and from the type of the
arithmetic.

A point of a product converts what it loads: a vector for all rows of a register tile, an element
for each row. In other bodies, each vector of the statement is converted.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.arith import ExtFOp, TruncFOp
from xdsl.ir import Block, Operation

from tessella.dialects.elements import find_element
from tessella.support.elements import Element
from tessella.targets import Target

# Operations count in slots of the FMA ports. Other ports do most of a conversion, so that one of
# them counts less than a multiply-add.


@dataclass(frozen=True)
class ConversionCost:
    """The numbers of operations that convert elements of one type on a machine."""

    vector: float
    """Operations that widen a vector."""
    element: float
    """Operations that widen one element before it is broadcast."""
    narrowing: float
    """Operations that narrow a vector."""


WIDENED_VECTOR, WIDENED_GROUP = 1.0, 3.0
"""Shuffles that widen a vector of integers for an instruction, and a group of them.

A group moves from a scalar register to a vector register before it is broadcast. A group of the
instruction's own element needs none.
"""


def widening_shuffles(vectors: float, *, by_vector: bool) -> float:
    """Return the number of shuffles that widen integers for a dot product instruction: of
    ``vectors`` vectors, or of one group that all lanes share."""
    return WIDENED_VECTOR * vectors if by_vector else WIDENED_GROUP


FREE = ConversionCost(0.0, 0.0, 0.0)
COSTS = {
    ("f16", True): ConversionCost(1.0, 1.0, 1.0),
    ("f16", False): ConversionCost(9.0, 9.0, 15.0),
    ("bf16", True): ConversionCost(0.25, 0.1, 1.0),
    ("bf16", False): ConversionCost(1.0, 2.0, 8.0),
}
"""Conversion costs by element, and whether the machine has instructions for the conversion. Without
them, arithmetic on the bits converts the element."""


def conversion(element: Element, target: Target) -> ConversionCost:
    """Return the cost of converting an element; ``FREE`` if arithmetic uses the element itself."""
    if not (element.narrow and element.is_native):
        return FREE
    return COSTS[element.name, target.converts(element.name)]


def converting_ops(block: Block, target: Target) -> float:
    """Return the additional operations of the conversions in a body. One operation for each
    conversion is not included, as every op of a body counts as one."""
    return sum(_excess(op, target) for op in block.ops if op.name in _CASTS)


_CASTS = (ExtFOp.name, TruncFOp.name)


def _excess(op: Operation, target: Target) -> float:
    widens = op.name == ExtFOp.name
    stored = find_element((op.operands[0] if widens else op.results[0]).type)
    if stored is None or not stored.narrow:
        return 0.0
    found = conversion(stored, target)
    return max(1.0, found.vector if widens else found.narrowing) - 1.0
