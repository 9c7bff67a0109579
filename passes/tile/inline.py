"""Inlining of an elementwise statement into the statements that read its result.

The producer's indices are replaced by affine expressions of the reader's. A result that is read
several times is then computed several times, if that takes less time than writing and reading it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log2
from typing import NamedTuple

from xdsl.ir import Block, SSAValue
from xdsl.rewriter import Rewriter

from tessella.dialects.nn.core import shape_of, tensor_type
from tessella.dialects.tile import Access, ContractOp, Linear, stays_inside, yielded
from tessella.dialects.tile.flat import layout_of
from tessella.dialects.tile.limits import would_end
from tessella.passes.tile.estimates import bytes_in, points
from tessella.passes.tile.model import body_ops
from tessella.passes.tile.places import can_have_lanes
from tessella.passes.tile.rebuild import (
    Operand,
    can_run_at,
    detached_bodies,
    inputs_of,
    posts_of,
    prepend_body,
    read_indices,
    reads_points,
    rebuilt,
)
from tessella.targets import Target


def inlined(consumer: ContractOp, operand: int, target: Target) -> ContractOp | None:
    """Compute an elementwise operand inside its reader; None if that is impossible or does not pay.

    Returns the reader.
    """
    producer = consumer.operands[operand].owner
    if not isinstance(producer, ContractOp) or not _is_plain(producer):
        return None
    if not _pays(producer, target) or not can_run_at(producer, consumer):
        return None
    names = _renaming(producer, consumer, consumer.access_list[operand])
    if names is None or any(names[n].single is None for n in read_indices(producer.combine)):
        return None
    if reads_points(producer.combine) and not _may_read_points(consumer, operand, names):
        return None
    return _inlined(consumer, operand, producer, names)


def _may_read_points(consumer: ContractOp, operand: int, names: Mapping[str, Linear]) -> bool:
    """Return whether an elementwise statement whose body uses index values may be computed inside a
    reader.

    The reader must be an elementwise statement or an indexed write, or the inlined computation must
    make the reader's loops end earlier.
    """
    reduced = {index.name for index in consumer.index_list if index.reduced}
    ending = [name for name, form in names.items() if form.single in reduced]
    return (consumer.is_map or consumer.is_scatter) or (
        operand < len(consumer.inputs) and would_end(consumer, operand, ending)
    )


def _is_plain(op: ContractOp) -> bool:
    """Return whether a statement is elementwise and can be computed for any element of its result
    on its own: without constraints, defaults or out-of-bounds reads."""
    ranges = op.ranges
    return (
        op.is_map
        and op.init is None
        and op.default is None
        and op.post_block is None
        and not op.where_list
        and all(stays_inside(forms, shape_of(value), ranges) for value, forms in inputs_of(op))
    )


def _renaming(producer: ContractOp, consumer: ContractOp, read: Access) -> dict[str, Linear] | None:
    """Return an affine expression of the consumer's indices for each index of the producer; None
    unless each of the producer's indices is a whole dimension of its result."""
    if not stays_inside(read, shape_of(producer.res), consumer.ranges):
        return None
    ranges = producer.ranges
    names: dict[str, Linear] = {}
    for form, target, extent in zip(producer.out_access, read, shape_of(producer.res), strict=True):
        if form.single is not None and form.single not in names and ranges[form.single] == extent:
            names[form.single] = target
        elif form != Linear() or extent != 1:
            return None
    if any(name not in names and extent != 1 for name, extent in ranges.items()):
        return None
    return {name: names.get(name, Linear()) for name in ranges}


# ** costs **


class _Reader(NamedTuple):
    """A statement that reads an elementwise result."""

    op: ContractOp
    access: Access
    after: bool
    """True if the statement reads the result after its reduction."""

    @property
    def points(self) -> int:
        """The number of times that the statement reads an element of the result."""
        return points(i for i in self.op.index_list if i.written or not self.after)


