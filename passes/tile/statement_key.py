"""A key of all properties of a statement that its schedule depends on."""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.ir import Region, SSAValue

from tessella.dialects.tile import ContractOp, KernelOp
from tessella.dialects.tile.nest import asks_ahead, memory_shape, shared_loops
from tessella.dialects.tile.reach import reaches
from tessella.passes.tile.packing import argument_of


def statement_key(op: ContractOp, kernel: KernelOp) -> Hashable:
    """Return a key that is equal for statements with the same schedules, in any kernel."""
    properties = tuple((name, a) for name, a in sorted(op.properties.items()) if name != "schedule")
    packable = tuple(_packable(op, kernel, i) for i in range(len(op.inputs)))
    bodies = _body(op.combine), _body(op.post)
    memory = tuple(tuple(memory_shape(v)) for v in op.tensors)
    loops = tuple(shared_loops(op).items()), asks_ahead(op)
    reached = tuple(reaches(op).items())
    types = tuple(v.type for v in op.tensors)
    return properties, types, memory, loops, reached, packable, bodies


def _packable(op: ContractOp, kernel: KernelOp, operand: int) -> str:
    argument = argument_of(op, kernel, operand)
    if argument is None:
        return "no"
    return "constant" if kernel.is_constant(argument.index) else "variable"


def _body(region: Region) -> Hashable:
    """Return the ops of a body, with values by number and outside tensors by type."""
    block = region.blocks.first
    if block is None:
        return None
    numbers: dict[SSAValue, int] = {arg: i for i, arg in enumerate(block.args)}
    ops: list[Hashable] = []
    for op in block.ops:
        operands = tuple(numbers.get(v, v.type) for v in op.operands)
        properties = tuple(sorted(op.properties.items()))
        ops.append((op.name, operands, properties, tuple(op.attributes.items())))
        numbers |= {result: len(numbers) + i for i, result in enumerate(op.results)}
    return tuple(a.type for a in block.args), tuple(ops)
