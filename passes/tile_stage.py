"""The passes on kernels, in the order that both the pipeline and the cost estimates use."""

from __future__ import annotations

from tessella.passes.kinds import ProgramPass
from tessella.passes.tile.cost import scheduling_passes
from tessella.passes.tile_find_running import TileFindRunningPass
from tessella.passes.tile_fuse_maps import TileFuseMapsPass
from tessella.passes.tile_merge_kernels import TileMergeKernelsPass
from tessella.passes.tile_tabulate_bytes import TileTabulateBytesPass


def kernel_passes(target: str = "native", *, shared: bool = False) -> list[ProgramPass]:
    """Return the passes that run on the kernels of ops, up to the pass that chooses schedules."""
    return [
        TileFindRunningPass(target=target),
        TileFuseMapsPass(target=target),
        TileMergeKernelsPass(target=target, shared=shared),
        TileTabulateBytesPass(target=target),
        *scheduling_passes(target, shared=shared),
    ]
