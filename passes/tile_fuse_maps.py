"""Fuse maps into the producers of their operands.

    %1 = tile.contract + [co: 64, x: 56 | ci: 64] (%D[x, ci], %K[co, ci]) -> [co, x] {mulf}
    %2 = tile.contract = [d0: 64, d1: 56] (%1[d0, d1], %B[d0]) -> [d0, d1] {addf}
    ->
    %2 = tile.contract + [co: 64, x: 56 | ci: 64] (%D[x, ci], %K[co, ci]) post (%B[co])
           -> [co, x] {mulf}, {addf}

Two maps become one. The producer's result must have no other use, and the map must read it
elementwise. If several statements write parts of a tensor in turn, the map is fused into each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.nn.core import shape_of, tensor_type
from tessella.dialects.tile import (
    Access,
    ContractOp,
    EmptyOp,
    IndexOp,
    KernelOp,
    Linear,
    YieldOp,
    scalar_region,
    yielded,
)
from tessella.passes.kinds import ProgramPass

Renaming = dict[str, Linear]
Operand = tuple[SSAValue, Access]


@dataclass(frozen=True)
class TileFuseMapsPass(ProgramPass):
    """Merge chains of statements over the same points."""

    name = "tile-fuse-maps"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.body.block.ops:
            if isinstance(kernel, KernelOp):
                fuse_maps(kernel)


def fuse_maps(kernel: KernelOp) -> None:
    """Fuse the maps of a kernel into the statements that they read."""
    for statement in list(kernel.body.block.ops):
        if isinstance(statement, ContractOp):
            _fuse(statement)


def _fuse(consumer: ContractOp) -> None:
    """Fuse each map with the first producer possible, until none can be fused."""
    current: ContractOp | None = consumer
    while current is not None:
        current = next(
            (fused for i in range(len(current.inputs)) if (fused := _try(current, i)) is not None),
            None,
        )


def _try(consumer: ContractOp, operand: int) -> ContractOp | None:
    producers = _producers(consumer.inputs[operand])
    if (
        not producers
        or not consumer.is_map
        or consumer.init is not None
        or consumer.default is not None
        or consumer.post_block is not None
        or consumer.where_list
    ):
        return None
    renamings = [_renaming(consumer, operand, producer) for producer in producers]
    known = [renaming for renaming in renamings if renaming is not None]
    return _fused(consumer, operand, producers, known) if known == renamings else None


def _producers(value: SSAValue) -> list[ContractOp]:
    """The chain of statements that write a value, each into the result of the one before; none if a
    result has another use or a statement has a default."""
    found: list[ContractOp] = []
    op, alone = value.owner, value.has_one_use()
    while isinstance(op, ContractOp) and alone and op.default is None:
        found.append(op)
        if op.init is None:
            return found[::-1]
        op, alone = op.init.owner, op.init.has_one_use()
    return found[::-1] if isinstance(op, EmptyOp) and alone else []


def _fused(
    consumer: ContractOp, operand: int, producers: list[ContractOp], renamings: list[Renaming]
) -> ContractOp:
    """Fuse the map into each producer. Returns the last of them."""
    init = producers[0].init
    if init is not None:
        init = Rewriter.replace_value_with_new_type(init, consumer.res.type)
    fused: list[ContractOp] = []
    for producer, renaming in zip(producers, renamings, strict=True):
        build = _merge_maps if producer.is_map and producer.post_block is None else _append_post
        fused.append(build(consumer, operand, producer, renaming, init))
        Rewriter.insert_op(fused[-1], InsertPoint.before(consumer))
        init = fused[-1].res
    fused[-1].res.name_hint = consumer.res.name_hint
    consumer.res.replace_all_uses_with(fused[-1].res)
    for op in (consumer, *reversed(producers)):
        Rewriter.erase_op(op)
    return fused[-1]


def _renaming(consumer: ContractOp, operand: int, producer: ContractOp) -> Renaming | None:
    """The consumer's indices as forms of the producer's, if both run over the same points."""
    ranges = {i.name: i.range for i in consumer.index_list}
    read = consumer.input_accesses[operand]
    written = producer.out_access
    if shape_of(producer.res) != shape_of(consumer.res):
        return None
    names: Renaming = {}
    for form, target, extent in zip(read, written, shape_of(producer.res), strict=True):
        if form.single is not None and form.single not in names and ranges[form.single] == extent:
            names[form.single] = target
        elif form != Linear() or extent != 1:
            return None
    for name, extent in ranges.items():
        if name not in names:
            if extent != 1:
                return None
            names[name] = Linear()
    # the consumer writes where it reads, so that each point of the producer is written once
    identity = tuple(f.substitute(names) for f in consumer.out_access)
    if identity != tuple(f.substitute({}) for f in written):
        return None
    if _reads_index(consumer.combine):
        return None
    return names


def _reads_index(region: Region) -> bool:
    return any(isinstance(op, IndexOp) for op in region.walk())


def _others(op: ContractOp, operand: int, renaming: Renaming) -> list[Operand]:
    return [
        (value, tuple(f.substitute(renaming) for f in forms))
        for i, (value, forms) in enumerate(zip(op.inputs, op.input_accesses, strict=True))
        if i != operand
    ]


def _inline(block: Block, source: Block, arguments: Sequence[SSAValue]) -> SSAValue:
    """Append a body's ops for these arguments. Returns the yielded value."""
    values: dict[SSAValue, SSAValue] = dict(zip(source.args, arguments, strict=True))
    for op in source.ops:
        if isinstance(op, YieldOp):
            return values[op.value]
        clone: Operation = op.clone(values)
        block.add_op(clone)
    raise AssertionError("a body ends in tile.yield")


