"""The table of contents of the compiler: one straight list of passes, in the order in which they
run.

A stage is the IR after the passes above its name; ``nn`` is what a frontend makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.passes import ModulePass

from tessella.lowering.nn_to_tile import ConvertNnToTilePass
from tessella.lowering.pack_operands import PackOperandsPass
from tessella.lowering.tile_to_loops import ConvertTileToLoopsPass
from tessella.passes.eliminate_identities import EliminateIdentitiesPass
from tessella.passes.fold_batch_norm import FoldBatchNormPass
from tessella.passes.fold_constants import FoldConstantsPass
from tessella.passes.fuse_elementwise import FuseElementwisePass
from tessella.passes.fuse_fc import FuseFcPass
from tessella.passes.infer_shapes import InferShapesPass
from tessella.passes.insert_conversions import InsertConversionsPass
from tessella.passes.outline_segments import OutlineSegmentsPass
from tessella.passes.pick_kernels import PickKernelsPass
from tessella.passes.plan_arena import PlanArenaPass
from tessella.passes.tile_fuse_maps import TileFuseMapsPass
from tessella.passes.tile_schedule import TileSchedulePass

STAGES = ("nn", "placed", "tile", "loops", "llvm", "asm")
IR_STAGES = STAGES[:4]
"""The stages that load again from text."""


@dataclass(frozen=True)
class Options:
    """What the pipeline depends on."""

    places: tuple[str, ...]
    target: str
    """The name of a machine in ``targets``."""
    arch: str
    """The target part of its places."""


def pipeline(options: Options) -> list[tuple[str, Sequence[ModulePass]]]:
    """For each stage behind `nn`, the passes that lead to it."""
    return [
        (
            "placed",
            [
                InferShapesPass(),
                FoldConstantsPass(),
                EliminateIdentitiesPass(),
                # these two leave ops on constants behind, which the second folding evaluates
                FoldBatchNormPass(),
                FuseFcPass(),
                FoldConstantsPass(),
                EliminateIdentitiesPass(),
                PickKernelsPass(places=options.places),
                InsertConversionsPass(target=options.arch),
                FuseElementwisePass(),
            ],
        ),
        (
            "tile",
            [
                OutlineSegmentsPass(),
                ConvertNnToTilePass(),
                TileFuseMapsPass(),
                TileSchedulePass(target=options.target),
                PackOperandsPass(),
                # the kernels that copy operands have come in with the packing
                TileSchedulePass(target=options.target),
            ],
        ),
        ("loops", [ConvertTileToLoopsPass(), PlanArenaPass()]),
    ]
