"""The position of a statement in an iteration of the loops that its kernel's statements share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from tessella.dialects.tile import Access, ContractOp
from tessella.dialects.tile.flat import Flat, FlatAccess
from tessella.dialects.tile.nest import Steps, lives_within, shared_loops
from tessella.dialects.tile.reach import Reach, reaches
from tessella.dialects.tile.windows import needed
from tessella.lowering.point import StepPosition
from tessella.lowering.values import BlockEmitter, Pos
from tessella.support.decisions import known
from tessella.support.sizes import Expr, Size


def step_of(
    op: ContractOp, flat: Flat, emitter: BlockEmitter, steps: Sequence[SSAValue]
) -> StepPosition:
    """Return the statement's position in the shared loops, given their induction variables."""
    loops = zip(shared_loops(op).items(), steps, strict=False)
    bases = {name: _first(own, emitter, value) for (name, own), value in loops}
    stops = {
        name: _ended(emitter, reach, bases, shared_loops(op), flat.ranges[name])
        for name, reach in reaches(op).items()
    }
    return StepPosition(_starts(op, flat, emitter, bases, steps), bases, stops)


def _first(own: Steps, emitter: BlockEmitter, step: SSAValue) -> Pos:
    """Return the first value of a statement's index in the current iteration of a shared loop."""
    if own.window is None:
        number = AffineExpr.dimension(0) // own.block
        return Pos(emitter.apply(number, [step]) if own.block > 1 else step)
    start = emitter.step(Pos(None, own.window.offset), Pos(step), own.window.scale)
    if not own.is_moved:
        return start
    return emitter.min(emitter.max(start, Pos()), Pos(None, own.extent - own.step))


def _ended(
    emitter: BlockEmitter,
    reach: Reach,
    bases: Mapping[str, Pos],
    loops: Mapping[str, Steps],
    extent: Size,
) -> SSAValue:
    """Return the end of an index that an iteration of the shared loops runs only in part; ``bases``
    are the first values of the shared indices in the iteration."""
    last, values = AffineExpr.constant(0), list[SSAValue]()
    constant = reach.last.constant
    if isinstance(constant, Expr):
        last, values = AffineExpr.dimension(0), [emitter.index(constant)]
    else:
        last += constant
    for name, factor in reach.last.terms:
        base = bases[name] + (loops[name].step - 1 if factor > 0 else 0)
        assert base.ssa is not None
        last += (AffineExpr.dimension(len(values)) + known(base.constant)) * factor
        values.append(base.ssa)
    end = emitter.apply(reach.end(last), values)
    return emitter.op(arith.MinSIOp(end, emitter.index(extent)))


def _starts(
    op: ContractOp,
    flat: Flat,
    emitter: BlockEmitter,
    bases: Mapping[str, Pos],
    steps: Sequence[SSAValue],
) -> tuple[Pos, ...]:
    """Return the offsets at which operands and result begin in the current iteration of the shared
    loops."""
    starts: list[Pos] = []
    for value, forms, access in zip(op.tensors, op.access_list, flat.accesses, strict=True):
        start, within, writer = Pos(None, access.offset), lives_within(value), value.owner
        for number, (name, base) in enumerate(bases.items()):
            if number >= within:
                start = emitter.step(start, base, access.stride(name))
            elif isinstance(writer, ContractOp) and writer is not op:
                ahead = _Ahead(writer, op, forms, number)
                start = ahead.moved(start, access, base, steps[number], emitter)
        starts.append(start)
    return tuple(starts)


@dataclass(frozen=True)
class _Ahead:
    """Computes where, in the elements that a writer has stored in the current iteration of the
    shared loops, a reader's first element is."""

    writer: ContractOp
    reader: ContractOp
    access: Access
    number: int
    """The number of the shared loop, counted from the outermost."""

    def moved(
        self, start: Pos, flat: FlatAccess, base: Pos, step: SSAValue, emitter: BlockEmitter
    ) -> Pos:
        """Return ``start`` moved to the reader's first element, in a tensor that holds only the
        current step in memory."""
        (_, theirs), (name, own) = (
            list(shared_loops(op).items())[self.number] for op in (self.writer, self.reader)
        )
        need = needed(self.writer, self.reader, self.access, self.number)
        if need is None or (theirs.window is None and own.window is None):
            return start
        stride = flat.stride(name)
        written = stride // need.factor * need.block
        together = stride * own.advance == written * theirs.advance
        if together and not (own.is_moved or theirs.is_moved):
            return start + (stride * own.offset - written * theirs.offset)
        start = emitter.step(start, base, stride)
        return emitter.step(start, _first(theirs, emitter, step), -written)
