"""What a kernel costs on a machine, in seconds, as the tile model sees it."""

from __future__ import annotations

from tessella.dialects.tile import ContractOp, KernelOp
from tessella.passes.tile.packing import split_statement
from tessella.passes.tile.search import best_schedule
from tessella.targets import Target


def seconds(kernel: KernelOp, target: Target) -> float:
    """Modelled seconds of one call: its statements one after another, each under its schedule."""
    for op in list(kernel.body.block.ops):
        if isinstance(op, ContractOp):
            split_statement(op, target.arch)
    cycles = sum(
        best_schedule(op, kernel, target).cycles
        for op in kernel.body.block.ops
        if isinstance(op, ContractOp)
    )
    return cycles / (target.ghz * 1e9)
