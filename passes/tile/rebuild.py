"""Common parts of statement fusions: operands with their accesses, and combined bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.nn.core import tensor_type
from tessella.dialects.tile import Access, ContractOp, ExtractOp, IndexOp, YieldOp
from tessella.dialects.tile.inits import overwriter, reads

Operand = tuple[SSAValue, Access]


def inputs_of(op: ContractOp) -> list[Operand]:
    """Return the operands of the combine body."""
    return list(zip(op.inputs, op.input_accesses, strict=True))


def posts_of(op: ContractOp) -> list[Operand]:
    """Return the operands of the post body."""
    return list(zip(op.post_inputs, op.post_accesses, strict=True))


def reads_points(region: Region) -> bool:
    """Return whether a body depends on more than its arguments: on the values of indices, or on
    elements at computed positions."""
    return bool(read_indices(region)) or reads_places(region)


def read_indices(region: Region) -> list[str]:
    """Return the indices whose values a body reads."""
    return [op.index.data for op in region.walk() if isinstance(op, IndexOp)]


def reads_places(region: Region) -> bool:
    """Return whether a body reads elements of tensors at computed positions."""
    return any(isinstance(op, ExtractOp) for op in region.walk())


def can_run_at(op: ContractOp, place: ContractOp) -> bool:
    """Return whether the statement ``op`` can be computed later, where the statement ``place`` is,
    because nothing in between overwrites its operands."""
    writers = [writer for value in reads(op) if (writer := overwriter(value)) is not None]
    return all(place.is_before_in_block(writer) for writer in writers)


def append_body(
    block: Block, source: Block, arguments: Sequence[SSAValue], indices: Mapping[str, str]
) -> SSAValue:
    """Append copies of a body's ops, with other arguments and index names. Returns the yielded
    value."""
    return _copied(block, source, arguments, InsertPoint.at_end(block), indices)


def prepend_body(
    block: Block, source: Block, arguments: Sequence[SSAValue], indices: Mapping[str, str]
) -> SSAValue:
    """Prepend copies of a body's ops, with other index names. Returns the yielded value."""
    return _copied(block, source, arguments, InsertPoint.at_start(block), indices)


def _copied(
    block: Block,
    source: Block,
    arguments: Sequence[SSAValue],
    point: InsertPoint,
    indices: Mapping[str, str],
) -> SSAValue:
    values: dict[SSAValue, SSAValue] = dict(zip(source.args, arguments, strict=True))
    clones: list[Operation] = []
    for op in source.ops:
        if isinstance(op, YieldOp):
            Rewriter.insert_op(clones, point)
            return values[op.value]
        clones.append(clone := op.clone(values))
        if isinstance(clone, IndexOp):
            clone.index = StringAttr(indices[clone.index.data])
    raise AssertionError("a body ends in tile.yield")


def rebuilt(
    op: ContractOp,
    inputs: Sequence[Operand],
    posts: Sequence[Operand],
    combine: Region,
    post: Region | None,
) -> ContractOp:
    """Replace a statement by one with other operands and bodies. Returns the new statement."""
    new = ContractOp(
        op.aggregation.data,
        op.index_list,
        inputs,
        op.out_access,
        tensor_type(op.res),
        combine,
        post_inputs=posts,
        post=post,
        where=op.where_list,
        init=op.init,
        default=op.default,
        parts=op.part_count,
        checked=op.checked is not None,
    )
    new.attributes |= op.attributes
    new.res.name_hint = op.res.name_hint
    Rewriter.insert_op(new, InsertPoint.before(op))
    op.res.replace_all_uses_with(new.res)
    Rewriter.erase_op(op)
    return new


def detached_bodies(op: ContractOp) -> tuple[Region, Region | None]:
    """Return the bodies, detached from a statement that is to be replaced."""
    post = op.detach_region(op.post) if op.post_block is not None else None
    return op.detach_region(op.combine), post


def with_operands_once(op: ContractOp) -> ContractOp:
    """Return the statement with duplicate operands (one tensor, one access) merged."""
    inputs, posts = inputs_of(op), posts_of(op)
    if len(set(inputs)) == len(inputs) and len(set(posts)) == len(posts):
        return op
    combine, post = detached_bodies(op)
    kept = _merge(combine.block, 0, inputs)
    after = _merge(post.block, 1, posts) if post is not None else []
    return rebuilt(op, kept, after, combine, post)


def _merge(block: Block, skip: int, operands: Sequence[Operand]) -> list[Operand]:
    """Merge the arguments of a body that stand for equal operands. Returns the distinct operands.

    The first ``skip`` arguments of the body are for other values; those for ``operands`` follow.
    """
    kept: list[Operand] = []
    for operand in operands:
        argument = block.args[skip + len(kept)]
        if operand not in kept:
            kept.append(operand)
            continue
        argument.replace_all_uses_with(block.args[skip + kept.index(operand)])
        block.erase_arg(argument)
    return kept
