"""Lower kernels to loops over flat buffers, and segments to calls on buffers.

    tile.kernel @relu_0(%x: tensor<4x8xf32, #p>) -> (tensor<4x8xf32, #p>) { ... }
    ->
    rt.kernel @relu_0(%x: memref<32xf32>) outs(%y: memref<32xf32>) threads(%thread, %threads) {
      scf.for ... { vector.load ... vector.store ... }
    }

A kernel's intermediate tensors become its scratch. In segments every tensor becomes a buffer: an
argument, a weight, or a ``memref.alloc`` that ``plan-arena`` puts into the arena. A view is the
buffer of its source.

A segment that runs while a condition holds ends with ``rt.stop``, if a kernel can fail.

A kernel whose statements are divided between threads becomes several, where a statement reads what
other threads have written (``lowering/pieces.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

from xdsl.context import Context
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import (
    ArrayAttr,
    FunctionType,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, OpResult, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects import device, rt
from tessella.dialects.calls import NODES, TensorCall
from tessella.dialects.graph import CompileContext
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.constants import WeightOp
from tessella.dialects.nn.core import shape_of, tensor_type
from tessella.dialects.place import place_of
from tessella.dialects.sizes import dims
from tessella.dialects.tile import (
    CallOp,
    ContractOp,
    KernelOp,
    Nest,
    ReturnOp,
    ScanOp,
    Schedule,
    SegmentOp,
    SelectionOp,
    ViewOp,
    origin,
    taken_arguments,
)
from tessella.dialects.tile.flat import Flat, flatten, layout_of
from tessella.dialects.tile.nest import memory_shape
from tessella.dialects.tile.order import Position, positions
from tessella.dialects.tile.order import Statement as AnyStatement
from tessella.lowering.check_schedule import check_schedule
from tessella.lowering.pieces import KernelPiece, check_results, pieces
from tessella.lowering.prefetch import NestedStatement, asked, streamed
from tessella.lowering.selections import emit_selection, scratch_of
from tessella.lowering.statement import Statement
from tessella.lowering.steps import step_of
from tessella.lowering.values import BlockEmitter
from tessella.passes.base import segments
from tessella.passes.kinds import ProgramPass
from tessella.support.errors import InvalidModelError
from tessella.support.sizes import Expr, Size


def buffer_of(type: TensorType) -> rt.Buffer:
    """Return the type of a one-dimensional buffer that holds a tensor of this type."""
    place, shape = place_of(type), shape_of(type)
    layout = place.layout if place is not None else NCHW
    return rt.flat_buffer(type.element_type, layout.size(shape))


def buffer_type(value: SSAValue) -> rt.Buffer:
    """Return the type of the one-dimensional buffer that holds a tensor. If shared loops store only
    an iteration's part of the tensor, the buffer holds that part."""
    size = layout_of(value).size(memory_shape(value))
    return rt.flat_buffer(tensor_type(value).element_type, size)


@dataclass(frozen=True)
class ConvertTileToLoopsPass(ProgramPass):
    """Lower kernels to loops, and tensors to buffers."""

    name = "convert-tile-to-loops"
    stages = ("tile",)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels: dict[str, list[LoweredPiece]] = {}
        shared = _SharedMemory.of(op)
        for kernel in list(op.body.block.ops):
            if isinstance(kernel, KernelOp):
                kernels[kernel.sym_name.data] = lowered = list(_convert_kernel(kernel))
                for each in lowered:
                    Rewriter.insert_op(each.kernel, InsertPoint.before(kernel))
                    if isinstance(ctx, CompileContext) and ctx.lowered is not None:
                        ctx.lowered(each.kernel)
        for kernel in list(op.body.block.ops):
            if isinstance(kernel, device.KernelOp):
                Rewriter.replace_op(kernel, kernel.with_type(_on_buffers(kernel)))
        for segment in segments(op):
            new = _SegmentConversion(segment, kernels, shared).convert()
            Rewriter.insert_op(new, InsertPoint.before(segment))
            Rewriter.erase_op(segment)
        for kernel in list(op.body.block.ops):
            if isinstance(kernel, KernelOp):
                Rewriter.erase_op(kernel)
        _stop_loops(op)


