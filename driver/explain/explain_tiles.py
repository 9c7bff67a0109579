"""The explanation of tiles: why each kernel of a program has its schedule."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp

from tessella import targets
from tessella.dialects.graph import CompileContext, Graph
from tessella.dialects.tile import KernelOp
from tessella.driver.build.pipeline import pipeline
from tessella.driver.options import CheckedOptions
from tessella.driver.stages.stages import IR_STAGES
from tessella.passes.tile.log import reasoning
from tessella.passes.tile_schedule import TileSchedulePass
from tessella.support.errors import OptionError
from tessella.targets import Target


def explain_tiles(graph: Graph, options: CheckedOptions, kernel: str = "") -> Iterator[str]:
    """Yield the reasons for the schedule of each statement, line by line, for all kernels that have
    a name beginning with ``kernel``.

    Raises OptionError for a graph that is scheduled already, and if no kernel has a matching name.
    The graph is consumed.
    """
    if IR_STAGES.index(graph.stage) >= IR_STAGES.index("tile"):
        raise OptionError(
            f"a program at the stage {graph.stage!r} has its schedules already",
            expected="a model, or a file of the stage nn or placed",
        )
    ctx = CompileContext(graph.weights)
    for stage, passes in pipeline(options):
        for step in passes if IR_STAGES.index(stage) > IR_STAGES.index(graph.stage) else ():
            if isinstance(step, TileSchedulePass):
                target = targets.resolve(options.target)
                yield from _kernels(graph.module, target, kernel)
                return
            step.apply(ctx, graph.module)


def _kernels(module: ModuleOp, target: Target, prefix: str) -> Iterator[str]:
    kernels = [op for op in module.body.block.ops if isinstance(op, KernelOp)]
    chosen = [op for op in kernels if op.sym_name.data.startswith(prefix)]
    if prefix and not chosen:
        names = ", ".join(op.sym_name.data for op in kernels)
        raise OptionError(f"no kernel's name begins with {prefix!r}", expected=f"one of {names}")
    for kernel in chosen:
        for op in kernel.statements:
            yield from reasoning(op, kernel, target)
            yield ""
