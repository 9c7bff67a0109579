"""Fuse elementwise statements with the statements that they read, and with those that read them.

    %1 = tile.contract + [co: 64, x: 56 | ci: 64] (%D[x, ci], %K[co, ci]) -> [co, x] {mulf}
    %2 = tile.contract = [d0: 64, d1: 56] (%1[d0, d1], %B[d0]) -> [d0, d1] {addf}
    ->
    %2 = tile.contract + [co: 64, x: 56 | ci: 64] (%D[x, ci], %K[co, ci]) post (%B[co])
           -> [co, x] {mulf}, {addf}

An elementwise statement that reads each element of a tensor once is appended to the statement that
writes the tensor. If several statements write parts of the tensor, it is appended to each of them.
The tensor must have no other use.

    %1 = tile.contract = [d0: 98, d1: 9] (%X[d0 + 2, d1]) -> [d0, d1] {yield}
    %2 = tile.contract + [i: 98 | j: 9] (%1[i, j]) -> [i] {mulf}
    ->
    %2 = tile.contract + [i: 98 | j: 9] (%X[i + 2, j]) -> [i] {mulf}

An elementwise statement is computed inside the statements that read it, whatever their accesses, if
that takes less time than writing its result and reading it again (`passes/tile/inline.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tessella.dialects.tile import ContractOp, KernelOp
from tessella.passes.kinds import KernelPass
from tessella.passes.tile.append import appended
from tessella.passes.tile.inline import inlined
from tessella.passes.tile.rebuild import with_operands_once
from tessella.targets import Target


@dataclass(frozen=True)
class TileFuseMapsPass(KernelPass):
    """Fuse the elementwise statements of a kernel with the statements that they read, and with
    those that read them, for a target."""

    name = "tile-fuse-maps"
    stages = ("tile",)

    def rewrite(self, kernel: KernelOp, target: Target) -> None:
        for statement in kernel.statements:
            _fuse(statement, target)


def _fuse(consumer: ContractOp, target: Target) -> None:
    """Fuse a statement with the producers of its operands, until none can be fused."""
    current: ContractOp | None = consumer
    while current is not None:
        last = with_operands_once(current)
        current = next(
            (made for i in range(len(last.tensors) - 1) if (made := _try(last, i, target))), None
        )


def _try(consumer: ContractOp, operand: int, target: Target) -> ContractOp | None:
    if not isinstance(consumer.operands[operand].owner, ContractOp):
        return None
    return appended(consumer, operand) or inlined(consumer, operand, target)
