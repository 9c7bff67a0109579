"""Copy weights to devices with their own memory, once for all calls.

tile.segment @segment_0(%x: tensor<4xf32, #acme>) -> (tensor<4xf32, #acme>) {
  %w = nn.weight @w : tensor<4xf32, #acme>
  ..
}
%y = rt.launch @segment_0(%x)
->
tile.segment @segment_0(%x: .., %w: tensor<4xf32, #acme>) -> (tensor<4xf32, #acme>) {
  ..
}
%w = nn.weight @w : tensor<4xf32, #x86>
%w_1 = place.copy once %w : tensor<4xf32, #x86> -> tensor<4xf32, #acme>
%y = rt.launch @segment_0(%x, %w_1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella import targets
from tessella.dialects.nn.constants import WeightOp
from tessella.dialects.nn.core import tensor_type
from tessella.dialects.place import CopyOp, PlaceAttr, place_of, placed
from tessella.dialects.rt import LaunchOp
from tessella.dialects.tile import SegmentOp
from tessella.passes.base import segments
from tessella.passes.kinds import ProgramPass


@dataclass(frozen=True)
class CopyWeightsPass(ProgramPass):
    """Turn the weights of segments on devices into arguments, which the program copies once."""

    name = "copy-weights"
    stages = ("tile",)

    device: str = ""
    """The CPU from whose memory the weights are copied; this machine's CPU if empty."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        launches = [found for found in op.walk() if isinstance(found, LaunchOp)]
        copies = _Copies(self.device or targets.native().arch)
        for segment in segments(op):
            if segment.device is not None:
                name = segment.sym_name.data
                copies.pass_to(segment, [x for x in launches if x.callee_name == name])


@dataclass(frozen=True)
class _Copies:
    """The table of copied weights in the functions of a program."""

    arch: str
    known: dict[tuple[Block, str, Attribute], SSAValue] = field(
        default_factory=dict[tuple[Block, str, Attribute], SSAValue]
    )
    """The copy of each weight, by the block of the function, the weight's name and its type."""

    def pass_to(self, segment: SegmentOp, launches: Sequence[LaunchOp]) -> None:
        """Replace the weights of a segment by arguments, which all launches of it pass."""
        block = segment.body.block
        for weight in list(block.ops):
            if not isinstance(weight, WeightOp):
                continue
            argument = block.insert_arg(weight.res.type, len(block.args))
            argument.name_hint = weight.res.name_hint
            weight.res.replace_all_uses_with(argument)
            for launch in launches:
                launch.operands = [*launch.operands, self._copied(weight, launch)]
            Rewriter.erase_op(weight)
        segment.update_type()

    def _copied(self, weight: WeightOp, launch: LaunchOp) -> SSAValue:
        """Return the copy of a weight in the function of a launch."""
        block, symbol = launch.parent_block(), weight.symbol.root_reference.data
        assert block is not None
        key = block, symbol, weight.res.type
        if key not in self.known:
            self.known[key] = self._copy(weight, symbol, block)
        return self.known[key]

    def _copy(self, weight: WeightOp, symbol: str, block: Block) -> SSAValue:
        place = place_of(weight.res.type)
        assert place is not None
        here = PlaceAttr.get(self.arch, place.precision.data, place.layout)
        made = WeightOp(symbol, placed(tensor_type(weight.res), here))
        copy = CopyOp(made.res, place)
        copy.once = UnitAttr()
        Rewriter.insert_op([made, copy], InsertPoint.at_start(block))
        made.res.name_hint = copy.res.name_hint = weight.res.name_hint
        return copy.res
