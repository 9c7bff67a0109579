"""Loops that the statements of a kernel share.

    tile.kernel @softmax(%x: ..) -> (..) attributes {nest = #tile.nest<[4096 by 4]>} {
      %m = tile.contract > [i: 4096 | j: 1024] (%x[i, j]) -> [i] at [i] ...
      %e = tile.contract = [i: 4096, j: 1024] (%x[i, j], %m[i]) -> [i, j] at [i] ...

The statements keep their full ranges. Each step of the shared loops runs all statements in turn, on
a part of the indices that ``at`` names. A tensor that only these statements read has room for one
step, as no step reads the results of another.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.nn.core import shape_of
from tessella.dialects.tile.attributes import NestAttr, SharedLoop
from tessella.dialects.tile.ops import ContractOp, ExtractOp
from tessella.support.sizes import Size


def shared_loops(op: ContractOp) -> Mapping[str, SharedLoop]:
    """The shared loops of a statement, by index."""
    kernel = op.parent_op()
    nest = kernel.properties.get("nest") if kernel is not None else None
    if op.at is None or not isinstance(nest, NestAttr):
        return {}
    return dict(zip(op.at.data, nest.data.loops, strict=False))


def steps(op: ContractOp) -> int:
    """How many times the shared loops run a statement."""
    return prod(loop.trips for loop in shared_loops(op).values())


def is_local(value: SSAValue) -> bool:
    """Whether a tensor lives within a step of the shared loops."""
    op = value.owner
    if not isinstance(op, ContractOp) or not shared_loops(op):
        return False
    return all(isinstance(use.operation, ContractOp) for use in value.uses)


def memory_shape(value: SSAValue) -> list[Size]:
    """The shape of a tensor in memory: a part of it if it lives within a step."""
    shape: list[Size] = list(shape_of(value))
    if is_local(value):
        assert isinstance(value.owner, ContractOp)
        loops = shared_loops(value.owner)
        for dim, form in enumerate(value.owner.out_access):
            loop = loops.get(form.single or "")
            shape[dim] = loop.step if loop is not None else shape[dim]
    return shape


def can_share(op: ContractOp, name: str) -> bool:
    """Whether a loop over a free index may be shared: the output's access has it as a plain index,
    the inputs' accesses have it as a plain index or not at all, and constraints do not use it."""
    forms = [form for access in op.access_list for form in access]
    free = any(index.name == name and not index.reduced for index in op.index_list)
    written = sum(form.single == name for form in op.out_access) == 1
    plain = all(form.single == name or not form.coefficient(name) for form in forms)
    extents = {i.name: i.range for i in op.index_list}
    values = op.tensors
    whole = all(
        shape_of(value)[dim] == extents[name]
        for value, access in zip(values, op.access_list, strict=True)
        for dim, form in enumerate(access)
        if form.single == name
    )
    constrained = any(form.coefficient(name) for form, _ in op.where_list)
    inner = [x for region in (op.combine, op.post) for x in region.walk()]
    elsewhere = any(
        isinstance(x, ExtractOp) and isinstance(x.source.owner, ContractOp) for x in inner
    )
    return (
        free
        and written
        and plain
        and whole
        and op.init is None
        and not constrained
        and not elsewhere
    )


def check_nest(kernel: Operation, nest: NestAttr | None) -> None:
    """Raise VerifyException if a kernel's statements cannot share its loops."""
    for op in kernel.regions[0].block.ops:
        if not isinstance(op, ContractOp):
            continue
        names = op.at.data if op.at is not None else ()
        loops = nest.data.loops if nest is not None else ()
        if len(names) != len(loops) or len(set(names)) != len(names):
            raise VerifyException(
                f"tile.contract: expected an index for each of the kernel's {len(loops)} shared "
                f"loops, found [{', '.join(names)}]"
            )
        ranges = {index.name: index.range for index in op.index_list}
        for number, (name, loop) in enumerate(zip(names, loops, strict=True)):
            if not 1 <= loop.step <= loop.extent:
                raise VerifyException(
                    f"tile.kernel: a shared loop of {loop.extent} has no steps of {loop.step}"
                )
            if ranges.get(name) != loop.extent or not can_share(op, name):
                raise VerifyException(
                    f"tile.contract: the loop over {name} cannot be one of {loop.extent} that is "
                    "shared"
                )
            _check_reads(op, name, number)


def _check_reads(op: ContractOp, name: str, number: int) -> None:
    """Check that results of other statements of the step are read by the same loop."""
    for value, access in zip((*op.inputs, *op.post_inputs), op.access_list, strict=False):
        writer = value.owner
        if not isinstance(writer, ContractOp) or writer.at is None:
            continue
        for written, read in zip(writer.out_access, access, strict=True):
            if (written.single == writer.at.data[number]) != (read.single == name):
                raise VerifyException(
                    f"tile.contract: {name} reads what another step of a shared loop writes"
                )
