"""Loops that the statements of a kernel share.

    tile.kernel @softmax(%x: ..) -> (..) attributes {nest = #tile.nest<[4096 by 4]>} {
      %m = tile.contract > [i: 4096 | j: 1024] (%x[i, j]) -> [i] at [i] ...
      %e = tile.contract = [i: 4096, j: 1024] (%x[i, j], %m[i]) -> [i, j] at [i] ...

The statements keep their full ranges. Each step of the shared loops runs statements in turn, on a
part of the indices that ``at`` names. A statement that names fewer indices than there are loops is
in the outer ones alone: between two runs of the inner ones, before or after them. A tensor that
only statements of the same step read has room for one step.

An index that counts blocks of a loop's values is in it too. So a sum over a shared loop is one of
each block, which steps make, and then one over the blocks:

    %p = tile.contract + [c: 64, j: 8 | i: 64] (%x[64*c + i, j]) -> [c, j] at [c] ...
    %s = tile.contract + [j: 8 | c: 64] (%p[c, j]) -> [j] ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.nn.core import shape_of
from tessella.dialects.tile.access import Access, Linear
from tessella.dialects.tile.attributes import NestAttr, SharedLoop
from tessella.dialects.tile.ops import ContractOp, ExtractOp
from tessella.support.sizes import Size


def shared_loops(op: ContractOp) -> Mapping[str, SharedLoop]:
    """The shared loops of a statement, by index, in values of the index."""
    kernel = op.parent_op()
    nest = kernel.properties.get("nest") if kernel is not None else None
    if op.at is None or not isinstance(nest, NestAttr):
        return {}
    ranges = op.ranges
    loops = zip(op.at.data, nest.data.loops, strict=False)
    return {name: loop.over(ranges[name]) for name, loop in loops}


def depth(op: Operation | None) -> int:
    """How many of its kernel's shared loops a statement is in."""
    return len(op.at.data) if isinstance(op, ContractOp) and op.at is not None else 0


def steps(op: ContractOp) -> int:
    """How many times the shared loops run a statement."""
    return prod(loop.trips for loop in shared_loops(op).values())


def common_depth(first: ContractOp, second: Operation) -> int:
    """How many shared loops run two statements in the same step: a statement between them ends the
    loops that it is not in."""
    common = min(depth(first), depth(second))
    op = first.next_op
    while common and op is not None and op is not second:
        common = min(common, depth(op)) if isinstance(op, ContractOp) else common
        op = op.next_op
    return common


def lives_within(value: SSAValue) -> int:
    """How many shared loops a tensor lives within a step of: those that run the statement that
    writes it with all that read it."""
    op = value.owner
    if not isinstance(op, ContractOp) or not shared_loops(op):
        return 0
    return min((common_depth(op, use.operation) for use in value.uses), default=depth(op))


def memory_shape(value: SSAValue) -> list[Size]:
    """The shape of a tensor in memory: a part of it if it lives within a step."""
    shape: list[Size] = list(shape_of(value))
    within = lives_within(value)
    if within:
        assert isinstance(value.owner, ContractOp)
        loops = list(shared_loops(value.owner).items())[:within]
        for dim, form in enumerate(value.owner.out_access):
            for name, loop in loops:
                if (block := form.coefficient(name)) != 0:
                    shape[dim] = block * loop.step
    return shape


def blocks_of(form: Linear, name: str, ranges: Mapping[str, Size]) -> int | None:
    """How long the blocks are that an index counts in a form, all others being within a block: 8
    for ``8*c + i`` if ``i`` has 8 values. None if it does not."""
    length, low, high = 0, form.constant, form.constant
    for other, coefficient in form.terms:
        if other == name:
            length = coefficient
        elif coefficient < 0:
            low += coefficient * (ranges[other] - 1)
        else:
            high += coefficient * (ranges[other] - 1)
    return length if length > 0 and low >= 0 and high < length else None


def counted(form: Linear, ranges: Mapping[str, Size]) -> tuple[str, int] | None:
    """The index that counts blocks of a dimension, and how long they are: 1 if it is alone."""
    if form.single is not None:
        return form.single, 1
    lengths = ((name, blocks_of(form, name, ranges)) for name, _ in form.terms)
    return next(((name, length) for name, length in lengths if length is not None), None)


