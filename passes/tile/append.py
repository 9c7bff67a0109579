"""Appending an elementwise statement to the statements that write its operand.

The elementwise statement takes over the indices of the statements before it, and must read each
element of the operand once.
"""

from __future__ import annotations

from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.nn.core import shape_of, tensor_type
from tessella.dialects.tile import (
    Access,
    ContractOp,
    EmptyOp,
    Linear,
    YieldOp,
    scalar_region,
    stays_inside,
    yielded,
)
from tessella.passes.tile.rebuild import (
    Operand,
    append_body,
    can_run_at,
    inputs_of,
    posts_of,
    read_indices,
    reads_places,
)
from tessella.support.sizes import Size

Renaming = dict[str, Linear]


def appended(consumer: ContractOp, operand: int) -> ContractOp | None:
    """Append an elementwise statement to the producers of an operand; None if that is impossible.

    Returns the last of the statements that then write its result.
    """
    if (
        not consumer.is_map
        or consumer.default is not None
        or consumer.post_block is not None
        or consumer.where_list
        or reads_places(consumer.combine)
    ):
        return None
    producers = _producers(consumer.inputs[operand])
    if not producers or not all(can_run_at(producer, consumer) for producer in producers):
        return None
    renamings = [_renaming(consumer, operand, producer) for producer in producers]
    known = [renaming for renaming in renamings if renaming is not None]
    return _appended(consumer, operand, producers, known) if known == renamings else None


def _producers(value: SSAValue) -> list[ContractOp]:
    """Return the chain of statements that write a value, each into the result of the previous one.

    The list is empty if a result has another use, or a statement has a default or is an indexed
    write.
    """
    found: list[ContractOp] = []
    op, alone = value.owner, value.has_one_use()
    while isinstance(op, ContractOp) and alone and op.default is None and not op.is_scatter:
        found.append(op)
        if op.init is None:
            return found[::-1]
        op, alone = op.init.owner, op.init.has_one_use()
    return found[::-1] if isinstance(op, EmptyOp) and alone else []


def _renaming(consumer: ContractOp, operand: int, producer: ContractOp) -> Renaming | None:
    """Return an affine expression of the producer's indices for each index of the consumer; None
    unless the consumer reads each element of its operand once."""
    ranges = consumer.ranges
    read, written = consumer.input_accesses[operand], producer.out_access
    names: Renaming = {}
    for form, target, extent in zip(read, written, shape_of(producer.res), strict=True):
        stays = stays_inside((target,), (extent,), producer.ranges)
        if form.single is not None and form.single not in names and ranges[form.single] == extent:
            if not stays and not _leaves_with(consumer, form, extent, producer):
                return None
            names[form.single] = target
        elif form != Linear() or extent != 1 or not stays:
            return None
    for name, extent in ranges.items():
        if name not in names:
            if extent != 1:
                return None
            names[name] = Linear()
    if any(names[name].single is None for name in read_indices(consumer.combine)):
        return None
    if not producer.is_map:  # a register tile is for its statement's order of writes
        found = _order(_substituted(consumer.out_access, names), producer)
        return names if found == _order(written, producer) else None
    return names


def _leaves_with(consumer: ContractOp, form: Linear, extent: Size, producer: ContractOp) -> bool:
    """Return whether the consumer's result is indexed by ``form`` in a dimension of the same extent
    as the producer's.

    Every point at which the producer writes out of bounds along this dimension is then out of
    bounds in the consumer's result too, and the consumer writes nothing there.
    """
    written = zip(consumer.out_access, shape_of(consumer.res), strict=True)
    return not producer.is_map and (form, extent) in written


def _order(access: Access, op: ContractOp) -> list[Linear]:
    """Return the affine expressions of an access, in dimension order, without constants and without
    indices of one value. Dimensions that no other index moves are left out."""
    units = {i.name: Linear() for i in op.index_list if i.range == 1}
    forms = (form.substitute(units) for form in access)
    return [Linear(form.terms) for form in forms if form.terms]