def _on_buffers(kernel: device.KernelOp) -> FunctionType:
    """Return the type of a device kernel with buffers instead of tensors."""
    inputs, outputs = (
        [buffer_of(tensor) for tensor in types if isinstance(tensor, TensorType)]
        for types in (kernel.inputs, kernel.outputs)
    )
    return FunctionType.from_lists(inputs, outputs)


def _stop_loops(module: ModuleOp) -> None:
    """Make conditional loops end after an interrupt, and after a failed check in or before them.

    A loop that continues with wrong indices may never end.
    """
    ops = list(module.body.block.ops)
    endless = {name for op in ops if isinstance(op, rt.SegmentOp) for name in _endless(op)}
    kernels = (op for op in ops if isinstance(op, rt.KernelOp)) if endless else ()
    can_fail = any(isinstance(op, rt.CheckOp) for kernel in kernels for op in kernel.walk())
    for op in ops:
        if isinstance(op, rt.SegmentOp) and op.sym_name.data in endless:
            last = op.body.block.last_op
            assert last is not None
            go = op.outputs[0]
            stops = [rt.WatchOp(go), *([rt.StopOp(go)] if can_fail else [])]
            Rewriter.insert_op(stops, InsertPoint.before(last))


def _endless(segment: rt.SegmentOp) -> Iterator[str]:
    """Yield the names of the segments that a segment runs in conditional loops of more than one
    iteration."""
    for op in segment.body.block.ops:
        if isinstance(op, rt.ScanOp) and op.loop.conditional and op.steps != 1:
            yield op.callee_name


@dataclass(frozen=True)
class LoweredPiece:
    """A kernel on buffers, with the statements of a kernel on tensors from which it was lowered."""

    kernel: rt.KernelOp
    piece: KernelPiece


def _convert_kernel(kernel: KernelOp) -> Iterator[LoweredPiece]:
    check_results(kernel)
    found = pieces(kernel)
    for number, piece in enumerate(found):
        name = kernel.sym_name.data + (f".{number}" if number else "")
        yield LoweredPiece(_convert_piece(kernel, name, piece), piece)


def _convert_piece(kernel: KernelOp, name: str, piece: KernelPiece) -> rt.KernelOp:
    groups = (piece.inputs, piece.outputs, piece.scratch)
    types = [[buffer_type(v) for v in group] for group in groups]
    selections = {op: scratch_of(op) for op in piece.ops if isinstance(op, SelectionOp)}
    own = [type for buffers in selections.values() for type in buffers]
    types[-1] += own
    parts = piece.parts
    if parts is not None:
        parts = ArrayAttr([*parts, *(rt.PartAttr(rt.OWN) for _ in own)])
    new = rt.KernelOp(name, *types, code=kernel.code, nodes=kernel.nodes, parts=parts)
    values = [value for group in groups for value in group]
    buffers: dict[SSAValue, SSAValue] = dict(zip(values, new.buffers, strict=False))
    rest = iter(new.buffers[len(values) :])
    scratch = {op: [next(rest) for _ in made] for op, made in selections.items()}
    for value, argument in buffers.items():
        argument.name_hint = value.name_hint
    for value, root in piece.roots.items():
        if root in buffers:
            buffers[value] = buffers[root]
    emitter = BlockEmitter(new.body.block)
    threads = new.thread, new.threads
    _Statements(kernel, piece.ops, buffers, scratch, emitter, threads).emit()
    emitter.finish()
    new.body.block.add_op(rt.ReturnOp())
    return new


