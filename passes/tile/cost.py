"""The cost of a kernel: the pipeline's passes run on a copy, and the model prices the result.

A cost depends only on the kernel's structure, the passes and the machine. Equal kernels share one
estimate.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.dialects.builtin import StringAttr
from xdsl.passes import ModulePass

from tessella.dialects.structure import structure
from tessella.dialects.tile import KernelOp
from tessella.passes.kinds import KernelPass
from tessella.passes.tile.cycles import (
    constant_bytes,
    copy_cycles,
    kernel_cycles,
    statement_cycles,
)
from tessella.passes.tile.nest import bytes_saved
from tessella.passes.tile.traffic import overlapped
from tessella.passes.tile_divide_running import TileDivideRunningPass
from tessella.passes.tile_merge_indices import TileMergeIndicesPass
from tessella.passes.tile_schedule import TileSchedulePass
from tessella.passes.tile_share_loops import TileShareLoopsPass
from tessella.passes.tile_split_indices import TileSplitIndicesPass
from tessella.passes.tile_split_sums import TileSplitSumsPass
from tessella.support.tables import of_compilations, remembered
from tessella.targets import Target

MAX_KEPT = 1 << 14
"""The most costs that a compilation caches."""

_COSTS: dict[Hashable, KernelCost] = of_compilations(64)  # some 15 KB each


def scheduling_passes(target: str = "native", *, shared: bool = False) -> list[KernelPass]:
    """Return the passes that run on a kernel's statements up to the pass that chooses their
    schedules.

    A statement that has a schedule keeps it.
    """
    return [
        TileSplitIndicesPass(target=target),
        TileDivideRunningPass(target=target),
        TileShareLoopsPass(target=target),
        TileSplitSumsPass(target=target),
        TileMergeIndicesPass(target=target),
        TileSchedulePass(target=target, shared=shared),
    ]


@dataclass(frozen=True)
class KernelCost:
    """The cost of one call of a kernel."""

    seconds: float
    weights: int
    """Bytes of the constants that the kernel reads."""
    saved: int
    """Bytes of memory traffic that sharing loops saves."""
    repeats: bool
    """True if iterations of the shared loops recompute values."""


def cost_after(passes: Sequence[ModulePass], kernel: KernelOp, target: Target) -> KernelCost:
    """Return the cost of a kernel after the passes. The kernel itself does not change.

    Only passes that visit one kernel at a time run: the others need the surrounding program.
    """
    copy = kernel.clone()
    copy.sym_name, copy.code, copy.nodes = StringAttr("kernel"), None, None
    steps = tuple(step for step in passes if isinstance(step, KernelPass))
    key = structure(copy), steps, target
    return remembered(_COSTS, key, MAX_KEPT, partial(_cost_after, steps, copy, target))


def _cost_after(steps: Iterable[KernelPass], kernel: KernelOp, target: Target) -> KernelCost:
    for step in steps:
        step.rewrite(kernel, target)
    windows = (at.window for op in kernel.statements for at in op.at_list)
    return KernelCost(
        seconds=scheduled_seconds(kernel, target),
        weights=constant_bytes(kernel),
        saved=bytes_saved(kernel, target),
        repeats=any(window is not None for window in windows),
    )


def scheduled_seconds(kernel: KernelOp, target: Target) -> float:
    """Return the modelled seconds of one call of a scheduled kernel, with copies of operands to the
    layouts that schedules require.

    Constants are read from memory, as the other constants of the program have displaced them from
    the caches.
    """
    cycles = kernel_cycles(kernel, partial(statement_cycles, target=target), target)
    cold = constant_bytes(kernel) / target.memory_bandwidth
    variables = (a for a in kernel.body.block.args if not kernel.is_constant(a.index))
    packed = ((a, place) for a in variables if (place := kernel.packed(a.index)) is not None)
    copied = sum(copy_cycles(a, place, target) for a, place in packed)
    return (overlapped(cycles, cold) + copied) / (target.ghz * 1e9)
