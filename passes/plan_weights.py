"""Number the weights in the order in which segments first name them.

    %w = rt.weight @conv1.w : memref<9408xf32>
    ->
    %w = rt.weight @conv1.w slot 3 : memref<9408xf32>

Segments access weights through a table of pointers. Programs can thus share weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from tessella.passes.base import buffer_weights
from tessella.passes.kinds import ProgramPass


@dataclass(frozen=True)
class PlanWeightsPass(ProgramPass):
    """Choose the slot of each weight."""

    name = "plan-weights"
    stages = ("loops",)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        slots: dict[str, int] = {}
        for weight in buffer_weights(op):
            slot = slots.setdefault(weight.weight_name, len(slots))
            weight.slot = IntegerAttr(slot, i64)
