"""Other orders of the statements of a kernel."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from xdsl.ir import Block, Operation

from tessella.dialects.tile import ContractOp, KernelOp


def shuffle(kernel: KernelOp, random: Random) -> None:
    """Put the statements of a kernel in any order in which each comes after those that it depends
    on."""
    block, last = kernel.body.block, kernel.returned
    left = [op for op in block.ops if op is not last]
    needed = {op: _needed(op, block) for op in left}
    placed: list[Operation] = []
    while left:
        op = random.choice([op for op in left if needed[op].isdisjoint(left)])
        left.remove(op)
        placed.append(op)
    for op in [*placed, last]:
        op.detach()
        block.add_op(op)


def _needed(op: Operation, block: Block) -> set[Operation]:
    """The ops that make what an op reads, and those that read what it writes over."""
    values = (value for each in op.walk() for value in each.operands)
    needed = {value.owner for value in values if isinstance(value.owner, Operation)}
    if isinstance(op, ContractOp) and op.init is not None:
        needed |= _outermost((use.operation for use in op.init.uses), block)
    return needed - {op}


def _outermost(ops: Iterable[Operation], block: Block) -> set[Operation]:
    found = (block.find_ancestor_op_in_block(op) for op in ops)
    return {op for op in found if op is not None}
