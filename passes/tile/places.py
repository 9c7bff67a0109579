"""The computed coordinates of an indexed write: the ops that compute them, and the loops that they
depend on."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Block, Operation, SSAValue

from tessella.dialects.tile import ContractOp, IndexOp
from tessella.dialects.tile.bodies import coordinates_of, yielded
from tessella.dialects.tile.flat import Flat, layout_of


def needed(block: Block, values: Iterable[SSAValue]) -> set[SSAValue]:
    """Return the values of a body that ``values`` depend on, themselves included."""
    found: set[SSAValue] = set()
    left = list(values)
    while left:
        value = left.pop()
        if value in found or block not in (value.owner, value.owner.parent):
            continue
        found.add(value)
        if isinstance(value.owner, Operation):
            left += value.owner.operands
    return found


def of_places(op: ContractOp) -> set[SSAValue]:
    """Return the values of the body that the coordinates depend on."""
    return needed(op.combine.block, coordinates_of(op.combine.block))


def of_values(op: ContractOp) -> set[SSAValue]:
    """Return the values of the body that the written value depends on."""
    return needed(op.combine.block, [yielded(op.combine.block)])


def can_have_lanes(op: ContractOp) -> bool:
    """Return whether the lanes of a vector can run over the contiguous dimension of an indexed
    write's result: the computed coordinates must not depend on the index of that dimension."""
    pieces = layout_of(op.res).order(len(op.out_access))
    name = op.out_access[pieces[-1].dim].single if pieces else None
    used = of_places(op)
    reads = (
        access
        for argument, access in zip(op.combine.block.args, op.input_accesses, strict=True)
        if argument in used
    )
    return (
        name is not None
        and not any(index.name == name for index in op.scattered)
        and not any(form.coefficient(name) for access in reads for form in access)
        and not any(isinstance(v.owner, IndexOp) and v.owner.index.data == name for v in used)
    )


def place_indices(op: ContractOp, flat: Flat) -> set[str]:
    """Return the free indices that the computed coordinates of an indexed write depend on, or the
    constraints that make a point valid."""
    names = {name for c in flat.constraints for name, _ in c.form.terms}
    used = of_places(op)
    for argument, access in zip(op.combine.block.args, flat.accesses, strict=False):
        if argument in used:
            names |= {name for name in flat.free if access.stride(name) != 0}
    for value in used:
        if isinstance(value.owner, IndexOp):
            names.add(value.owner.index.data)
    return names & set(flat.free)
