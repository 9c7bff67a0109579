"""Lower kernels to loops over flat buffers, and segments to calls on buffers.

    tile.kernel @relu_0(%x: tensor<4x8xf32, #p>) -> (tensor<4x8xf32, #p>) { ... }
    ->
    func.func @relu_0(%x: memref<32xf32>, %out: memref<32xf32>) attributes {rt.kernel} {
      scf.for ... { vector.load ... vector.store ... }
    }

A kernel's results, then its intermediate tensors, become arguments. In segments every tensor
becomes a buffer: an argument, a weight, or a ``memref.alloc`` that ``plan-arena`` puts into the
arena.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp, UnitAttr, i64
from xdsl.dialects.func import CallOp as FuncCallOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.graph import CompileContext
from tessella.dialects.nn.constants import WeightOp
from tessella.dialects.nn.core import NnOp, shape_of, tensor_type
from tessella.dialects.place import RelayoutOp
from tessella.dialects.rt import WeightOp as BufferOp
from tessella.dialects.tile import CallOp, ContractOp, EmptyOp, KernelOp
from tessella.dialects.tile import ReturnOp as TileReturnOp
from tessella.dialects.tile.flat import flatten, layout_of, simplify
from tessella.lowering.nn_to_tile import CODE, NODES
from tessella.lowering.statement import Statement
from tessella.lowering.values import Emitter
from tessella.passes.base import functions
from tessella.passes.kinds import ProgramPass
from tessella.passes.outline_segments import SEGMENT
from tessella.support.errors import InvalidModelError

KERNEL = "rt.kernel"
INPUTS = "rt.inputs"

Buffer = MemRefType[Attribute]


def buffer_type(value: SSAValue) -> Buffer:
    """The flat buffer that holds a tensor."""
    type = tensor_type(value)
    size = layout_of(value).size(shape_of(type))
    return MemRefType(type.element_type, [size])


@dataclass(frozen=True)
class ConvertTileToLoopsPass(ProgramPass):
    """Make loops of kernels, and buffers of tensors."""

    name = "convert-tile-to-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        scratch: dict[str, list[Buffer]] = {}
        for kernel in list(op.body.block.ops):
            if isinstance(kernel, KernelOp):
                function, temporaries = _convert_kernel(kernel)
                scratch[kernel.sym_name.data] = temporaries
                Rewriter.insert_op(function, InsertPoint.before(kernel))
                Rewriter.erase_op(kernel)
                if isinstance(ctx, CompileContext) and ctx.lowered is not None:
                    ctx.lowered(function)
        for function in list(functions(op)):
            if SEGMENT in function.attributes:
                Rewriter.insert_op(
                    _Segment(function, scratch).convert(), InsertPoint.before(function)
                )
                Rewriter.erase_op(function)


def _convert_kernel(kernel: KernelOp) -> tuple[FuncOp, list[Buffer]]:
    """The kernel as a function, and the buffers it needs beside operands and results."""
    last = kernel.body.block.last_op
    assert isinstance(last, TileReturnOp)
    roots = _roots(kernel)
    results = [roots[v] for v in last.values]
    temporaries = [v for v in dict.fromkeys(roots.values()) if v not in results]
    arguments: list[SSAValue] = [*kernel.body.block.args, *results, *temporaries]
    types = [buffer_type(v) for v in arguments]
    function = FuncOp(kernel.sym_name.data, (types, []))
    function.attributes[KERNEL] = UnitAttr()
    for name in (NODES, CODE):
        if name in kernel.attributes:
            function.attributes[name] = kernel.attributes[name]
    code = kernel.attributes.get(CODE)
    block = function.body.block
    buffers = dict(zip(arguments, block.args, strict=True))
    for value, argument in buffers.items():
        argument.name_hint = value.name_hint
    for value, root in roots.items():
        buffers[value] = buffers[root]
    emitter = Emitter(block)
    for op in kernel.body.block.ops:
        if isinstance(op, ContractOp):
            flat = simplify(flatten(op))
            if op.schedule is None:
                raise InvalidModelError(
                    "a statement has no schedule", hint="tile-schedule gives it one"
                )
            number = code.value.data if isinstance(code, IntegerAttr) else 0
            Statement(emitter, op, flat, op.schedule.data, buffers, number).emit()
    emitter.finish()
    block.add_op(ReturnOp())
    return function, types[len(types) - len(temporaries) :]


def _roots(kernel: KernelOp) -> dict[SSAValue, SSAValue]:
    """For every tensor made in a kernel, the one whose buffer it is in: statements write into
    their init's."""
    roots: dict[SSAValue, SSAValue] = {}
    for op in kernel.body.block.ops:
        if isinstance(op, EmptyOp):
            roots[op.res] = op.res
        elif isinstance(op, ContractOp):
            roots[op.res] = roots[op.init] if op.init is not None else op.res
    return roots


