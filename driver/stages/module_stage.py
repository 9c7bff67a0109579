"""The stage of a module, inferred from its ops, and the check that passes run at their stage."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from tessella.dialects.nn.constants import ConstantOp
from tessella.dialects.nn.core import NnOp
from tessella.dialects.place import Place
from tessella.dialects.rt import LaunchOp, Rt
from tessella.dialects.tile import Tile
from tessella.driver.build.pipeline import pipeline
from tessella.driver.build.pipeline_text import pipeline_text
from tessella.driver.options import make_options
from tessella.driver.stages.stages import IR_STAGES
from tessella.lowering.tile_to_loops import ConvertTileToLoopsPass
from tessella.passes.kinds import declared
from tessella.passes.outline_segments import OutlineSegmentsPass
from tessella.support.errors import OptionError

_DIALECTS = {Place.name: "placed", Tile.name: "tile", Rt.name: "loops"}


def _stage_of(op: Operation) -> str | None:
    """Return the stage that an op belongs to; None if it occurs at several."""
    if isinstance(op, NnOp) and not isinstance(op, ConstantOp):
        return "nn" if op.kernel is None else "placed"
    if isinstance(op, LaunchOp):  # a step of `@main`, from the stage tile on
        return None
    return _DIALECTS.get(op.name.partition(".")[0])


_LEADING = {OutlineSegmentsPass.name: "tile", ConvertTileToLoopsPass.name: "loops"}
"""The passes after which a module is at another stage, by pass name, even if the module has no op
of that stage."""


def check_stage(step: ModulePass, module: ModuleOp, done: Sequence[ModulePass] = ()) -> None:
    """Raise OptionError if ``step`` is a pass for other stages than that of the module.

    ``done`` has the passes that ran before, which may have led to the stage even if no op shows it.
    """
    wanted = declared(type(step)).stages
    if any(_LEADING.get(each.name) in wanted for each in done):
        return
    present = {_stage_of(op) for op in module.walk()}
    found = [stage for stage in IR_STAGES if stage in present]
    if not wanted or not found or not present.isdisjoint(wanted):
        return
    shown = " or ".join(wanted)
    raise OptionError(
        "the pass finds nothing to work on in this module",
        expected=f"the stage {shown}",
        found=f"the stage {found[-1]}, by its ops",
        hint=_hint(found[-1], wanted, step.name),
    )


def _hint(found: str, wanted: Sequence[str], name: str) -> str:
    """Return a hint for users on how to get a module of a stage in ``wanted``, given one of the
    stage ``found``, for the pass ``name``."""
    written = f"`tessella compile MODEL -o NAME.{wanted[0]}` writes it"
    between = IR_STAGES[IR_STAGES.index(found) + 1 : IR_STAGES.index(wanted[0]) + 1]
    if not between:
        return f"passes do not lead back; {written}"
    stages = pipeline(make_options())
    steps = [step for stage, steps in stages if stage in between for step in steps]
    before = list(takewhile(lambda step: step.name != name, steps))
    return f"{written}, and these passes lead there: -p {pipeline_text(before)}"
