"""Sums over a loop that statements share.

An iteration of a shared loop cannot complete a sum over the loop. It sums a block of values
instead, and the sums of blocks are added after the loop. Statements that read one large tensor,
some of them summing over its rows, thus read it once, as in the gradient of a regression or in
several sums of one array. Sums of blocks are as accurate as partial sums
(`passes/tile/partial.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Block, Operation, SSAValue

from tessella.dialects.layout import NCHW
from tessella.dialects.nn.core import Tensor, shape_of, tensor, tensor_type
from tessella.dialects.place import PlaceAttr, place_of, placed, precision_of
from tessella.dialects.tile import (
    Access,
    AtAttr,
    ContractOp,
    ExtractOp,
    Index,
    KernelOp,
    Linear,
    scalar_region,
    yielded,
)
from tessella.dialects.tile.nest import can_share, counted
from tessella.passes.tile.estimates import bytes_in, count_of
from tessella.passes.tile.rebuild import inputs_of, posts_of, read_indices
from tessella.support.decisions import at_most
from tessella.support.sizes import MOST
from tessella.targets import Target

PART = 0.25
"""The largest memory traffic of the sums of blocks, as a fraction of the traffic that the shared
loop saves."""
BLOCKS = (*range(64, 129), *range(63, 15, -1))
"""Numbers of blocks of a long sum, best first: enough for many threads, and few to add up."""
FEW = 16
"""The most results of a long sum, as each block has all of them (`python -m bench.constants
sums`)."""
LEAST = 8
"""The largest factor by which a block may be smaller than the number of values that fits into the
cache. If the range has no divisor in between, no block is used."""


@dataclass(frozen=True)
class LoopStream:
    """Statements of a kernel that can share one loop, with the ops that run before and after it."""

    extent: int
    names: Mapping[ContractOp, str]
    """The index of the loop in each statement."""
    before: Sequence[Operation]
    inside: Sequence[ContractOp]
    """The statements inside iterations, in order. Each of them sums over the loop, or has a result
    for each of its values."""
    after: Sequence[Operation]
    """The ops that need complete sums of the statements inside, and these sums themselves."""

    @property
    def sums(self) -> list[ContractOp]:
        return [op for op in self.inside if _is_reduced(op, self.names[op])]


def streams(kernel: KernelOp, least: int = 2) -> Iterator[LoopStream]:
    """Yield the loops that at least ``least`` statements of a kernel can share, among them a
    statement that sums over the loop."""
    for names in _loops(kernel.statements):
        # most loops of a long concat belong to one statement
        if len(names) < least or not any(_is_reduced(op, name) for op, name in names.items()):
            continue
        stream = _ordered(kernel, names)
        if stream is not None and len(stream.inside) >= least and stream.sums:
            yield stream


def _loops(ops: Sequence[ContractOp]) -> list[dict[ContractOp, str]]:
    """Return, for each loop, the index of each statement that runs over it.

    Indices are the same loop if they run over the same dimension of a tensor.
    """
    loop_of: dict[tuple[ContractOp, str], set[tuple[ContractOp, str]]] = {}
    along: dict[tuple[SSAValue, int], tuple[ContractOp, str]] = {}
    for op in ops:
        ranges = op.ranges
        for value, access in zip(op.tensors, op.access_list, strict=True):
            for dim, (form, extent) in enumerate(zip(access, shape_of(value), strict=True)):
                if form.single is None or ranges[form.single] != extent or extent == 1:
                    continue
                index = op, form.single
                own = loop_of.setdefault(index, {index})
                other = loop_of[along.setdefault((value, dim), index)]
                if own is not other:
                    small, large = sorted((own, other), key=len)
                    large |= small
                    loop_of |= dict.fromkeys(small, large)
    unique = [*{id(loop): loop for loop in loop_of.values()}.values()]
    counts = (Counter(op for op, _ in loop) for loop in unique)
    return [
        {op: name for op, name in loop if count[op] == 1}
        for loop, count in zip(unique, counts, strict=True)
    ]


def _is_reduced(op: ContractOp, name: str) -> bool:
    return any(index.name == name and not index.written for index in op.index_list)


def _ordered(kernel: KernelOp, names: Mapping[ContractOp, str]) -> LoopStream | None:
    """Return the statements of a kernel in an order in which those that share a loop are adjacent.

    Ops that depend on none of them come before; ops that need their complete sums come after.
    Returns None for a loop of symbolic length, which no number of blocks divides.
    """
    before: list[Operation] = []
    inside: list[ContractOp] = []
    after: list[Operation] = []
    joined: set[Operation] = set()
    late: set[Operation] = set()
    for op in kernel.body.block.ops:
        if op is kernel.returned:
            continue
        needed = _needed(op, names)
        if needed & late:
            after.append(op)
            late.add(op)
        elif isinstance(op, ContractOp) and op in names and _joins(op, names, inside):
            inside.append(op)
            joined.add(op)
            if _is_reduced(op, names[op]):
                after.append(op)
                late.add(op)
        elif needed & joined:
            after.append(op)
            late.add(op)
        else:
            before.append(op)
    name = names[inside[0]] if inside else ""
    extent = next((i.range for op in inside[:1] for i in op.index_list if i.name == name), 0)
    return LoopStream(extent, names, before, inside, after) if at_most(extent, MOST) else None


def _needed(op: Operation, names: Mapping[ContractOp, str]) -> set[Operation]:
    """Return the producers of an op's operands, and the readers of the tensor that it overwrites.

    For a statement that sums over the loop, the operands of the post body are not included, as only
    the sum of the blocks needs them.
    """
    read = [value for x in op.walk() if isinstance(x, ExtractOp) for value in [x.source]]
    if isinstance(op, ContractOp) and op in names and _is_reduced(op, names[op]):
        read += op.inputs
    else:
        read += op.operands
    makers = {value.owner for value in read if isinstance(value.owner, Operation)}
    return makers | _readers_of_init(op)


def _readers_of_init(op: Operation) -> set[Operation]:
    """Return the other ops that read the tensor which a statement overwrites."""
    if not isinstance(op, ContractOp) or op.init is None or (block := op.parent_block()) is None:
        return set()
    users = (block.find_ancestor_op_in_block(use.operation) for use in op.init.uses)
    return {user for user in users if user is not None and user is not op}


def _joins(op: ContractOp, names: Mapping[ContractOp, str], inside: Sequence[ContractOp]) -> bool:
    """Return whether ``op`` can run in the same iterations of a loop as the statements ``inside``.

    An iteration may read only those results of ``inside`` that it has written itself.
    """
    reads = zip((*op.inputs, *op.post_inputs), op.access_list, strict=False)
    own = all(
        _reads_own(names, op, access, writer)
        for value, access in reads
        if isinstance(writer := value.owner, ContractOp) and writer in inside
    )
    return own and _fits(op, names[op])


def _reads_own(
    names: Mapping[ContractOp, str], op: ContractOp, access: Access, writer: ContractOp
) -> bool:
    """Return whether an iteration of ``op`` reads only results of ``writer`` that it has written
    itself.

    The reader must move in the dimension in which the loop moves the writer, and in no other.
    """
    for form, written in zip(access, writer.out_access, strict=True):
        found = counted(written, writer.ranges)
        if found is None or found[0] != names[writer]:
            if form.coefficient(names[op]):
                return False
        elif counted(form, op.ranges) != (names[op], found[1]):
            return False
    return True


def _fits(op: ContractOp, name: str) -> bool:
    """Return whether a statement can run in iterations of a shared loop over its index ``name``.

    If it sums over this index, it must be possible to sum block by block: the index may neither
    lead out of a tensor nor have constraints.
    """
    if not _is_reduced(op, name):
        return can_share(op, name)
    ranges = op.ranges
    stays = all(
        low >= 0 and high < extent
        for value, access in zip(op.tensors, op.access_list, strict=True)
        for form, extent in zip(access, shape_of(value), strict=True)
        if form.coefficient(name)
        for low, high in [form.bounds(ranges)]
    )
    constrained = any(form.coefficient(name) for form, _ in op.where_list)
    elsewhere = any(isinstance(x, ExtractOp) for x in op.walk())
    plain = op.init is None and not constrained and not elsewhere and op.running_index is None
    return stays and plain and name not in read_indices(op.combine)


# ** long sums **


def long_sum(kernel: KernelOp, target: Target) -> tuple[LoopStream, int] | None:
    """Return a loop over which a statement sums far more values than there are results, and its
    block size; None if there is none.

    Threads divide the blocks, as there is too little else to divide.
    """
    long = [op for op in kernel.statements if _is_long(op, target)]
    for stream in streams(kernel, 1) if long else ():
        count = next((n for n in BLOCKS if stream.extent % n == 0), None)
        if count is not None and len(stream.inside) == 1 and stream.inside[0] in long:
            return stream, stream.extent // count
    return None


def _is_long(op: ContractOp, target: Target) -> bool:
    read = sum(bytes_in(value) for value in op.inputs)
    return count_of(op.res) <= FEW and read > target.l2


# ** savings **


def saved(stream: LoopStream, target: Target) -> int:
    """Return the bytes of memory traffic that a shared loop saves, because its statements find
    tensors in the cache that an earlier statement of the same iteration has accessed."""
    accesses: dict[SSAValue, int] = {}
    for op in stream.inside:
        for value, access in zip(op.tensors, op.access_list, strict=True):
            if any(form.single == stream.names[op] for form in access):
                accesses[value] = accesses.get(value, 0) + 1
    sizes = ((bytes_in(value), count) for value, count in accesses.items())
    return sum(size * (count - 1) for size, count in sizes if size > target.l2)


def block_of(stream: LoopStream, fitting: int, grain: int) -> int | None:
    """Return the number of values that an iteration sums: the largest divisor of the loop's range
    that is at most ``fitting``; None if all divisors are too small.

    Multiples of ``grain`` are preferred.
    """
    most = min(stream.extent, max(grain, fitting))
    dividing = [n for n in range(most, most // LEAST, -1) if stream.extent % n == 0]
    return next((n for n in dividing if n % grain == 0), dividing[0] if dividing else None)


def pays(stream: LoopStream, block: int, target: Target) -> bool:
    """Return whether writing and reading the sums of blocks takes much less memory traffic than the
    shared loop saves."""
    parts = sum(bytes_in(_part_type(op, stream.extent // block)) for op in stream.sums)
    return 2 * parts <= PART * saved(stream, target)


# ** the rewrite **


def in_blocks(kernel: KernelOp, stream: LoopStream, block: int) -> None:
    """Turn the sums over a loop into sums of blocks, followed by the sums of these."""
    body, last = kernel.body.block, kernel.returned
    made = {op: _split(op, stream.names[op], stream.extent // block, block) for op in stream.sums}
    steps: list[Operation] = []
    for op in stream.inside:
        part = made[op][0] if op in made else op
        part.at = AtAttr.of(part.index_list[0].name if op in made else stream.names[op])
        steps.append(part)
    after = [
        made[op][1] if isinstance(op, ContractOp) and op in made else op for op in stream.after
    ]
    for op, (_, total) in made.items():
        op.res.replace_all_uses_with(total.res)
        total.res.name_hint = op.res.name_hint
    for op in list(body.ops):
        op.detach()
    for op in made:
        op.erase()
    body.add_ops([*stream.before, *steps, *after, last])


def _split(op: ContractOp, name: str, count: int, block: int) -> tuple[ContractOp, ContractOp]:
    """Return the two statements that replace a sum: the sums of blocks, and the sum of these."""
    known = {index.name for index in op.index_list}
    blocks = next(n for i in range(len(known) + 1) if (n := f"block{i or ''}") not in known)
    inner = Linear.of(blocks, block) + Linear.of(name)
    free = [index for index in op.index_list if not index.reduced]
    reduced = [
        replace(index, range=block) if index.name == name else index
        for index in op.index_list
        if index.reduced
    ]
    inputs = [(v, tuple(f.substitute({name: inner}) for f in a)) for v, a in inputs_of(op)]
    posts = posts_of(op)
    post = op.detach_region(op.post) if op.post_block is not None else None
    combine = op.detach_region(op.combine)
    kind, element = op.aggregation.data, yielded(combine.block).type
    access = (Linear.of(blocks), *op.out_access)
    counted = Index(blocks, count)
    part = ContractOp(
        kind, [counted, *free, *reduced], inputs, access, _part_type(op, count, combine.block),
        combine, where=op.where_list, parts=op.part_count,
    )  # fmt: skip
    total = ContractOp(
        kind, [*free, replace(counted, reduced=True)], [(part.res, access)], op.out_access,
        tensor_type(op.res), scalar_region([element], _first), post_inputs=posts, post=post,
    )  # fmt: skip
    return part, total


def _first(_: Block, arguments: Sequence[SSAValue]) -> SSAValue:
    return arguments[0]


def _part_type(op: ContractOp, count: int, combine: Block | None = None) -> Tensor:
    """Return the type of the tensor with the sums of ``count`` blocks."""
    element = yielded(combine or op.combine.block).type
    place = place_of(op.res.type)
    type = tensor(element, [count, *shape_of(op.res)])
    if place is None:
        return type
    return placed(type, PlaceAttr.get(place.device.data, precision_of(element), NCHW))
