"""Let threads wait for each other where one reads what another has written.

    rt.call @fc(%x) outs(%a) .. // parts [#rt.part<any>, #rt.part<shared 3072 by 256>]
    rt.call @norm(%a) outs(%b) .. // parts [#rt.part<shared 12288 by 3072>, ..]
    ->
    rt.call @fc(%x) outs(%a) ..
    rt.barrier %threads
    rt.call @norm(%a) outs(%b) ..

No barrier stands between kernels that divide a buffer alike, nor between those that the first
thread runs alone. The end of a segment needs none, as the caller waits for all threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.rt import (
    ALONE,
    BarrierOp,
    CallOp,
    KernelOp,
    ScanOp,
    SegmentOp,
)
from tessella.passes.hazards import Hazards, Use
from tessella.passes.kinds import ProgramPass

Kernels = Mapping[str, KernelOp]


@dataclass(frozen=True)
class InsertBarriersPass(ProgramPass):
    """Insert barriers into segments."""

    name = "insert-barriers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels = kernels_of(op)
        for segment in op.body.block.ops:
            if isinstance(segment, SegmentOp):
                _insert(segment, kernels)


def kernels_of(module: ModuleOp) -> Kernels:
    """The kernels of a module by name."""
    kernels = (op for op in module.body.block.ops if isinstance(op, KernelOp))
    return {op.sym_name.data: op for op in kernels}


def uses_of(op: Operation, kernels: Kernels) -> Iterator[Use]:
    """The buffers that an op of a segment touches."""
    match op:
        case CallOp():
            kernel, count = kernels[op.callee.root_reference.data], len(op.inputs)
            for number, buffer in enumerate(op.buffers):
                yield Use(buffer, kernel.part(number), written=number >= count)
        case ScanOp():
            for number, buffer in enumerate(op.buffers):
                yield Use(buffer, ALONE, written=number >= len(op.inputs))
        case memref.CopyOp():
            yield Use(op.source, ALONE, written=False)
            yield Use(op.destination, ALONE, written=True)
        case _:
            return


def _insert(segment: SegmentOp, kernels: Kernels) -> None:
    hazards = Hazards()
    for op in list(segment.body.block.ops):
        uses = list(uses_of(op, kernels))
        if hazards.conflict(uses) is not None:
            Rewriter.insert_op(BarrierOp(segment.threads), InsertPoint.before(op))
            hazards.clear()
        hazards.add(uses)