@dataclass(frozen=True)
class _Statements:
    """The statements of a kernel, or of a piece of it, while they are lowered."""

    kernel: KernelOp
    ops: Sequence[AnyStatement]
    buffers: Mapping[SSAValue, SSAValue]
    scratch: Mapping[SelectionOp, Sequence[SSAValue]]
    emitter: BlockEmitter
    threads: tuple[SSAValue, SSAValue]

    def emit(self) -> None:
        self._inside(self.ops, ())

    @cached_property
    def position(self) -> Mapping[AnyStatement, Position]:
        return positions(self.kernel.all_statements)

    def _inside(self, ops: Sequence[AnyStatement], steps: tuple[SSAValue, ...]) -> None:
        """Emit the statements of one iteration of the shared loops ``steps``: groups that share a
        further loop, and statements between the groups."""
        number = len(steps)
        for place, group in groupby(ops, key=lambda op: self.position[op][number]):
            (self._step if place % 2 else self._loop)(list(group), steps)

    def _loop(self, ops: Sequence[AnyStatement], steps: tuple[SSAValue, ...]) -> None:
        """Emit the next shared loop around statements."""
        assert self.kernel.nest is not None
        loop, e = self.kernel.nest.data.loops[len(steps)], self.emitter
        first, stop = self._bounds(self.kernel.nest.data, steps)

        def body(step: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            step.name_hint = "step"
            if loop.extent % loop.step != 0:
                step = e.op(arith.MinSIOp(step, e.index(loop.extent - loop.step)))
            self._inside(ops, (*steps, step))
            e.location = self.kernel.location
            return ()

        e.loop(first, stop, loop.step, (), body)

    def _bounds(self, nest: Nest, steps: Sequence[SSAValue]) -> tuple[SSAValue, SSAValue]:
        """Return the bounds of the next loop for this thread, given the outer induction
        variables."""
        number, e = len(steps), self.emitter
        loop = nest.loops[number]
        if number not in nest.divided:
            return e.index(0), e.index(loop.extent)
        if len(nest.divided) == 1:
            return self._share(rt.Share(loop.extent, loop.parallel))
        outer, inner = (nest.loops[i] for i in nest.divided)
        whole = rt.Share(outer.extent * inner.extent, inner.parallel, outer.extent)
        (first, stop), size = self._share(whole), inner.extent
        if isinstance(size, Expr):
            return self._of_two(loop is outer, first, stop, size, steps)
        d0, d1 = AffineExpr.dimension(0), AffineExpr.dimension(1)
        if loop is outer:
            return e.apply(d0 // size, [first]), e.apply((d0 + (size - 1)) // size, [stop])
        first, stop = (e.apply(d0 - d1 * size, [value, steps[-1]]) for value in (first, stop))
        first = e.op(arith.MaxSIOp(first, e.index(0)))
        return first, e.op(arith.MinSIOp(stop, e.index(size)))

    def _of_two(
        self,
        is_outer: bool,
        first: SSAValue,
        stop: SSAValue,
        size: Size,
        steps: Sequence[SSAValue],
    ) -> tuple[SSAValue, SSAValue]:
        """Return the bounds, for this thread, of the outer or the inner one of two nested loops
        that are divided as one loop. ``first`` and ``stop`` are the thread's bounds of that loop,
        and ``size`` is the symbolic range of the inner one."""
        e = self.emitter
        if is_outer:
            end = e.linear([(stop, 1)], size - 1)
            first, stop = (e.op(arith.DivUIOp(x, e.index(size))) for x in (first, end))
            return first, stop
        first, stop = (e.linear([(x, 1), (steps[-1], -size)], 0) for x in (first, stop))
        first = e.op(arith.MaxSIOp(first, e.index(0)))
        return first, e.op(arith.MinSIOp(stop, e.index(size)))

    def _share(self, share: rt.Share) -> tuple[SSAValue, SSAValue]:
        """Emit the computation of this thread's share of a range. Returns its first value and its
        end."""
        op = rt.ShareOp(share, *self.threads)
        self.emitter.effect(op)
        return op.first, op.stop

    def _step(self, ops: Sequence[AnyStatement], steps: tuple[SSAValue, ...]) -> None:
        """Emit the statements that are inside exactly these shared loops, in one iteration."""
        for _, group in groupby(ops, key=type):
            together = list(group)
            if contracts := [op for op in together if isinstance(op, ContractOp)]:
                self._contracts(contracts, steps)
            for op in together:
                if isinstance(op, SelectionOp):
                    self._select(op)

    def _select(self, op: SelectionOp) -> None:
        self.emitter.location = op.location
        whole = self.emitter.index(0), self.emitter.index(op.units)
        share = whole if op.parallel is None else self._share(rt.Share(op.units, op.parallel))
        emit_selection(self.emitter, op, self.buffers, self.scratch[op], share)

    def _contracts(self, ops: Sequence[ContractOp], steps: tuple[SSAValue, ...]) -> None:
        kernel, buffers, emitter = self.kernel, self.buffers, self.emitter
        number = kernel.code.value.data if kernel.code is not None else 0
        nest = kernel.nest.data if kernel.nest is not None and steps else Nest(())
        parts = [
            NestedStatement(op, flat := flatten(op), step_of(op, flat, emitter, steps))
            for op in ops
        ]
        ahead = asked(parts, nest, buffers, emitter)
        for part in parts:
            op, flat, step = part.op, part.flat, part.step
            emitter.location = op.location
            schedule = _schedule(op, flat)
            asks = ahead.get(op) or streamed(op, flat, schedule, buffers)
            if schedule.parallel is not None:
                name, grain = schedule.parallel
                step = replace(step, share=self._share(rt.Share(flat.ranges[name], grain)))
            Statement(emitter, op, flat, schedule, buffers, step, number, asks).emit()


def _schedule(op: ContractOp, flat: Flat) -> Schedule:
    """Return the schedule of a statement. Raises InvalidModelError if the statement has no
    schedule, or one that cannot be lowered."""
    if op.schedule is None:
        raise InvalidModelError("a statement has no schedule", hint="tile-schedule gives it one")
    check_schedule(op, flat, op.schedule.data)
    return op.schedule.data


@dataclass(frozen=True)
class _SharedMemory:
    """Tensors that share the memory of other tensors, because calls write results over their
    operands."""

    arguments: Mapping[str, frozenset[int]]
    """For each segment, by name: the numbers of the arguments that its calls write over."""
    sources: Mapping[SSAValue, SSAValue]
    """For each result of a call that is written over an operand: that operand."""
    origins: Mapping[SSAValue, SSAValue]
    """For each result of a segment: the tensor that first had its memory."""

    @staticmethod
    def of(module: ModuleOp) -> _SharedMemory:
        """Return the shared memory of a module, which must still contain the kernels of its
        calls."""
        found = segments(module)
        arguments = {segment.sym_name.data: taken_arguments(segment) for segment in found}
        sources: dict[SSAValue, SSAValue] = {}
        for call in (op for segment in found for op in segment.body.block.ops):
            if isinstance(call, CallOp):
                pairs = ((result, call.source(result)) for result in call.res)
                sources |= {result: source for result, source in pairs if source is not None}
        returned = (value for segment in found for value in segment.returned.values)
        return _SharedMemory(arguments, sources, {value: origin(value) for value in returned})


class _SegmentConversion:
    """Converts one segment."""

    def __init__(
        self,
        segment: SegmentOp,
        kernels: Mapping[str, Sequence[LoweredPiece]],
        shared: _SharedMemory,
    ) -> None:
        self.old = segment
        self.kernels = kernels
        self.shared = shared
        arguments, self.results = segment.body.block.args, segment.returned.values
        types = ([buffer_type(v) for v in group] for group in (arguments, self.results))
        self.new = rt.SegmentOp(segment.sym_name.data, *types)
        self.new.brief = segment.brief
        self.new.device = None if segment.device is None else StringAttr(segment.device)
        self.new.fields = segment.fields
        self.block = self.new.body.block
        self.buffers: dict[SSAValue, SSAValue] = dict(zip(arguments, self.new.inputs, strict=True))
        for number in shared.arguments[segment.sym_name.data]:
            self.buffers[arguments[number]] = self.new.outputs[number]
        self.direct = self._direct_outputs()

    def _direct_outputs(self) -> dict[SSAValue, SSAValue]:
        """Return the output buffer for each tensor that a kernel or loop can write straight into
        one.

        A result is traced to that tensor through views, and through the calls that overwrite it.
        """
        direct: dict[SSAValue, SSAValue] = {}
        for value, output in zip(self.results, self.new.outputs, strict=True):
            root = self.shared.origins.get(value, value)
            if isinstance(root, OpResult) and isinstance(root.op, TensorCall):
                direct.setdefault(root, output)
        return direct

    def convert(self) -> rt.SegmentOp:
        """Return the segment on buffers."""
        for op in self.old.body.block.ops:
            match op:
                case WeightOp():
                    weight = rt.WeightOp(op.symbol.root_reference.data, buffer_type(op.res))
                    weight.res.name_hint = op.res.name_hint
                    self.block.add_op(weight)
                    self.buffers[op.res] = weight.res
                case CallOp():
                    self._call(op)
                case ScanOp():
                    self._scan(op)
                case ViewOp():
                    self.buffers[op.res] = self.buffers[op.source]
                case ReturnOp():
                    self._return()
                case _:
                    raise InvalidModelError(
                        f"{op.name} does not belong into a segment",
                        expected="weights, calls of kernels, loops, and views of memory",
                        hint="convert-nn-to-tile makes kernels of ops",
                    )
        return self.new

    def _call(self, op: CallOp) -> None:
        inputs, outputs = self._operands(op)
        lowered = self.kernels.get(op.callee_name)
        nodes = {k: v for k, v in op.attributes.items() if k == NODES}
        if lowered is None:  # a kernel for another device
            call = rt.CallOp(op.callee_name, inputs, outputs, (), self._threads)
            call.attributes.update(nodes)
            self.block.add_op(call)
            return
        first = lowered[0].piece
        buffers: dict[SSAValue, SSAValue] = dict(zip(first.arguments, inputs, strict=True))
        buffers.update(zip(first.results, outputs, strict=True))
        for each in lowered:
            self._call_piece(each, buffers).attributes.update(nodes)

    def _call_piece(self, lowered: LoweredPiece, buffers: dict[SSAValue, SSAValue]) -> rt.CallOp:
        """Append a call of one piece's kernel. The buffers between the kernels of one call are
        allocated here."""
        kernel, piece = lowered.kernel, lowered.piece
        for value, argument in zip(piece.outputs, kernel.outputs, strict=True):
            if value not in buffers:
                buffers[value] = self._allocate(argument.type)
        count = len(piece.inputs) + len(piece.outputs)
        scratch = [
            self._allocate(argument.type, private=kernel.part(count + i) == rt.OWN)
            for i, argument in enumerate(kernel.scratch)
        ]
        inputs, outputs = ([buffers[v] for v in group] for group in (piece.inputs, piece.outputs))
        name = kernel.sym_name.data
        call = rt.CallOp(name, inputs, outputs, scratch, self._threads)
        self.block.add_op(call)
        return call

    def _scan(self, op: ScanOp) -> None:
        """Append a loop on buffers. Planning adds its segment's arena later.

        A carried value that the loop's iterations overwrite has one buffer, that of the result.
        """
        inputs, outputs = self._operands(op)
        in_place = self.shared.arguments[op.callee_name]
        for number in in_place:
            self.block.add_op(memref.CopyOp(inputs[number], outputs[number]))
            inputs[number] = outputs[number]
        spare = [
            x if number in in_place else self._allocate(x.type)
            for number, x in enumerate(outputs[: op.loop.carried])
        ]
        self.block.add_op(
            rt.ScanOp(op.callee_name, inputs, outputs, spare, self._threads, op.loop, op.steps)
        )

    def _operands(self, op: CallOp | ScanOp) -> tuple[list[SSAValue], list[SSAValue]]:
        """Return the buffers that a call or loop reads, and those that it writes."""
        for result in op.res:
            source = self.shared.sources.get(result)
            self.buffers[result] = (
                self.buffers[source]
                if source is not None
                else self.direct.get(result) or self._allocate(buffer_type(result))
            )
            self.buffers[result].name_hint = result.name_hint
        inputs, outputs = ([self.buffers[v] for v in group] for group in (op.arguments, op.res))
        return inputs, outputs

    @property
    def _threads(self) -> tuple[SSAValue, SSAValue]:
        return self.new.thread, self.new.threads

    def _allocate(self, type: Attribute, *, private: bool = False) -> SSAValue:
        assert isinstance(type, MemRefType)
        alloc = memref.AllocOp.get(type.element_type, None, dims(type.get_shape()))
        if private:
            alloc.attributes[rt.PRIVATE] = UnitAttr()
        self.block.add_op(alloc)
        return alloc.memref

    def _return(self) -> None:
        for value, output in zip(self.results, self.new.outputs, strict=True):
            if self.buffers[value] is not output:
                self.block.add_op(memref.CopyOp(self.buffers[value], output))
        self.block.add_op(rt.ReturnOp())