def _substituted(access: Access, names: Renaming) -> Access:
    return tuple(form.substitute(names) for form in access)


def _appended(
    consumer: ContractOp, operand: int, producers: list[ContractOp], renamings: list[Renaming]
) -> ContractOp:
    init, start = consumer.init, producers[0].init
    if init is None and start is not None:
        init, start = Rewriter.replace_value_with_new_type(start, consumer.res.type), None
    made: list[ContractOp] = []
    for producer, renaming in zip(producers, renamings, strict=True):
        build = _merge_maps if producer.is_map and producer.post_block is None else _append_post
        made.append(build(consumer, operand, producer, renaming, init))
        made[-1].attributes |= producer.attributes
        made[-1].parts = producer.parts
        Rewriter.insert_op(made[-1], InsertPoint.before(consumer))
        init = made[-1].res
    made[-1].res.name_hint = consumer.res.name_hint
    consumer.res.replace_all_uses_with(made[-1].res)
    for op in (consumer, *reversed(producers)):
        Rewriter.erase_op(op)
    if start is not None and isinstance(start.owner, EmptyOp):
        Rewriter.erase_op(start.owner)
    return made[-1]


def _argument(block: Block, operands: list[Operand], skip: int, operand: Operand) -> SSAValue:
    """Return the argument of a body for an operand. If the operand is new, it is added to
    ``operands``, and an argument for it to the body.

    The first ``skip`` arguments of the body are for other values; those for ``operands`` follow.
    """
    if operand in operands:
        return block.args[skip + operands.index(operand)]
    operands.append(operand)
    return block.insert_arg(tensor_type(operand[0]).element_type, len(block.args))


def _extend(
    block: Block,
    operands: list[Operand],
    skip: int,
    consumer: ContractOp,
    operand: int,
    renaming: Renaming,
) -> None:
    """Append the consumer's body to ``block``, the producer's body, and its additional operands to
    ``operands``.

    The producer's value replaces the consumer's operand number ``operand``. The first ``skip``
    arguments of the block are for other values; those for ``operands`` follow. The producer's ops
    are not moved, as chains of elementwise statements can be long.
    """
    last = block.last_op
    assert isinstance(last, YieldOp)
    first = last.value
    Rewriter.erase_op(last)
    arguments = [
        first
        if i == operand
        else _argument(block, operands, skip, (value, _substituted(forms, renaming)))
        for i, (value, forms) in enumerate(inputs_of(consumer))
    ]
    single = {name: form.single or "" for name, form in renaming.items()}
    block.add_op(YieldOp(append_body(block, consumer.combine.block, arguments, single)))


def _merge_maps(
    consumer: ContractOp,
    operand: int,
    producer: ContractOp,
    renaming: Renaming,
    init: SSAValue | None,
) -> ContractOp:
    inputs = inputs_of(producer)
    body = producer.detach_region(producer.combine)
    _extend(body.block, inputs, 0, consumer, operand, renaming)
    return ContractOp(
        "=",
        producer.index_list,
        inputs,
        _substituted(consumer.out_access, renaming),
        tensor_type(consumer.res),
        body,
        where=producer.where_list,
        init=init,
    )


def _append_post(
    consumer: ContractOp,
    operand: int,
    producer: ContractOp,
    renaming: Renaming,
    init: SSAValue | None,
) -> ContractOp:
    posts = posts_of(producer)
    if producer.post_block is not None:
        post = producer.detach_region(producer.post)
    else:
        post = scalar_region([yielded(producer.combine.block).type], lambda _, args: args[0])
    _extend(post.block, posts, 1, consumer, operand, renaming)
    return ContractOp(
        producer.aggregation.data,
        producer.index_list,
        inputs_of(producer),
        _substituted(consumer.out_access, renaming),
        tensor_type(consumer.res),
        producer.detach_region(producer.combine),
        post_inputs=posts,
        post=post,
        where=producer.where_list,
        init=init,
    )
