"""Segments run call by call, their kernels natively.

Threads run one at a time: what stands between two barriers, the last thread runs first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Operation, SSAValue

from tessella.codegen.emit import emit
from tessella.dialects import rt
from tessella.dialects.graph import CompileContext
from tessella.dialects.nn.core import dtype_of
from tessella.dialects.sizes import symbols_in
from tessella.lowering.tile_to_loops import ConvertTileToLoopsPass
from tessella.passes.insert_barriers import InsertBarriersPass
from tessella.support.sizes import Size, value_of
from tessella.targets import Target
from tests.codegen.harness import call_text
from tests.native import Array

Place = Callable[[Array], Array]
"""Copies an array to memory of a kind."""


def size_of(value: SSAValue) -> Size:
    """The elements of a flat buffer."""
    assert isinstance(value.type, MemRefType)
    (size,) = value.type.get_shape()
    return size


@dataclass(frozen=True)
class Lowered:
    """A module of one segment, and the machine that runs it."""

    module: ModuleOp
    """At the stage `tile`."""
    target: Target

    @cached_property
    def loops(self) -> ModuleOp:
        """The module on buffers, each of which has memory of its own."""
        loops = self.module.clone()
        for step in (ConvertTileToLoopsPass(), InsertBarriersPass()):
            step.apply(CompileContext(), loops)
            loops.verify()
        return loops

    @cached_property
    def segment(self) -> rt.SegmentOp:
        return next(op for op in self.loops.ops if isinstance(op, rt.SegmentOp))

    @cached_property
    def divided(self) -> frozenset[str]:
        """The kernels that threads run together."""
        return rt.divided(self.loops.body.block)

    @cached_property
    def _texts(self) -> Mapping[str, str]:
        return emit(self.loops, self.target, [self.segment.sym_name.data])

    def run(
        self, values: Mapping[str, int], arrays: Sequence[Array], threads: int, place: Place
    ) -> list[Array]:
        """The outputs, flat, for values of symbols."""

        def new(value: SSAValue) -> Array:
            assert isinstance(value.type, MemRefType)
            dtype = dtype_of(value.type.element_type)
            return place(np.zeros(value_of(size_of(value), values), dtype))

        inputs = [place(array.reshape(-1)) for array in arrays]
        outputs = [new(value) for value in self.segment.outputs]
        given = zip(self.segment.buffers, (*inputs, *outputs), strict=True)
        memory: dict[SSAValue, list[Array]] = {value: [array] * threads for value, array in given}
        together: list[Operation] = []
        sizes = [values[symbol.name] for symbol in symbols_in(self.loops)]
        for op in self.segment.body.block.ops:
            if isinstance(op, memref.AllocOp):
                own = rt.PRIVATE in op.attributes
                memory[op.memref] = (
                    [new(op.memref) for _ in range(threads)] if own else [new(op.memref)] * threads
                )
            elif isinstance(op, rt.BarrierOp | rt.ReturnOp):
                for thread in reversed(range(threads)):
                    for each in together:
                        self._step(each, memory, thread, threads, sizes)
                together.clear()
            else:
                together.append(op)
        return outputs

    def _step(
        self,
        op: Operation,
        memory: Mapping[SSAValue, Sequence[Array]],
        thread: int,
        threads: int,
        sizes: Sequence[int],
    ) -> None:
        """Return what one thread does for an op."""
        if isinstance(op, memref.CopyOp):
            if thread == 0:
                memory[op.destination][0][...] = memory[op.source][0]
            return
        assert isinstance(op, rt.CallOp), op
        if thread and op.callee_name not in self.divided:
            return
        buffers = [memory[value][thread] for value in op.buffers]
        text, turn = self._texts[op.callee_name], (thread, threads)
        name = op.callee_name
        context = call_text(text, self.target, *buffers, name=name, sizes=sizes, turns=[turn])
        assert not context.any(), "a check failed"
