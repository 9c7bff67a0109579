"""Lay the weights one after another, in the order in which segments first name them.

    %w = rt.weight @conv1.w : memref<9408xf32>
    ->
    %w = rt.weight @conv1.w at 4096 : memref<9408xf32>

A program reads its weights from one block of memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from tessella.dialects.rt import aligned, buffer_bytes
from tessella.passes.base import buffer_weights
from tessella.passes.kinds import ProgramPass


@dataclass(frozen=True)
class PlanWeightsPass(ProgramPass):
    """Choose where each weight lies."""

    name = "plan-weights"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        offsets: dict[str, int] = {}
        end = 0
        for weight in buffer_weights(op):
            if weight.weight_name not in offsets:
                offsets[weight.weight_name] = end
                end += aligned(buffer_bytes(weight.res.type))
            weight.offset = IntegerAttr(offsets[weight.weight_name], i64)