def _consumer_arguments(
    operand: int, first: SSAValue, others: Sequence[SSAValue]
) -> list[SSAValue]:
    return [*others[:operand], first, *others[operand:]]


def _argument(block: Block, operands: list[Operand], skip: int, operand: Operand) -> SSAValue:
    """The argument for an operand of a body, whose ``operands`` follow ``skip`` others."""
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
    """Append the consumer's body and its additional operands to the producer's.

    The producer's ops are not moved, as chains of maps can be long.
    """
    last = block.last_op
    assert isinstance(last, YieldOp)
    first = last.value
    Rewriter.erase_op(last)
    others = [_argument(block, operands, skip, x) for x in _others(consumer, operand, renaming)]
    arguments = _consumer_arguments(operand, first, others)
    block.add_op(YieldOp(_inline(block, consumer.combine.block, arguments)))


def _merge_maps(
    consumer: ContractOp,
    operand: int,
    producer: ContractOp,
    renaming: Renaming,
    init: SSAValue | None,
) -> ContractOp:
    inputs = list(zip(producer.inputs, producer.input_accesses, strict=True))
    body = producer.detach_region(producer.combine)
    _extend(body.block, inputs, 0, consumer, operand, renaming)
    return ContractOp(
        "=",
        producer.index_list,
        inputs,
        producer.out_access,
        tensor_type(consumer.res),
        body,
        init=init,
    )


def _append_post(
    consumer: ContractOp,
    operand: int,
    producer: ContractOp,
    renaming: Renaming,
    init: SSAValue | None,
) -> ContractOp:
    posts = list(zip(producer.post_inputs, producer.post_accesses, strict=True))
    if producer.post_block is not None:
        post = producer.detach_region(producer.post)
    else:
        post = scalar_region([yielded(producer.combine.block).type], lambda _, args: args[0])
    _extend(post.block, posts, 1, consumer, operand, renaming)
    return ContractOp(
        producer.aggregation.data,
        producer.index_list,
        list(zip(producer.inputs, producer.input_accesses, strict=True)),
        producer.out_access,
        tensor_type(consumer.res),
        producer.detach_region(producer.combine),
        post_inputs=posts,
        post=post,
        where=producer.where_list,
        init=init,
    )
