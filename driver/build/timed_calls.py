"""The operations of a program's segments, by the numbers in their events."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tessella.dialects import rt
from tessella.dialects.calls import nodes_of
from tessella.runtime.events import CallEvent


def timed_calls(module: ModuleOp) -> tuple[CallEvent, ...]:
    """Return the operation that each event number of a module at the `loops` stage stands for."""
    kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, rt.KernelOp)}
    return tuple(_call(op, kernels) for op in rt.timed(module.body.block))


def _call(op: Operation, kernels: Mapping[str, rt.KernelOp]) -> CallEvent:
    match op:
        case rt.CallOp():
            kernel = kernels[op.callee_name]
            nodes = dict.fromkeys(node.data for node in nodes_of(op, kernel.nodes))
            return CallEvent(op.callee_name, "kernel", tuple(nodes), kernel.is_divided)
        case rt.BarrierOp():
            return CallEvent("", "barrier", divided=True)
        case _:
            return CallEvent("", "copy")