def can_share(op: ContractOp, name: str) -> bool:
    """Whether a loop over a free index may be shared: each step writes a part of the output's that
    it counts."""
    ranges = op.ranges
    free = any(index.name == name and not index.reduced for index in op.index_list)
    inner = [x for region in (op.combine, op.post) for x in region.walk()]
    elsewhere = any(
        isinstance(x, ExtractOp) and isinstance(x.source.owner, ContractOp) for x in inner
    )
    return free and _is_written_in_blocks(op, name, ranges) and op.init is None and not elsewhere


def _is_written_in_blocks(op: ContractOp, name: str, ranges: Mapping[str, Size]) -> bool:
    """Whether an index counts blocks of one dimension of the result, and all of them."""
    found = [
        (blocks_of(form, name, ranges), extent)
        for form, extent in zip(op.out_access, shape_of(op.res), strict=True)
        if form.coefficient(name)
    ]
    return len(found) == 1 and found[0][0] is not None and found[0][0] * ranges[name] == found[0][1]


def can_divide(kernel: Operation, number: int) -> bool:
    """Whether threads can divide the steps of a shared loop: each reads in it what it has written
    itself."""
    inside = [op for op in kernel.regions[0].block.ops if isinstance(op, ContractOp) and depth(op)]
    pairs = [(op, use.operation) for op in inside for use in op.res.uses]
    common = [common_depth(op, reader) for op, reader in pairs if isinstance(reader, ContractOp)]
    return min(map(depth, inside), default=0) > number and all(
        within == 0 or within > number for within in common
    )


def check_nest(kernel: Operation, nest: NestAttr | None) -> None:
    """Raise VerifyException if a kernel's statements cannot share its loops."""
    loops = nest.data.loops if nest is not None else ()
    for loop in loops:
        if not 1 <= loop.step <= loop.extent:
            raise VerifyException(
                f"tile.kernel: a shared loop of {loop.extent} has no steps of {loop.step}"
            )
    _check_parallel(kernel, loops)
    for op in kernel.regions[0].block.ops:
        if not isinstance(op, ContractOp):
            continue
        names = op.at.data if op.at is not None else ()
        if len(names) > len(loops) or len(set(names)) != len(names):
            raise VerifyException(
                f"tile.contract: expected an index for each of the outermost of the kernel's "
                f"{len(loops)} shared loops, found [{', '.join(names)}]"
            )
        ranges = op.ranges
        for name, loop in zip(names, loops, strict=False):
            if not loop.counts(ranges.get(name, 0)) or not can_share(op, name):
                raise VerifyException(
                    f"tile.contract: the loop over {name} cannot be one of {loop.extent} by "
                    f"{loop.step} that is shared"
                )
        _check_reads(op)


def _check_parallel(kernel: Operation, loops: Sequence[SharedLoop]) -> None:
    """Check that at most one loop is divided between threads, in whole steps, and can be."""
    divided = [(i, loop) for i, loop in enumerate(loops) if loop.parallel]
    if len(divided) > 1:
        raise VerifyException("tile.kernel: two shared loops are divided between threads")
    for number, loop in divided:
        if loop.parallel % loop.step or not can_divide(kernel, number):
            raise VerifyException(
                f"tile.kernel: the shared loop of {loop.extent} by {loop.step} cannot be divided "
                f"between threads by {loop.parallel}"
            )


def _check_reads(op: ContractOp) -> None:
    """Check that what other statements of the step write is read by the same step."""
    for value, access in zip((*op.inputs, *op.post_inputs), op.access_list, strict=False):
        writer = value.owner
        common = common_depth(writer, op) if isinstance(writer, ContractOp) else 0
        for number in range(common):
            assert isinstance(writer, ContractOp)
            if _parts(writer, writer.out_access, number) != _parts(op, access, number):
                name = list(shared_loops(op))[number]
                raise VerifyException(
                    f"tile.contract: {name} reads what another step of a shared loop writes"
                )


def _parts(op: ContractOp, access: Access, number: int) -> list[Size | None]:
    """How many elements of each dimension a step of a shared loop accesses, where all steps
    together access each once; 0 where the loop does not move through a dimension."""
    name, loop = list(shared_loops(op).items())[number]
    ranges = op.ranges
    parts: list[Size | None] = []
    for form in access:
        length = blocks_of(form, name, ranges) if form.coefficient(name) else 0
        parts.append(None if length is None else length * loop.step)
    return parts
