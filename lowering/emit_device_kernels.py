"""Write the kernels for devices other than the CPU in the devices' languages.

    tile.kernel @relu_0(%x: tensor<4xf32, #opencl>) -> (tensor<4xf32, #opencl>) {
      %r = tile.contract = [i: 4] (%x[i]) -> [i] {..}
      tile.return %r
    }
    %y = tile.call @relu_0(%x) : tensor<4xf32, #opencl>
    ->
    device.kernel @relu_0(tensor<4xf32, #opencl>) -> (tensor<4xf32, #opencl>) device "opencl"
      text "__kernel void relu_0(..) {..}" ..
    %y = tile.call @relu_0(%x) : tensor<4xf32, #opencl>

Each statement that is not fused into another one becomes a launch. Statements that write parts of
one tensor share a launch. Tensors between launches become values of the segment.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella import targets
from tessella.dialects import device
from tessella.dialects.calls import NODES, nodes_of
from tessella.dialects.tile import CallOp, EmptyOp, KernelOp, ReturnOp
from tessella.dialects.tile.inits import reads
from tessella.passes.base import segments
from tessella.passes.emitter import Group, emitter_of, groups_of, obstacle_of
from tessella.passes.kinds import ProgramPass
from tessella.passes.tile_fuse_maps import TileFuseMapsPass
from tessella.runtime.devices import Source
from tessella.runtime.devices import device as find
from tessella.support.errors import Unsupported, UnsupportedError


@dataclass(frozen=True)
class EmitDeviceKernelsPass(ProgramPass):
    """Replace the kernels for devices other than the CPU by their source text."""

    name = "emit-device-kernels"
    stages = ("tile",)

    target: str = "native"
    language: str = ""
    """A language for readers, such as `semtree`; by default, kernels are in the languages of their
    devices."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        emitted: dict[str, _Emitted] = {}
        fuse, target = TileFuseMapsPass(), targets.resolve(self.target)
        table = _Table(op, self.language)
        for kernel in list(op.body.block.ops):
            if isinstance(kernel, KernelOp) and kernel.device is not None:
                fuse.rewrite(kernel, target)
                emitted[kernel.sym_name.data] = _Emitted(kernel, table.emit(kernel))
        for segment in segments(op):
            for call in list(segment.body.block.ops):
                if isinstance(call, CallOp) and call.callee_name in emitted:
                    emitted[call.callee_name].replace(call)
        for found in emitted.values():
            Rewriter.erase_op(found.kernel)


@dataclass(frozen=True)
class _Table:
    """The emitted kernels of a module. Equal kernels are emitted once."""

    module: ModuleOp
    language: str
    known: dict[Hashable, device.KernelOp] = field(default_factory=dict[Hashable, device.KernelOp])

    def emit(self, kernel: KernelOp) -> Mapping[Group, device.KernelOp]:
        """Emit a kernel for each group of statements. Raises UnsupportedError for a group without
        code on the device."""
        name = kernel.device
        assert name is not None
        emitter, facts = emitter_of(name, self.language), find(name).facts
        found: dict[Group, device.KernelOp] = {}
        for number, group in enumerate(groups_of(kernel.all_statements)):
            reason = obstacle_of(group) or emitter.why_not(group)
            if reason is not None:
                node = ", ".join(node.data for node in kernel.nodes or ())
                raise UnsupportedError(
                    [Unsupported(group[-1].name, node, reason)], where=f"building for {name}"
                )
            alone = _alone(group, kernel.sym_name.data + (f"_{number}" if number else ""))
            source = emitter.emit(alone, facts)
            found[group] = self._kernel(kernel, alone, name, source)
        return found

    def _kernel(
        self, kernel: KernelOp, alone: KernelOp, name: str, source: Source
    ) -> device.KernelOp:
        key = source, alone.function_type, name
        if key not in self.known:
            symbol, type = alone.sym_name.data, alone.function_type
            made = device.KernelOp(symbol, type, name, source, kernel.nodes, kernel.code)
            Rewriter.insert_op(made, InsertPoint.before(kernel))
            self.known[key] = made
        return self.known[key]


def _operands(group: Group) -> Sequence[SSAValue]:
    """Return the tensors that a group reads."""
    return list(dict.fromkeys(value for op in group for value in reads(op)))


def _alone(group: Group, name: str) -> KernelOp:
    """Return a kernel of one group, whose arguments are the tensors that the group reads."""
    operands = _operands(group)
    block = Block(arg_types=[value.type for value in operands])
    for argument, value in zip(block.args, operands, strict=True):
        argument.name_hint = value.name_hint
    values = dict[SSAValue, SSAValue](zip(operands, block.args, strict=True))
    made = [op.owner for op in group[0].operands if isinstance(op.owner, EmptyOp)]
    for op in (*made, *group):
        block.add_op(op.clone(values))
    results = [values[result] for result in group[-1].results]
    block.add_op(ReturnOp(results))
    type = FunctionType.from_lists([v.type for v in operands], [v.type for v in results])
    return KernelOp(name, type, Region(block))


@dataclass(frozen=True)
class _Emitted:
    """A kernel of the stage `tile`, and the device kernels that replace it: one for each group of
    its statements."""

    kernel: KernelOp
    kernels: Mapping[Group, device.KernelOp]

    def replace(self, call: CallOp) -> None:
        """Replace a call of the kernel by calls of its device kernels."""
        values = dict[SSAValue, SSAValue](
            zip(self.kernel.body.block.args, call.arguments, strict=True)
        )
        nodes = ArrayAttr(map(StringAttr, self._nodes(call)))
        for group, kernel in self.kernels.items():
            arguments = [values[value] for value in _operands(group)]
            types: Sequence[Attribute] = group[-1].result_types
            made = CallOp(kernel.sym_name.data, arguments, types)
            made.attributes[NODES] = nodes
            Rewriter.insert_op(made, InsertPoint.before(call))
            values.update(zip(group[-1].results, made.results, strict=True))
        for old, value in zip(call.res, self.kernel.returned.values, strict=True):
            new = values[value]
            new.name_hint = old.name_hint or new.name_hint
            old.replace_all_uses_with(new)
        Rewriter.erase_op(call)

    def _nodes(self, call: CallOp) -> Iterator[str]:
        return (node.data for node in nodes_of(call, self.kernel.nodes))
