"""The order of ops in a block, which determines where replacements are inserted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import reduce

from xdsl.ir import Operation
from xdsl.traits import Pure

from tessella.dialects.nn.core import NnOp


def first_of(ops: Sequence[Operation]) -> Operation:
    """Return the op of one block that runs first."""
    return reduce(lambda a, b: a if a.is_before_in_block(b) else b, ops)


def in_order(roots: Iterable[NnOp], ops: Collection[NnOp]) -> list[NnOp]:
    """Return the roots and the ops among ``ops`` that they depend on, operands first."""
    order: dict[NnOp, None] = {}

    def visit(op: NnOp) -> None:
        for value in op.operands:
            if isinstance(value.owner, NnOp) and value.owner in ops and value.owner not in order:
                visit(value.owner)
        order[op] = None

    for root in roots:
        visit(root)
    return list(order)


def producers_after(roots: Sequence[NnOp], readers: Sequence[NnOp]) -> Sequence[Operation] | None:
    """Return the ops after the first root on which ``readers``, ops not yet in a block, depend;
    operands first.

    Returns None if these ops cannot move before the first root, because one of them depends on a
    root or has an effect.
    """
    between = _between(roots)
    order: dict[Operation, None] = {}
    pending = [value.owner for op in reversed(readers) for value in reversed(op.operands)]
    entered: set[object] = set()
    while pending:
        op = pending.pop()
        if not isinstance(op, Operation) or op not in between or op in order:
            continue
        if op in roots or not op.has_trait(Pure):
            return None
        if op in entered:
            order[op] = None
        else:
            entered.add(op)
            pending += [op, *(value.owner for value in reversed(op.operands))]
    return list(order)


def _between(roots: Sequence[NnOp]) -> set[Operation]:
    """Return the ops from the first root to the last one; empty if there is only one root."""
    found: set[Operation] = set()
    op: Operation | None = first_of(roots) if len(roots) > 1 else None
    while op is not None and not found.issuperset(roots):
        found.add(op)
        op = op.next_op
    return found
