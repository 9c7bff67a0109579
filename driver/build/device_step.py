"""The step of a program that runs a segment on a device other than the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tessella.dialects import device, rt
from tessella.dialects.calls import nodes_of
from tessella.dialects.place import fields_in
from tessella.runtime.device_steps import DeviceCall, DeviceStep, Operand
from tessella.runtime.specs import TensorSpec
from tessella.support.errors import InternalError


def device_step(
    module: ModuleOp,
    segment: rt.SegmentOp,
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    specs: tuple[TensorSpec, ...],
) -> DeviceStep:
    """Return the step that runs a segment: its calls in order, and the kernels that the calls
    name."""
    known = {op.sym_name.data: op for op in module.ops if isinstance(op, device.KernelOp)}
    calls = tuple(_calls(segment, known))
    assert segment.device is not None
    names = dict.fromkeys(call.kernel for call in calls if call.kernel)
    kernels = {name: known[name].source for name in names}
    arena = segment.arena_size
    fields = fields_in(segment.fields)
    return DeviceStep(segment.device.data, kernels, calls, arena, inputs, outputs, specs, fields)


def _calls(segment: rt.SegmentOp, known: dict[str, device.KernelOp]) -> Iterator[DeviceCall]:
    for op in segment.body.block.ops:
        match op:
            case rt.CallOp():
                nodes = nodes_of(op, known[op.callee_name].nodes)
                names = tuple(dict.fromkeys(node.data for node in nodes))
                yield DeviceCall(op.callee_name, names, _operands(segment, op.buffers))
            case memref.CopyOp():
                buffers = (op.source, op.destination)
                yield DeviceCall("", (), _operands(segment, buffers))
            case rt.ArenaOp() | rt.ReturnOp():
                pass
            case _:
                raise InternalError(f"unexpected {op.name} in a segment on a device")


def _operands(segment: rt.SegmentOp, buffers: Sequence[SSAValue]) -> tuple[Operand, ...]:
    return tuple(_operand(segment, buffer) for buffer in buffers)


def _operand(segment: rt.SegmentOp, buffer: SSAValue) -> Operand:
    size = rt.buffer_bytes(buffer.type)
    owner = buffer.owner
    if isinstance(owner, rt.ArenaOp):
        return Operand("arena", owner.extent[0], size)
    assert not isinstance(owner, Operation)
    return Operand("value", [each is buffer for each in segment.buffers].index(True), size)
