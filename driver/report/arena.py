"""The arenas of a program's segments over their calls, read from the `loops` stage."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.memref import CopyOp
from xdsl.ir import Operation

from tessella.dialects import rt
from tessella.driver.report.data import ArenaData, Buffer
from tessella.passes.base import buffer_segments
from tessella.support.sizes import estimated


def arenas_of(module: ModuleOp) -> Iterator[ArenaData]:
    """Yield the arena of each segment that has one. Symbols have their usual values."""
    for segment in buffer_segments(module):
        arena = _arena(segment)
        if arena.buffers:
            yield arena


def _arena(segment: rt.SegmentOp) -> ArenaData:
    ops = [*segment.body.block.ops]
    calls = [op for op in ops if isinstance(op, rt.CallOp | rt.ScanOp | CopyOp)]
    position: dict[Operation, int] = {op: i for i, op in enumerate(calls)}
    buffers = [b for op in ops if isinstance(op, rt.ArenaOp) for b in _buffer(op, position)]
    names = [op.name if isinstance(op, CopyOp) else op.callee_name for op in calls]
    return ArenaData(segment.sym_name.data, estimated(segment.arena_size), names, buffers)


def _buffer(op: rt.ArenaOp, position: dict[Operation, int]) -> Iterator[Buffer]:
    """Yield the buffer of an op, if a call uses it."""
    uses = [position[use.operation] for use in op.res.uses if use.operation in position]
    if uses:
        start, stop = map(estimated, op.extent)
        name = op.res.name_hint or ""
        yield Buffer(name, start, stop - start, min(uses), max(uses), op.private is not None)
