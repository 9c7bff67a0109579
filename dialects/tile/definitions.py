"""Matching of the ops that define values in the scalar bodies of statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, IntegerType, i1, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from tessella.dialects.arith import ConstantOp
from tessella.dialects.tile.bodies import IndexOp

_WIDE = (IndexType(), i32, i64)
"""The integer types that can represent all values of an index."""


def operands_of(value: SSAValue, name: str, **properties: Attribute) -> Sequence[SSAValue] | None:
    """Return the operands of the op that computes a value, if the op has this name and these
    properties."""
    op = value.owner
    if not isinstance(op, Operation) or op.name != name:
        return None
    return op.operands if all(op.properties[k] == v for k, v in properties.items()) else None


def index_of(value: SSAValue) -> str | None:
    """Return the name of the index that an integer value equals, if its type can represent all
    values of the index; otherwise None."""
    owner = value.owner
    while isinstance(owner, Operation) and owner.name in ("arith.index_cast", "arith.extsi"):
        if value.type not in _WIDE:
            return None
        value = owner.operands[0]
        owner = value.owner
    return owner.index.data if isinstance(owner, IndexOp) else None


def number_of(value: SSAValue) -> float | None:
    """Return the number of a constant; None for another value."""
    owner = value.owner
    attribute = owner.value if isinstance(owner, ConstantOp) else None
    return attribute.value.data if isinstance(attribute, FloatAttr | IntegerAttr) else None


def highest(value: SSAValue) -> int | None:
    """Return an upper bound of an integer that cannot be negative, inferred from the ops that
    compute it; None if no bound is known."""
    if value.type == i1:
        return 1
    owner = value.owner
    if isinstance(owner, ConstantOp):
        number = number_of(value)
        return number if isinstance(number, int) and number >= 0 else None
    if not isinstance(owner, Operation) or owner.name not in _BOUNDED:
        return None
    found = _BOUNDED[owner.name]([highest(operand) for operand in owner.operands])
    bits = value.type.width.data if isinstance(value.type, IntegerType) else 64
    return found if found is not None and found < 1 << (bits - 1) else None


def _both(combine: Callable[[int, int], int]) -> Callable[[Sequence[int | None]], int | None]:
    """Return a function that combines the upper bounds of two operands with ``combine``, and
    returns None if one of the bounds is unknown."""

    def bound(bounds: Sequence[int | None]) -> int | None:
        a, b = bounds
        return None if a is None or b is None else combine(a, b)

    return bound


_BOUNDED: Mapping[str, Callable[[Sequence[int | None]], int | None]] = {
    "arith.addi": _both(int.__add__),
    "arith.muli": _both(int.__mul__),
    "arith.minui": lambda bounds: min((b for b in bounds if b is not None), default=None),
    **dict.fromkeys(("arith.extui", "arith.index_cast"), lambda bounds: bounds[0]),
}
"""For each integer op with a known bound: a function from the upper bounds of its operands to the
upper bound of its result."""
