"""Tensors that several statements write, each a part of the tensor.

    %e = tile.empty : tensor<4xf32>
    %r = tile.contract = [i: 2] (%x[i]) init %e -> [i] ...
    %s = tile.contract = [i: 2] (%y[i]) init %r -> [i + 2] ...

All three values are one buffer. A statement with an `init` writes into the buffer of that value and
ends its lifetime: nothing may read the value afterwards.

The init may be an argument of the kernel. One result is then in the memory of that argument, and
nothing may read the argument after the call.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue, Use
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.tile.bodies import ExtractOp
from tessella.dialects.tile.ops import ContractOp, EmptyOp
from tessella.dialects.tile.selection import SelectionOp


def overwriter(value: SSAValue) -> ContractOp | None:
    """Return the statement that has a tensor as its `init`, and so overwrites it; None if there is
    none."""
    return next((op for use in value.uses if (op := _overwriter(use)) is not None), None)


def init_root(value: SSAValue) -> SSAValue:
    """Return the tensor that first had the buffer of a value in a kernel, before statements
    overwrote it through `init`."""
    while isinstance(value.owner, ContractOp) and value.owner.init is not None:
        value = value.owner.init
    return value


def reads(op: ContractOp | SelectionOp) -> Iterator[SSAValue]:
    """Yield the tensors that a statement reads elements of, by accesses or by `tile.extract`."""
    yield from op.reads if isinstance(op, SelectionOp) else op.tensors[:-1]
    yield from (x.source for x in op.walk() if isinstance(x, ExtractOp))


def check_inits(block: Block) -> None:
    """Raise VerifyException if a tensor is used after a statement has overwritten it, or if an
    `init` is invalid."""
    order = {op: i for i, op in enumerate(block.ops)}
    for op in order:
        if not isinstance(op, ContractOp) or (init := op.init) is None:
            continue
        name = f"%{init.name_hint or '?'}"
        if not isinstance(init.owner, ContractOp | EmptyOp | Block):
            raise VerifyException(
                f"tile.contract: expected an init that a statement makes, found {name}"
            )
        if init.type != op.res.type:
            raise VerifyException(
                f"tile.contract: expected an init of the result's type {op.res.type}, found "
                f"{init.type}"
            )
        last = max(order[_outermost(use.operation, block)] for use in init.uses)
        if last > order[op] or any(value is init for value in reads(op)):
            raise VerifyException(
                f"tile.contract: {name} is used after a statement has written over it as its init; "
                "read the result of that statement, or a copy made before"
            )


def _overwriter(use: Use) -> ContractOp | None:
    op = use.operation
    if not isinstance(op, ContractOp) or use.index < len(op.accesses) - 1:
        return None
    return op


def _outermost(op: Operation, block: Block) -> Operation:
    """Return the op directly in ``block`` that is ``op``, or contains it."""
    found = block.find_ancestor_op_in_block(op)
    assert found is not None, "a kernel is isolated from above"
    return found
