"""Fuse maps into the statement that produces their operand.

    %1 = tile.contract + [co: 64, x: 56 | ci: 64] (%D[x, ci], %K[co, ci]) -> [co, x] {mulf}
    %2 = tile.contract = [d0: 64, d1: 56] (%1[d0, d1], %B[d0]) -> [d0, d1] {addf}
    ->
    %2 = tile.contract + [co: 64, x: 56 | ci: 64] (%D[x, ci], %K[co, ci]) post (%B[co])
           -> [co, x] {mulf}, {addf}

A map behind a map becomes one map. The producer's result must have no other use, and the map must
read it element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.nn.core import shape_of, tensor_type
from tessella.dialects.tile import (
    Access,
    ContractOp,
    IndexOp,
    KernelOp,
    Linear,
    YieldOp,
    yielded,
)

Renaming = dict[str, Linear]


@dataclass(frozen=True)
class TileFuseMapsPass(ModulePass):
    """Merge chains of statements that touch the same points."""

    name = "tile-fuse-maps"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.body.block.ops:
            if isinstance(kernel, KernelOp):
                for statement in list(kernel.body.block.ops):
                    if isinstance(statement, ContractOp):
                        _fuse(statement)


def _fuse(consumer: ContractOp) -> None:
    """Fuse a map with the first producer that it can be fused with, again and again."""
    current: ContractOp | None = consumer
    while current is not None:
        current = next(
            (fused for i in range(len(current.inputs)) if (fused := _try(current, i)) is not None),
            None,
        )


def _try(consumer: ContractOp, operand: int) -> ContractOp | None:
    producer = consumer.inputs[operand].owner
    if (
        not isinstance(producer, ContractOp)
        or not consumer.is_map
        or consumer.init is not None
        or consumer.default is not None
        or consumer.post_block is not None
        or consumer.where_list
        or producer.init is not None
        or producer.default is not None
        or not producer.res.has_one_use()
    ):
        return None
    renaming = _renaming(consumer, operand, producer)
    if renaming is None:
        return None
    build = _merge_maps if producer.is_map and producer.post_block is None else _append_post
    fused = build(consumer, operand, producer, renaming)
    Rewriter.insert_op(fused, InsertPoint.before(consumer))
    fused.res.name_hint = consumer.res.name_hint
    consumer.res.replace_all_uses_with(fused.res)
    Rewriter.erase_op(consumer)
    Rewriter.erase_op(producer)
    return fused


def _renaming(consumer: ContractOp, operand: int, producer: ContractOp) -> Renaming | None:
    """The consumer's indices as forms of the producer's, where both run over the same points."""
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


def _others(op: ContractOp, operand: int, renaming: Renaming) -> list[tuple[SSAValue, Access]]:
    return [
        (value, tuple(f.substitute(renaming) for f in forms))
        for i, (value, forms) in enumerate(zip(op.inputs, op.input_accesses, strict=True))
        if i != operand
    ]


def _inline(block: Block, source: Block, arguments: Sequence[SSAValue]) -> SSAValue:
    """Append a body's ops for these arguments; the value it yields."""
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


def _merge_maps(
    consumer: ContractOp, operand: int, producer: ContractOp, renaming: Renaming
) -> ContractOp:
    inputs = list(zip(producer.inputs, producer.input_accesses, strict=True))
    others = _others(consumer, operand, renaming)
    types = [tensor_type(v).element_type for v, _ in (*inputs, *others)]
    block = Block(arg_types=types)
    first = _inline(block, producer.combine.block, block.args[: len(inputs)])
    arguments = _consumer_arguments(operand, first, block.args[len(inputs) :])
    block.add_op(YieldOp(_inline(block, consumer.combine.block, arguments)))
    return ContractOp(
        "=",
        producer.index_list,
        [*inputs, *others],
        producer.out_access,
        tensor_type(consumer.res),
        Region(block),
    )


def _append_post(
    consumer: ContractOp, operand: int, producer: ContractOp, renaming: Renaming
) -> ContractOp:
    posts = list(zip(producer.post_inputs, producer.post_accesses, strict=True))
    others = _others(consumer, operand, renaming)
    combined = yielded(producer.combine.block).type
    types = [combined, *(tensor_type(v).element_type for v, _ in (*posts, *others))]
    block = Block(arg_types=types)
    old = producer.post_block
    first = _inline(block, old, block.args[: 1 + len(posts)]) if old is not None else block.args[0]
    arguments = _consumer_arguments(operand, first, block.args[1 + len(posts) :])
    block.add_op(YieldOp(_inline(block, consumer.combine.block, arguments)))
    return ContractOp(
        producer.aggregation.data,
        producer.index_list,
        list(zip(producer.inputs, producer.input_accesses, strict=True)),
        producer.out_access,
        tensor_type(consumer.res),
        producer.combine.clone(),
        post_inputs=[*posts, *others],
        post=Region(block),
        where=producer.where_list,
    )
