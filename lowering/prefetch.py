"""Prefetches for later iterations of the loops that a kernel's statements share.

Arguments are prefetched some iterations before they are read. Results are prefetched before they
are written: in the same iteration by a statement before the writer, otherwise in the previous
iteration.

A statement that reads an argument vector by vector prefetches along with each vector, which spreads
the requests. If several statements read so, the one with the most arithmetic prefetches. Other
arguments are prefetched as a whole, at the beginning of the previous iteration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import BlockArgument, SSAValue

from tessella.dialects import rt
from tessella.dialects.elements import element_of
from tessella.dialects.layout import Layout
from tessella.dialects.nn.core import shape_of
from tessella.dialects.tile import ContractOp, Nest, Schedule
from tessella.dialects.tile.flat import Flat, layout_of
from tessella.dialects.tile.nest import lives_within, shared_loops
from tessella.lowering.point import StepPosition
from tessella.lowering.values import BlockEmitter, Pos
from tessella.passes.tile.model import body_ops
from tessella.passes.tile.plan import Access, plan_accesses, streams
from tessella.support.conditions import decided
from tessella.support.decisions import decided_zero
from tessella.support.sizes import Size

STREAM = 4096
"""The prefetch distance in a stream from memory, in bytes.

The processor's own prefetcher stops at the end of a page.
"""
LINE = 64
"""The number of bytes that one prefetch covers."""
UNROLLED = 4
"""The unroll factor of a loop of prefetches: the loop itself costs more than a prefetch."""


@dataclass(frozen=True)
class NestedStatement:
    """A statement in one iteration of the shared loops."""

    op: ContractOp
    flat: Flat
    step: StepPosition


@dataclass(frozen=True)
class Ahead:
    """A buffer that is prefetched wherever a statement reads a vector of one of its operands."""

    operand: int
    buffer: SSAValue
    shift: Size
    """The prefetch distance in elements."""
    line: int
    """Elements of a cache line."""
    write: bool


@dataclass(frozen=True)
class _Read:
    """A statement's read of an argument whose address advances by ``span`` elements with each
    iteration of the innermost shared loop."""

    part: NestedStatement
    operand: int
    span: Size

    @property
    def work(self) -> float:
        """A measure of the arithmetic beside the reads, to choose which statement prefetches: 1
        plus the ops in the statement's body, or 0 if the statement does not read the operand in
        whole vectors, each element once."""
        op, flat, schedule = self.part.op, self.part.flat, self.part.op.schedule
        moves = flat.accesses[self.operand].stride
        once = all(moves(index.name) for index in flat.indices if index.range != 1)
        if schedule is None or self.operand >= flat.inputs or not once:
            return 0.0
        plan = plan_accesses(op, flat, schedule.data.vector, None)
        along = plan.operands[self.operand].access is Access.CONTIGUOUS
        return 1.0 + body_ops(op) if along else 0.0


def asked(
    parts: Sequence[NestedStatement],
    nest: Nest,
    buffers: Mapping[SSAValue, SSAValue],
    emitter: BlockEmitter,
) -> dict[ContractOp, list[Ahead]]:
    """Return the prefetches that each statement will emit along with its reads, and emit those of
    arguments that no statement reads vector by vector."""
    found: dict[ContractOp, list[Ahead]] = {part.op: [] for part in parts}
    for value, reads in _reads(parts).items() if nest.prefetch else ():
        read = max(reads, key=lambda each: each.work)
        line = max(1, nest.prefetch // element_of(value.type).size)
        if not read.work:
            start = read.part.step.starts[read.operand]
            _ask_now(emitter, buffers[value], start + read.span, read.span, line)
            continue
        shift = nest.ahead * read.span
        found[read.part.op].append(Ahead(read.operand, buffers[value], shift, line, write=False))
        _ask_for_results(found, parts, [each for each in reads if each.work], buffers, line)
    return found


def streamed(
    op: ContractOp, flat: Flat, schedule: Schedule, buffers: Mapping[SSAValue, SSAValue]
) -> list[Ahead]:
    """Return the prefetches of operands that a statement reads from memory vector by vector, each
    element once.

    If several accesses read one tensor, only the access at the highest offset prefetches.
    """
    found: dict[SSAValue, tuple[Size, Ahead]] = {}
    for number in streams(op, flat, schedule.vector) if schedule.prefetch else ():
        value, offset = op.tensors[number], flat.accesses[number].offset
        size = element_of(value.type).size
        ahead = Ahead(number, buffers[value], STREAM // size, LINE // size, write=False)
        if value not in found or decided(found[value][0] < offset):
            found[value] = offset, ahead
    return [ahead for _, ahead in found.values()]


def _reads(parts: Sequence[NestedStatement]) -> dict[SSAValue, list[_Read]]:
    """Return the reads of each kernel argument that advance with the innermost shared loop."""
    found: dict[SSAValue, list[_Read]] = {}
    for part in parts:
        *_, (name, loop) = shared_loops(part.op).items()
        for number, (value, access) in enumerate(
            zip(part.op.tensors, part.flat.accesses, strict=True)
        ):
            span = access.stride(name) * loop.advance
            if isinstance(value, BlockArgument) and not decided_zero(span):
                found.setdefault(value, []).append(_Read(part, number, span))
    return found


def _ask_for_results(
    found: Mapping[ContractOp, list[Ahead]],
    parts: Sequence[NestedStatement],
    reads: Sequence[_Read],
    buffers: Mapping[SSAValue, SSAValue],
    line: int,
) -> None:
    """Add prefetches of the results that statements write at the positions at which they or others
    read an argument.

    The last reader before the writer prefetches for the same iteration. If no reader is before the
    writer, the first reader prefetches for the next iteration.
    """
    for number, part in enumerate(parts):
        alike = [read for read in reads if _are_alike(read, part)]
        if alike and not lives_within(part.op.res):
            before = [read for read in alike if parts.index(read.part) < number]
            read, shift = (before[-1], 0) if before else (alike[0], alike[0].span)
            ahead = Ahead(read.operand, buffers[part.op.res], shift, line, write=True)
            found[read.part.op].append(ahead)


def _are_alike(read: _Read, part: NestedStatement) -> bool:
    """Return whether a statement writes its result at the positions where another reads an
    operand."""
    places = _places(read.part.op, read.operand)
    return places is not None and places == _places(part.op, -1)


def _places(
    op: ContractOp, operand: int
) -> tuple[Sequence[Size], Layout, int, Sequence[int | None]] | None:
    """Return what determines an operand's addresses in an iteration of the shared loops: the
    tensor's shape, layout and element width, and, for each dimension of more than one value, the
    number of the shared loop over it, or None.

    Returns None instead if the accesses of a dimension are not those of one index over its whole
    range.
    """
    value, forms, at = op.tensors[operand], op.access_list[operand], list(shared_loops(op))
    pairs = zip(forms, shape_of(value), strict=True)
    longer = [(form.single, extent) for form, extent in pairs if extent != 1]
    names, ranges = [name for name, _ in longer], op.ranges
    whole = all(at.window is None for at in op.at_list) and all(
        ranges.get(name or "") == extent for name, extent in longer
    )
    if not whole or len(set(names)) != len(names):
        return None
    loops = [at.index(name) if name in at else None for name in names]
    return shape_of(value), layout_of(value), element_of(value.type).bits, loops


def _ask_now(emitter: BlockEmitter, buffer: SSAValue, start: Pos, span: Size, line: int) -> None:
    """Emit a loop that prefetches contiguous elements, line by line."""

    def body(element: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
        at = emitter.at(emitter.step(start, Pos(element), 1))
        emitter.effect(rt.PrefetchOp(buffer, at))
        return ()

    emitter.loop(emitter.index(0), emitter.index(span), line, (), body, UNROLLED)
