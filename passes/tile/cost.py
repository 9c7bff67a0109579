"""The cost of a kernel on a machine in the tile model, in seconds."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tessella.dialects.tile import ContractOp, KernelOp
from tessella.dialects.tile.merge import merge_indices
from tessella.dialects.tile.nest import steps
from tessella.dialects.tile.reach import reaches
from tessella.passes.tile.estimates import bytes_in
from tessella.passes.tile.nest import share_loops
from tessella.passes.tile.packing import split_statement
from tessella.passes.tile.search import best_schedule
from tessella.passes.tile.traffic import overlapped
from tessella.targets import Target


def seconds(kernel: KernelOp, target: Target) -> float:
    """Modelled seconds of one call: the sum over its statements, each under its schedule. Constants
    come from memory: all others of the program have been used since."""
    for op in kernel.statements:
        split_statement(op, target.arch)
    share_loops(kernel, target)
    for op in kernel.statements:
        merge_indices(op)
    cycles = kernel_cycles(kernel, lambda op: best_schedule(op, kernel, target).cycles, target)
    cold = constant_bytes(kernel) / target.memory_bandwidth
    return overlapped(cycles, cold) / (target.ghz * 1e9)


def constant_bytes(kernel: KernelOp) -> int:
    """Bytes of the constants that a kernel reads."""
    arguments = (a for a in kernel.body.block.args if kernel.is_constant(a.index))
    return sum(bytes_in(argument) for argument in arguments)


def kernel_cycles(kernel: KernelOp, cycles: Callable[[ContractOp], float], target: Target) -> float:
    """Cycles of one call of a kernel, from those of each statement in one step of the nest."""
    total = sum(cycles(op) * runs(op) for op in kernel.statements)
    return total if kernel.nest is None else overlapped(total, _streamed(kernel, target))


def runs(op: ContractOp) -> float:
    """How many steps of the kernel's nest run a statement; one that leaves out a part of its points
    counts as the rest."""
    return steps(op) * prod(reach.share(op, name) for name, reach in reaches(op).items())


def _streamed(kernel: KernelOp, target: Target) -> float:
    """Cycles to move the kernel's inputs and outputs through the caches once. Its statements then
    find them in the nearest cache."""
    values = (*kernel.body.block.args, *kernel.returned.values)
    size = sum(bytes_in(value) for value in values)
    if size > target.l3:
        return size / target.memory_bandwidth
    return size / (target.l3_bandwidth if size > target.l2 else target.l2_bandwidth)
