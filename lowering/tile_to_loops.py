"""Lower kernels to loops over flat buffers, and segments to calls on buffers.

    tile.kernel @relu_0(%x: tensor<4x8xf32, #p>) -> (tensor<4x8xf32, #p>) { ... }
    ->
    rt.kernel @relu_0(%x: memref<32xf32>) outs(%y: memref<32xf32>) threads(%thread, %threads) {
      scf.for ... { vector.load ... vector.store ... }
    }

A kernel's intermediate tensors become its scratch. In segments every tensor becomes a buffer: an
argument, a weight, or a ``memref.alloc`` that ``plan-arena`` puts into the arena. A view is the
buffer of its source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from xdsl.context import Context
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Attribute, OpResult, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects import rt
from tessella.dialects.calls import TensorCall
from tessella.dialects.graph import CompileContext
from tessella.dialects.nn.constants import WeightOp
from tessella.dialects.nn.core import tensor_type
from tessella.dialects.tile import (
    CallOp,
    ContractOp,
    EmptyOp,
    KernelOp,
    Nest,
    ReturnOp,
    ScanOp,
    SegmentOp,
    ViewOp,
    through_views,
)
from tessella.dialects.tile.flat import Flat, flatten, layout_of, simplify
from tessella.dialects.tile.nest import depth, lives_within, memory_shape, shared_loops
from tessella.dialects.tile.reach import Reach, reaches
from tessella.lowering.point import Step
from tessella.lowering.prefetch import Part, asked, streamed
from tessella.lowering.statement import Statement
from tessella.lowering.values import Emitter, Pos
from tessella.passes.base import segments
from tessella.passes.kinds import ProgramPass
from tessella.support.errors import InvalidModelError
from tessella.support.sizes import Size

T = TypeVar("T", rt.KernelOp, rt.SegmentOp)


def buffer_type(value: SSAValue) -> rt.Buffer:
    """The flat buffer that holds a tensor."""
    type = tensor_type(value)
    size = layout_of(value).size(memory_shape(value))
    return MemRefType(type.element_type, [size])


@dataclass(frozen=True)
class ConvertTileToLoopsPass(ProgramPass):
    """Lower kernels to loops, and tensors to buffers."""

    name = "convert-tile-to-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels: dict[str, rt.KernelOp] = {}
        for kernel in list(op.body.block.ops):
            if isinstance(kernel, KernelOp):
                new = _replace(kernel, _convert_kernel(kernel))
                kernels[new.sym_name.data] = new
                if isinstance(ctx, CompileContext) and ctx.lowered is not None:
                    ctx.lowered(new)
        for segment in segments(op):
            _replace(segment, _Segment(segment, kernels).convert())


def _replace(old: KernelOp | SegmentOp, new: T) -> T:
    Rewriter.insert_op(new, InsertPoint.before(old))
    Rewriter.erase_op(old)
    return new


def _convert_kernel(kernel: KernelOp) -> rt.KernelOp:
    roots = _roots(kernel)
    results = _results(kernel, roots)
    scratch = [v for v in dict.fromkeys(roots.values()) if v not in results]
    groups = (kernel.body.block.args, results, scratch)
    types = [[buffer_type(v) for v in group] for group in groups]
    new = rt.KernelOp(kernel.sym_name.data, *types, code=kernel.code, nodes=kernel.nodes)
    values = (value for group in groups for value in group)
    buffers: dict[SSAValue, SSAValue] = dict(zip(values, new.buffers, strict=True))
    for value, argument in buffers.items():
        argument.name_hint = value.name_hint
    for value, root in roots.items():
        buffers[value] = buffers[root]
    emitter = Emitter(new.body.block)
    statements = [op for op in kernel.body.block.ops if isinstance(op, ContractOp)]
    _emit(kernel, statements, emitter, buffers, ())
    emitter.finish()
    new.body.block.add_op(rt.ReturnOp())
    return new


def _emit(
    kernel: KernelOp,
    statements: Sequence[ContractOp],
    emitter: Emitter,
    buffers: Mapping[SSAValue, SSAValue],
    steps: tuple[SSAValue, ...],
) -> None:
    """Statements of a kernel inside these steps of their shared loops: those that are in further
    loops together, and those between them."""
    for inside, group in groupby(statements, key=lambda op: depth(op) > len(steps)):
        if inside:
            _emit_loop(kernel, list(group), emitter, buffers, steps)
        else:
            _emit_step(kernel, list(group), emitter, buffers, steps)


def _emit_loop(
    kernel: KernelOp,
    statements: Sequence[ContractOp],
    emitter: Emitter,
    buffers: Mapping[SSAValue, SSAValue],
    steps: tuple[SSAValue, ...],
) -> None:
    """The next of the shared loops around statements."""
    assert kernel.nest is not None
    loop = kernel.nest.data.loops[len(steps)]

    def body(step: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
        step.name_hint = "step"
        if loop.extent % loop.step:
            step = emitter.op(arith.MinSIOp(step, emitter.index(loop.extent - loop.step)))
        _emit(kernel, statements, emitter, buffers, (*steps, step))
        return ()

    emitter.loop(emitter.index(0), emitter.index(loop.extent), loop.step, (), body)


def _emit_step(
    kernel: KernelOp,
    statements: Sequence[ContractOp],
    emitter: Emitter,
    buffers: Mapping[SSAValue, SSAValue],
    steps: tuple[SSAValue, ...],
) -> None:
    """One step of statements that are in these shared loops and in no others."""
    number = kernel.code.value.data if kernel.code is not None else 0
    nest = kernel.nest.data if kernel.nest is not None and steps else Nest(())
    parts = [
        Part(op, flat := flatten(op), _step(op, flat, emitter, nest, steps)) for op in statements
    ]
    ahead = asked(parts, nest, buffers, emitter)
    for part in parts:
        op, flat = part.op, simplify(part.flat)
        if op.schedule is None:
            raise InvalidModelError(
                "a statement has no schedule", hint="tile-schedule gives it one"
            )
        schedule = op.schedule.data
        asks = ahead.get(op) or streamed(op, flat, schedule, buffers)
        Statement(emitter, op, flat, schedule, buffers, part.step, number, asks).emit()


def _step(
    op: ContractOp, flat: Flat, emitter: Emitter, nest: Nest, steps: Sequence[SSAValue]
) -> Step:
    """A step of the shared loops, which begins at these values of their indices."""
    bases: dict[str, Pos] = {}
    for (name, own), loop, value in zip(shared_loops(op).items(), nest.loops, steps, strict=False):
        block = loop.extent // own.extent
        number = AffineExpr.dimension(0) // block
        bases[name] = Pos(emitter.apply(number, [value]) if block > 1 else value)
    stops: dict[str, SSAValue] = {}
    for name, reach in reaches(op).items():
        last = bases[reach.shared] + shared_loops(op)[reach.shared].step
        stops[name] = _ended(emitter, last, reach, flat.ranges[name])
    return Step(_starts(op, flat, emitter, bases), bases, stops)


def _ended(emitter: Emitter, stop: Pos, reach: Reach, extent: Size) -> SSAValue:
    """Where an index ends in a step that ends before a value of the shared index."""
    assert stop.ssa is not None
    end = reach.end(AffineExpr.dimension(0) + stop.constant)
    return emitter.op(arith.MinSIOp(emitter.apply(end, [stop.ssa]), emitter.index(extent)))


def _starts(
    op: ContractOp, flat: Flat, emitter: Emitter, bases: Mapping[str, Pos]
) -> tuple[Pos, ...]:
    """The offsets of the operands and the result in a step of the shared loops."""
    starts: list[Pos] = []
    for value, access in zip(op.tensors, flat.accesses, strict=True):
        start = Pos(None, access.offset)
        for name, base in list(bases.items())[lives_within(value) :]:
            start = emitter.step(start, base, access.stride(name))
        starts.append(start)
    return tuple(starts)


def _results(kernel: KernelOp, roots: dict[SSAValue, SSAValue]) -> list[SSAValue]:
    """The tensors that a kernel returns, by the tensor that owns the buffer."""
    name = kernel.sym_name.data
    if any(kernel.packed(i) for i in range(len(kernel.body.block.args))):
        raise InvalidModelError(
            f"the operands of @{name} are not packed", hint="pack-operands packs them"
        )
    results = [roots[v] for v in kernel.returned.values if v in roots]
    if len(set(results)) != len(kernel.returned.values):
        raise InvalidModelError(
            f"@{name} returns an argument, or a tensor twice",
            expected="each result to be written by a statement of its own",
        )
    return results


def _roots(kernel: KernelOp) -> dict[SSAValue, SSAValue]:
    """For every tensor made in a kernel, the tensor that owns its buffer. Statements write into the
    buffer of their init."""
    roots: dict[SSAValue, SSAValue] = {}
    for op in kernel.body.block.ops:
        if isinstance(op, EmptyOp):
            roots[op.res] = op.res
        elif isinstance(op, ContractOp):
            roots[op.res] = roots[op.init] if op.init is not None else op.res
    return roots


class _Segment:
    """Converts one segment."""

    def __init__(self, segment: SegmentOp, kernels: dict[str, rt.KernelOp]) -> None:
        self.old = segment
        self.kernels = kernels
        arguments, self.results = segment.body.block.args, segment.returned.values
        types = ([buffer_type(v) for v in group] for group in (arguments, self.results))
        self.new = rt.SegmentOp(segment.sym_name.data, *types)
        self.block = self.new.body.block
        self.buffers: dict[SSAValue, SSAValue] = dict(zip(arguments, self.new.inputs, strict=True))
        self.direct = self._direct_outputs()

    def _direct_outputs(self) -> dict[SSAValue, SSAValue]:
        """Results that a kernel writes straight into an output buffer, seen through views."""
        direct: dict[SSAValue, SSAValue] = {}
        for value, output in zip(self.results, self.new.outputs, strict=True):
            root = through_views(value)
            if isinstance(root, OpResult) and isinstance(root.op, TensorCall):
                direct.setdefault(root, output)
        return direct

    def convert(self) -> rt.SegmentOp:
        """The segment on buffers."""
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
        scratch = [self._allocate(a.type) for a in self.kernels[op.callee_name].scratch]
        self.block.add_op(rt.CallOp(op.callee_name, inputs, outputs, scratch, self._threads))

    def _scan(self, op: ScanOp) -> None:
        """The segment's arena comes in when it is planned."""
        inputs, outputs = self._operands(op)
        spare = [self._allocate(x.type) for x in outputs[: op.loop.carried]]
        self.block.add_op(
            rt.ScanOp(op.callee_name, inputs, outputs, spare, self._threads, op.loop, op.steps)
        )

    def _operands(self, op: CallOp | ScanOp) -> tuple[list[SSAValue], list[SSAValue]]:
        """The buffers that a call reads and writes."""
        for result in op.res:
            self.buffers[result] = self.direct.get(result) or self._allocate(buffer_type(result))
            self.buffers[result].name_hint = result.name_hint
        inputs, outputs = ([self.buffers[v] for v in group] for group in (op.arguments, op.res))
        return inputs, outputs

    @property
    def _threads(self) -> tuple[SSAValue, SSAValue]:
        return self.new.thread, self.new.threads

    def _allocate(self, type: Attribute) -> SSAValue:
        assert isinstance(type, MemRefType)
        alloc = memref.AllocOp.get(type.element_type, None, list(type.get_shape()))
        self.block.add_op(alloc)
        return alloc.memref

    def _return(self) -> None:
        for value, output in zip(self.results, self.new.outputs, strict=True):
            if self.buffers[value] is not output:
                self.block.add_op(memref.CopyOp(self.buffers[value], output))
        self.block.add_op(rt.ReturnOp())
