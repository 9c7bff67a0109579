"""The table of contents of the compiler: a straight list of passes, in execution order.

A stage is the IR after the passes above its name; ``nn`` comes from a frontend. A pass runs only if
its declarations match (``passes/kinds.py``). Passes of plugins and callers declare their position.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from xdsl.passes import ModulePass

from tessella.driver.build.plugged import Stages, extended
from tessella.driver.options import CheckedOptions
from tessella.lowering.emit_device_kernels import EmitDeviceKernelsPass
from tessella.lowering.nn_to_tile import ConvertNnToTilePass
from tessella.lowering.pack_operands import PackOperandsPass
from tessella.lowering.tile_to_loops import ConvertTileToLoopsPass
from tessella.passes.copy_weights import CopyWeightsPass
from tessella.passes.eliminate_identities import EliminateIdentitiesPass
from tessella.passes.fold_batch_norm import FoldBatchNormPass
from tessella.passes.fold_constants import FoldConstantsPass
from tessella.passes.fuse_elementwise import FuseElementwisePass
from tessella.passes.fuse_patterns import FusePatternsPass
from tessella.passes.hoist_invariants import HoistInvariantsPass
from tessella.passes.infer_shapes import InferShapesPass
from tessella.passes.insert_barriers import InsertBarriersPass
from tessella.passes.insert_conversions import InsertConversionsPass
from tessella.passes.integer_products import IntegerProductsPass
from tessella.passes.kinds import asked_places, declared, running
from tessella.passes.move_casts import MoveCastsPass
from tessella.passes.move_quantization import MoveQuantizationPass
from tessella.passes.outline_segments import OutlineSegmentsPass
from tessella.passes.packed_products import PackedProductsPass
from tessella.passes.pick.choices import autocast_rows
from tessella.passes.pick.price import PickFunction
from tessella.passes.pick_kernels import PickKernelsPass
from tessella.passes.plan_arena import PlanArenaPass
from tessella.passes.plan_weights import PlanWeightsPass
from tessella.passes.print_op_stats import PrintOpStatsPass
from tessella.passes.print_types import PrintTypesPass
from tessella.passes.sink_constants import SinkConstantsPass
from tessella.passes.tile.cost import scheduling_passes
from tessella.passes.tile_parallelize import TileParallelizePass
from tessella.passes.tile_stage import kernel_passes
from tessella.passes.view_op_graph import ViewOpGraphPass
from tessella.passes.write_in_place import WriteInPlacePass
from tessella.support.errors import OptionError
from tessella.support.knobs import KNOBS


def pipeline(options: CheckedOptions) -> list[tuple[str, Sequence[ModulePass]]]:
    """Return each stage after `nn` with the passes that lead to it under these options.

    Raises PluginError for plugins that do not match, and OptionError for passes of the caller that
    do not, and if ``TESSELLA_DEBUG_PASSES`` names an unknown pass.
    """
    stages = extended(_stages(options), options.passes)
    _check_debug_passes([step for _, steps in stages for step in steps])
    places = asked_places(options.places, options.arch)
    named = [*KNOBS.debug_passes, *(step.name for step in options.passes)]
    return [(stage, running(steps, places, named=named)) for stage, steps in stages]


def _check_debug_passes(steps: Sequence[ModulePass]) -> None:
    known = [step.name for step in steps if declared(type(step)).kind == "debug"]
    for name in KNOBS.debug_passes:
        if name not in known:
            raise OptionError(
                f"TESSELLA_DEBUG_PASSES: the pipeline has no debug pass {name!r}",
                expected=f"some of {', '.join(known)}",
            )


class Picking(TypedDict):
    """The options of the pass that picks kernels. Passes that fuse ops take them too, as they
    compare the costs of kernels in the same way."""

    places: tuple[str, ...]
    strategy: str
    fallback: str
    kernels: str
    target: str
    database: str
    function: PickFunction | None


def _stages(options: CheckedOptions) -> Stages:
    picking = Picking(
        places=options.places,
        strategy=options.strategy,
        fallback=options.fallback,
        kernels=options.kernels,
        target=options.target,
        database=options.database,
        function=options.function,
    )
    return [
        (
            "placed",
            [
                InferShapesPass(),
                MoveQuantizationPass(),
                # both before constant folding, as weights of products are still integers
                IntegerProductsPass(target=options.target),
                PackedProductsPass(target=options.target),
                FoldConstantsPass(),
                SinkConstantsPass(),
                EliminateIdentitiesPass(),
                FusePatternsPass(**picking),
                # Fusions leave ops on constants behind, which the second folding evaluates.
                FoldBatchNormPass(**picking),
                FoldConstantsPass(),
                EliminateIdentitiesPass(),
                PickKernelsPass(
                    **picking,
                    pins=tuple(f"{name}={pin}" for name, pin in options.pin.items()),
                    autocast=autocast_rows(options.autocast),
                    max_weight_growth=options.max_weight_growth,
                    shared=options.several,
                ),
                InsertConversionsPass(device=options.arch),
                MoveCastsPass(),
                FuseElementwisePass(),
                PrintOpStatsPass(),
                PrintTypesPass(),
                ViewOpGraphPass(),
            ],
        ),
        (
            "tile",
            [
                OutlineSegmentsPass(),
                ConvertNnToTilePass(),
                EmitDeviceKernelsPass(target=options.target),
                CopyWeightsPass(device=options.arch),
                *kernel_passes(options.target, shared=options.several),
                PackOperandsPass(),
                HoistInvariantsPass(),
                # Packing has added the kernels that copy operands.
                *scheduling_passes(options.target, shared=options.several),
                TileParallelizePass(target=options.target),
                # no pass after it moves a call
                WriteInPlacePass(),
            ],
        ),
        (
            "loops",
            [ConvertTileToLoopsPass(), InsertBarriersPass(), PlanArenaPass(), PlanWeightsPass()],
        ),
    ]
