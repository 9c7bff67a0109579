"""A key of all that a comparison of groups of ops depends on.

Layers that repeat in a model have equal keys: only the names of their nodes and weights differ.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence

from xdsl.ir import SSAValue

from tessella.dialects.nn.constants import SplatOp, WeightOp
from tessella.dialects.nn.core import NnOp
from tessella.dialects.nn.fused import outside
from tessella.passes.base import PROVENANCE


def group_key(
    ops: Sequence[NnOp], constants: Container[NnOp], *, named: bool = False
) -> tuple[Hashable, ...]:
    """Return the key of ops, operands first, some of which are evaluated ahead: ``constants``.
    ``named`` says whether the key contains the names of nodes."""
    known: dict[SSAValue, Hashable] = {}
    rows: list[Hashable] = []
    for op in ops:
        read = tuple(_operand(x, known) for x in op.operands)
        rows.append(
            (
                type(op),
                op in constants,
                read,
                tuple(x.type for x in op.results),
                frozenset(op.properties.items()),
                frozenset(
                    (name, value)
                    for name, value in op.attributes.items()
                    if named or name not in PROVENANCE
                ),
            )
        )
        known.update((x, len(known) + i) for i, x in enumerate(op.results))
    return tuple(rows)


def _operand(value: SSAValue, known: dict[SSAValue, Hashable]) -> Hashable:
    """Return the number of a value that the group has met; that of a new one has its origin."""
    if value in known:
        return known[value]
    number = known[value] = len(known)
    owner = outside(value).owner
    splat = repr(owner.number) if isinstance(owner, SplatOp) else None
    return number, value.type, isinstance(owner, WeightOp), splat