class _Segment:
    """Converts one segment."""

    def __init__(self, function: FuncOp, scratch: dict[str, list[Buffer]]) -> None:
        self.old = function
        self.scratch = scratch
        last = function.body.block.last_op
        assert isinstance(last, ReturnOp)
        self.results = list(last.operands)
        inputs = [buffer_type(a) for a in function.body.block.args]
        outputs = [buffer_type(v) for v in self.results]
        self.new = FuncOp(function.sym_name.data, ([*inputs, *outputs], []))
        self.new.attributes |= {
            SEGMENT: UnitAttr(),
            INPUTS: IntegerAttr(len(inputs), i64),
        }
        self.block = self.new.body.block
        self.buffers: dict[SSAValue, SSAValue] = dict(
            zip(function.body.block.args, self.block.args, strict=False)
        )
        self.outputs = self.block.args[len(inputs) :]
        self.direct = self._direct_outputs()

    def _direct_outputs(self) -> dict[SSAValue, SSAValue]:
        """Results that a kernel writes straight into an output buffer, seen through views."""
        direct: dict[SSAValue, SSAValue] = {}
        for value, output in zip(self.results, self.outputs, strict=True):
            root = _through_views(value)
            if isinstance(root, OpResult) and isinstance(root.op, CallOp):
                direct.setdefault(root, output)
        return direct

    def convert(self) -> FuncOp:
        """The segment on buffers."""
        for op in self.old.body.block.ops:
            match op:
                case WeightOp():
                    weight = BufferOp(op.symbol.root_reference.data, buffer_type(op.res))
                    weight.res.name_hint = op.res.name_hint
                    self.block.add_op(weight)
                    self.buffers[op.res] = weight.res
                case CallOp():
                    self._call(op)
                case ReturnOp():
                    self._return()
                case NnOp() | RelayoutOp() if op.operands:
                    self.buffers[op.results[0]] = self.buffers[op.operands[0]]
                case _:
                    raise InvalidModelError(
                        f"{op.name} does not belong into a segment",
                        expected="weights, calls of kernels, and views of memory",
                        hint="convert-nn-to-tile makes kernels of ops",
                    )
        return self.new

    def _call(self, op: CallOp) -> None:
        for result in op.res:
            self.buffers[result] = self.direct.get(result) or self._allocate(buffer_type(result))
            self.buffers[result].name_hint = result.name_hint
        temporaries = [self._allocate(type) for type in self.scratch[op.kernel_name]]
        arguments = [self.buffers[v] for v in (*op.arguments, *op.res)]
        self.block.add_op(FuncCallOp(op.kernel_name, [*arguments, *temporaries], []))

    def _allocate(self, type: Buffer) -> SSAValue:
        alloc = memref.AllocOp.get(type.element_type, None, list(type.get_shape()))
        self.block.add_op(alloc)
        return alloc.memref

    def _return(self) -> None:
        for value, output in zip(self.results, self.outputs, strict=True):
            if self.buffers[value] is not output:
                self.block.add_op(memref.CopyOp(self.buffers[value], output))
        self.block.add_op(ReturnOp())


def _through_views(value: SSAValue) -> SSAValue:
    while isinstance(value.owner, NnOp | RelayoutOp) and len(value.owner.operands) == 1:
        value = value.owner.operands[0]
    return value
