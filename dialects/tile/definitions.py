"""Matching of the ops that define values in the scalar bodies of statements."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, i32, i64
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
