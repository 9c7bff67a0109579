"""Functions of a program beside `@main`: isolation from outer values, and removal of unused ops."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects import nn
from tessella.dialects.nn.traits import definitions


def isolate(body: Block) -> Sequence[SSAValue]:
    """Make a function's block independent of values that other blocks define, and return the values
    that it captured.

    Constants are copied into the block. Each other value becomes an argument of the block, in the
    order of the result.
    """
    inner: dict[SSAValue, SSAValue] = {}
    others: list[SSAValue] = []
    for op in tuple(body.ops):
        for i, value in enumerate(op.operands):
            if _block_of(value) is body:
                continue
            if value not in inner:
                inner[value] = new = _brought(value, body)
                new.name_hint = value.name_hint
                if new.owner is body:
                    others.append(value)
            op.operands[i] = inner[value]
    return others


def _block_of(value: SSAValue) -> Block | None:
    return value.owner.parent if isinstance(value.owner, Operation) else value.owner


def _brought(value: SSAValue, body: Block) -> SSAValue:
    """Return a copy of a constant at the start of a block, or a new argument of the block."""
    if not isinstance(value.owner, nn.ConstantOp):
        return body.insert_arg(value.type, len(body.args))
    copy = value.owner.clone()
    Rewriter.insert_op(copy, InsertPoint.at_start(body))
    return copy.res


def clean(function: FuncOp) -> set[str]:
    """Remove the ops of a function whose results have no uses, except those that define symbols.
    Returns the names of the functions that the remaining ops call."""
    used: set[str] = set()
    for op in reversed(tuple(function.body.block.ops)):
        is_used = any(result.uses for result in op.results) or definitions(op)
        if isinstance(op, nn.NnOp) and not is_used:
            op.detach()
            op.erase()
        elif isinstance(op, nn.ScanOp):
            used.add(op.body_name)
    return used