def _pays(producer: ContractOp, target: Target) -> bool:
    """Return whether all readers are statements, and computing the value in each of them takes less
    time than writing and reading it."""
    readers: set[_Reader] = set()
    for use in producer.res.uses:
        op = use.operation
        if not isinstance(op, ContractOp) or use.index >= len(op.accesses) - 1:
            return False
        readers.add(_Reader(op, op.access_list[use.index], use.index >= len(op.inputs)))
    once = _points(producer)
    again = sum(reader.points for reader in readers) - once
    multiplied = any(reader.op.sums_products and not reader.after for reader in readers)
    if multiplied and (again > 0 or not _moves(producer)):
        return False
    lanes = target.lanes(32)
    ops = body_ops(producer) + (log2(lanes) if _transposes(producer) else 0.0)
    computing = again / lanes * ops / target.fma_ports
    scalar = any(reader.op.is_scatter and not can_have_lanes(reader.op) for reader in readers)
    if scalar and not _moves(producer):  # Scalar writes compute elements one by one.
        computing += once * (1 - 1 / lanes) * body_ops(producer) / target.fma_ports
    # Otherwise the result is written, and read again by statements that share its loops.
    return computing <= 2 * bytes_in(producer.res) / target.l2_bandwidth


def _transposes(op: ContractOp) -> bool:
    """Return whether adjacent elements of the result are computed from elements that are not
    adjacent."""
    inner = _innermost(op.res, op.out_access).single
    forms = [_innermost(value, access) for value, access in inputs_of(op)]
    moved = (any(f.coefficient(inner or "") for f in access) for access in op.input_accesses)
    return any(
        moves and abs(form.coefficient(inner or "")) != 1
        for form, moves in zip(forms, moved, strict=True)
    )


def _innermost(value: SSAValue, access: Access) -> Linear:
    """Return the affine expression of an access in the dimension along which the tensor is
    contiguous."""
    pieces = layout_of(value).order(len(access))
    return access[pieces[-1].dim] if pieces else Linear()


def _points(op: ContractOp) -> int:
    return points(op.index_list)


def _moves(op: ContractOp) -> bool:
    """Return whether a statement only moves elements."""
    return yielded(op.combine.block) in op.combine.block.args


# ** the rewrite **


def _inlined(
    consumer: ContractOp, operand: int, producer: ContractOp, names: dict[str, Linear]
) -> ContractOp:
    wanted = [
        (value, tuple(form.substitute(names) for form in forms))
        for value, forms in inputs_of(producer)
    ]
    inputs, posts = inputs_of(consumer), posts_of(consumer)
    combine, post = detached_bodies(consumer)
    after = operand - len(inputs)
    single = {name: form.single or "" for name, form in names.items()}
    if post is None or after < 0:
        _replace(combine.block, 0, inputs, operand, wanted, producer, single)
    else:
        _replace(post.block, 1, posts, after, wanted, producer, single)
    new = rebuilt(consumer, inputs, posts, combine, post)
    if producer.res.first_use is None:
        Rewriter.erase_op(producer)
    return new


def _replace(
    block: Block,
    skip: int,
    operands: list[Operand],
    operand: int,
    wanted: list[Operand],
    producer: ContractOp,
    indices: dict[str, str],
) -> None:
    """Replace an argument of a body by the producer's computation of it.

    New operands take its position, which keeps the order of a product's factors.
    """
    old = block.args[skip + operand]
    del operands[operand]
    new = [each for each in dict.fromkeys(wanted) if each not in operands]
    operands[operand:operand] = new
    for i, (value, _) in enumerate(new):
        block.insert_arg(tensor_type(value).element_type, skip + operand + i)
    arguments = [block.args[_position(block, old, skip + operands.index(each))] for each in wanted]
    old.replace_all_uses_with(prepend_body(block, producer.combine.block, arguments, indices))
    block.erase_arg(old)


def _position(block: Block, old: SSAValue, position: int) -> int:
    """Return the position of a body's argument before the argument ``old`` is removed, given its
    position afterwards."""
    return position + (block.args.index(old) <= position)
