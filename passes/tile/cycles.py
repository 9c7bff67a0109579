"""Cycles of kernels with scheduled statements, by the tile model."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xdsl.ir import BlockArgument

from tessella.dialects.layout import NCHW
from tessella.dialects.nn.core import shape_of
from tessella.dialects.place import PlaceAttr, place_of
from tessella.dialects.tile import ContractOp, KernelOp, SelectionOp
from tessella.dialects.tile.flat import layout_of, stored_element
from tessella.dialects.tile.nest import steps
from tessella.dialects.tile.reach import reaches
from tessella.kernels.cost import SHUFFLING, moving
from tessella.passes.tile.estimates import bytes_in, count_of
from tessella.passes.tile.model import modelled
from tessella.passes.tile.selections import selection_cycles
from tessella.passes.tile.traffic import overlapped
from tessella.targets import Target


def statement_cycles(op: ContractOp | SelectionOp, target: Target) -> float:
    """Return the cycles of a statement under its schedule, in one iteration of its kernel's
    nest."""
    if isinstance(op, SelectionOp):
        return selection_cycles(op)
    return 0.0 if op.schedule is None else modelled(op, target).estimate(op.schedule.data).cycles


def kernel_cycles(kernel: KernelOp, cycles: Callable[[ContractOp], float], target: Target) -> float:
    """Return the cycles of one call of a kernel, from each statement's cycles in one iteration of
    the nest."""
    total = sum(cycles(op) * runs(op) for op in kernel.statements)
    total += sum(map(selection_cycles, kernel.selections))
    return total if kernel.nest is None else overlapped(total, _streamed(kernel, target))


def runs(op: ContractOp | SelectionOp) -> float:
    """Return the number of iterations of the kernel's shared loops that run a statement.

    An iteration that runs only a fraction of the statement's points counts as that fraction.
    """
    if isinstance(op, SelectionOp):
        return 1.0
    return steps(op) * prod(reach.share(op, name) for name, reach in reaches(op).items())


def _streamed(kernel: KernelOp, target: Target) -> float:
    """Return the cycles to move the kernel's inputs and outputs once between the nearest cache and
    the level of memory that holds them.

    The kernel's statements then find them in the nearest cache.
    """
    values = (*kernel.body.block.args, *kernel.returned.values)
    size = sum(bytes_in(value) for value in values)
    if size > target.l3:
        return size / target.memory_bandwidth
    return size / (target.l3_bandwidth if size > target.l2 else target.l2_bandwidth)


def copy_cycles(argument: BlockArgument, packed: PlaceAttr, target: Target) -> float:
    """Return the cycles to copy an argument to the place in which schedules read it."""
    count, size = count_of(argument), bytes_in(argument)
    place, written = place_of(argument.type), count * stored_element(argument, packed).size
    before, after = NCHW if place is None else place.layout, layout_of(argument, packed)
    rank = len(shape_of(argument))
    inside = [layout.order(rank)[-1].dim for layout in (before, after)] if rank else []
    shuffled = count * SHUFFLING if len(set(inside)) > 1 else 0.0
    return moving(size, written, target) * target.ghz * 1e9 + shuffled


def constant_bytes(kernel: KernelOp) -> int:
    """Return the bytes of the constants that a kernel reads."""
    arguments = (a for a in kernel.body.block.args if kernel.is_constant(a.index))
    return sum(count_of(argument) * stored_element(argument).size for argument in arguments)
