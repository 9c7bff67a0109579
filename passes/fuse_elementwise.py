"""Form groups of ops, each of which becomes one kernel that keeps its intermediate values in
registers.

    %1 = nn.conv %x, %w, %b {kernel = "conv", ...}
    %2 = nn.add %1, %skip {kernel = "add", ...}
    %3 = nn.relu %2 {kernel = "relu", ...}
    ->
    %3 = nn.fused(%x_1 = %x, %w_1 = %w, %b_1 = %b, %skip_1 = %skip) {
      %1 = nn.conv %x_1, %w_1, %b_1 ...
      %2 = nn.add %1, %skip_1 ...
      %3 = nn.relu %2 ...
      nn.yield %3
    }

A group is a part of the graph that no path leaves and enters again. It consists of elementwise ops,
ops that move elements, and at most one other op, its *anchor*, such as a convolution or a sum. Only
gathers may occur several times. These ops join a group:

- elementwise ops after the anchor, if they alone use its result and have its shape;
- ops before a reduction, which reads each element once, and before a matrix product if it reads
  each element once;
- gathers whose results elementwise ops combine, such as a sum of embeddings;
- ops that move the indices of a gather, such as a broadcast;
- ops before a scatter, including gathers: a message between nodes of a graph is computed where it
  is added;
- elementwise ops and moves before other ops, if no element is computed more than once; moves cost
  nothing;
- elementwise ops of one shape, even if other ops use their results too;
- a dequantization before its reader, which may be a pool, so that memory holds bytes.

Casts between places join like other elementwise ops (``joined_casts.py``). A reshape between two
members joins as well; any other stays a view. A value that is read at several positions joins only
if it takes few operations to compute. A group has at most ``MAX_OPS`` ops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella import kernels
from tessella.dialects.nn.constants import ConstantOp
from tessella.dialects.nn.core import NnOp, shape_of
from tessella.dialects.nn.elementwise import DequantizeOp, DequantizingOp, ElementwiseOp
from tessella.dialects.nn.fused import FusedOp, YieldOp
from tessella.dialects.nn.linear import MatmulOp
from tessella.dialects.nn.movement import ConcatOp, ExpandOp, ReshapeOp, TransposeOp
from tessella.dialects.nn.pooling import PoolOp
from tessella.dialects.nn.reduction import ReduceOp
from tessella.dialects.nn.traits import MovesElements, ReadAsAccess, ReadsOnce, ReadsRows
from tessella.dialects.place import place_of
from tessella.kernels.movement import common_digits
from tessella.kernels.registry import NOT_FUSED, VIEW_KERNEL, is_generated
from tessella.passes.base import functions
from tessella.passes.joined_casts import with_elementwise_casts, without_lone_casts
from tessella.passes.kinds import ProgramPass
from tessella.support.conditions import always
from tessella.support.sizes import Size, estimated

MAX_OPS = 160
"""The most ops in a group, as compile time grows with their square.

A 5x5 filter written as a sum of slices has 125.
"""

RECOMPUTED = 8
"""Operations that take as long as writing a value to a near cache and reading it."""


@dataclass(frozen=True)
class FuseElementwisePass(ProgramPass):
    """Form `nn.fused` groups."""

    name = "fuse-elementwise"
    stages = ("nn", "placed")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels.load()
        for function in functions(op):
            _repeat_for_each(function)
            casts = with_elementwise_casts(function)
            formed = [group for group in _Groups(function).formed() if len(group.ops) > 1]
            for group in formed:
                _outline(group.ops)
            without_lone_casts(casts)
            if any(group.is_shared for group in formed):
                _sort(function.body.block)


@dataclass(eq=False)
class _Group:
    """A group of ops in program order. ``members`` and ``before`` are sets of ops as integers: bit
    i stands for the op at position i of the function."""

    ops: list[NnOp]
    members: int
    before: int
    """The ops that run before any member."""
    anchor: NnOp | None = None
    is_shared: bool = False
    """True if ops outside the group read a result that members read too."""

    @property
    def only_moves(self) -> bool:
        return all(op.has_trait(ReadAsAccess) for op in self.ops)

    @property
    def transposes(self) -> bool:
        return any(isinstance(op, TransposeOp) for op in self.ops)

    def with_view(self, view: ReshapeOp, bit: int) -> _Group:
        """Return the group extended by a reshape that produces one of its operands."""
        return _Group([view, *self.ops], self.members | bit, self.before, self.anchor)


class _Groups:
    """Forms the groups of a function, op by op."""

    def __init__(self, function: FuncOp) -> None:
        self.ops = list(function.body.block.ops)
        self.position: dict[Operation, int] = {op: i for i, op in enumerate(self.ops)}
        self.group_of: dict[Operation, _Group] = {}

    def formed(self) -> list[_Group]:
        """Return all groups, single ops included."""
        for op in self.ops:
            group = self._single(op)
            if _is_fusable(op):
                while (merged := self._merged(group)) is not None:
                    group = merged
        unique = {id(group): group for op, group in self.group_of.items() if _is_fusable(op)}
        return list(unique.values())

    def _single(self, op: Operation) -> _Group:
        before = 0
        for producer in self._producers([op]):
            before |= producer.members | producer.before
        ops = [op] if isinstance(op, NnOp) else []
        group = _Group(ops, 1 << self.position[op], before)
        if isinstance(op, NnOp) and not _is_computed_where_read(op):
            group.anchor = op
        self.group_of[op] = group
        return group

    def _producers(self, ops: Sequence[Operation]) -> Iterator[_Group]:
        """Yield the groups of the ops' operands."""
        for op in ops:
            makers = (self._maker(value) for value in op.operands)
            yield from (maker for maker in makers if maker is not None)

    def _maker(self, value: SSAValue) -> _Group | None:
        """Return the group with the op that computes a value; None for arguments."""
        owner = value.owner
        return self.group_of.get(owner) if isinstance(owner, Operation) else None

    def _merged(self, group: _Group) -> _Group | None:
        """Merge the group with the best joinable producer: an anchor's first, then the latest one.

        A group has at most one anchor.
        """
        found: dict[int, tuple[_Group, _Group]] = {}
        for producer in self._producers(group.ops):
            if producer is not group and producer.ops and _is_fusable(producer.ops[-1]):
                found[id(producer)] = producer, group
        for view in self._views(group):
            producer = self._maker(view.x)
            if producer is not None and producer.ops and _is_fusable(producer.ops[-1]):
                found[id(producer)] = producer, group.with_view(view, 1 << self.position[view])
        ranked = sorted(
            found.values(),
            key=lambda pair: (pair[0].anchor is None, -self.position[pair[0].ops[-1]]),
        )
        pair = next((pair for pair in ranked if self._joins(*pair)), None)
        return None if pair is None else self._merge(*pair)

    def _views(self, group: _Group) -> list[ReshapeOp]:
        """Return the reshapes that stay views, produce an operand of the group, and have no other
        use."""
        found: dict[ReshapeOp, None] = {}
        for op in group.ops:
            for value in op.operands:
                match value.owner:
                    case ReshapeOp() as view if (
                        view.kernel == VIEW_KERNEL and view not in group.ops and value.has_one_use()
                    ):
                        found[view] = None
                    case _:
                        pass
        return list(found)

    def _merge(self, producer: _Group, consumer: _Group) -> _Group:
        merged = _Group(
            sorted([*producer.ops, *consumer.ops], key=lambda op: self.position[op]),
            producer.members | consumer.members,
            (producer.before | consumer.before) & ~(producer.members | consumer.members),
            consumer.anchor if _takes_messages(consumer) else producer.anchor or consumer.anchor,
        )
        merged.is_shared = (
            producer.is_shared or consumer.is_shared or self._is_shared(producer, consumer)
        )
        if merged.is_shared:  # Readers of the producer's results now run after the consumer too.
            for other in {id(group): group for group in self.group_of.values()}.values():
                if other.before & merged.members:
                    other.before |= merged.members | merged.before
        for op in merged.ops:
            self.group_of[op] = merged
        return merged

    def _is_shared(self, producer: _Group, consumer: _Group) -> bool:
        """Return whether ops outside both groups read the producer's results."""
        inside = producer.members | consumer.members
        return any(not inside >> self.position[op] & 1 for op in _readers(producer))

    # ** which groups join **

    def _joins(self, producer: _Group, consumer: _Group) -> bool:
        """Return whether the group ``producer`` can merge with ``consumer``, which reads its
        results."""
        if len(producer.ops) + len(consumer.ops) > MAX_OPS or _is_left_to_readers(consumer):
            return False
        edges = list(self._edges(producer, consumer))
        if not all(_same_order(value, op) for value, op in edges):
            return False
        if producer.anchor is not None and _takes_messages(consumer):
            return self._is_message(producer, consumer)
        if producer.anchor is not None:
            alone = consumer.anchor is None or (_gathers(producer) and _gathers(consumer))
            return alone and self._follows(producer, consumer, edges)
        if self._is_shared(producer, consumer):
            return self._shares(producer, consumer)
        return _is_light(producer, edges) and all(
            _reads_once(op, value, producer) for value, op in edges
        )

    def _edges(self, producer: _Group, consumer: _Group) -> Iterator[tuple[SSAValue, NnOp]]:
        """Yield the values of ``producer`` that ``consumer`` reads, each with the op that reads it.
        The result of a reshape inside ``consumer`` of one of these values is yielded like the
        value."""
        passed: set[SSAValue] = set()
        for op in consumer.ops:
            for value in op.operands:
                if self._maker(value) is producer or value in passed:
                    yield value, op
                    passed |= {op.res} if isinstance(op, ReshapeOp) else set()

    def _follows(
        self, producer: _Group, consumer: _Group, edges: Sequence[tuple[SSAValue, NnOp]]
    ) -> bool:
        """Return whether the consumer's ops are elementwise and can run on the results of the
        producer's anchor in registers.

        If the consumer has a gather as well, only the ops that depend on these results have to be
        elementwise.
        """
        if self._is_shared(producer, consumer):
            return False
        shape = _without_units(edges[0][0])
        ops = consumer.ops if consumer.anchor is None else _dependent(consumer.ops, edges)
        return all(
            isinstance(op, (ElementwiseOp, ReshapeOp)) and _without_units(op.results[0]) == shape
            for op in ops
        )

    def _is_message(self, producer: _Group, consumer: _Group) -> bool:
        """Return whether the consumer ends in a scatter, and is the only reader of the producer,
        which gathers elements: a message between nodes of a graph."""
        return _gathers(producer) and not self._is_shared(producer, consumer)

    def _shares(self, producer: _Group, consumer: _Group) -> bool:
        """Return whether two groups of elementwise ops of one shape can be one kernel although ops
        outside both read the producer's results.

        No such op may have to run before the consumer.
        """
        ops = [*producer.ops, *consumer.ops]
        shapes = {shape_of(op.results[0]) for op in ops}
        if len(shapes) != 1 or not all(isinstance(op, ElementwiseOp) for op in ops):
            return False
        inside = producer.members | consumer.members
        others = (op for op in _readers(producer) if not inside >> self.position[op] & 1)
        return not any(consumer.before >> self.position[op] & 1 for op in others)


def _is_fusable(op: object) -> bool:
    return (
        isinstance(op, NnOp)
        and not isinstance(op, ConstantOp)
        and op.kernel not in (None, *NOT_FUSED)
        and is_generated(op)
        and len(op.results) == 1
    )


def _takes_messages(group: _Group) -> bool:
    """Return whether a group ends in a scatter, which can compute its operands."""
    return group.anchor is not None and group.anchor.has_trait(ReadsOnce)


def _gathers(group: _Group) -> bool:
    """Return whether the anchors of a group are gathers, of which it may have several."""
    moves = group.anchor and group.anchor.get_trait(MovesElements)
    return bool(moves and moves.indices)


def _dependent(ops: Sequence[NnOp], edges: Sequence[tuple[SSAValue, NnOp]]) -> list[NnOp]:
    """Return those of the consumer's ops that depend on the values of ``edges``, which the producer
    computes, in order."""
    reached, found = {value for value, _ in edges}, list[NnOp]()
    for op in ops:
        if not reached.isdisjoint(op.operands):
            found.append(op)
            reached |= set(op.results)
    return found


def _is_computed_where_read(op: NnOp) -> bool:
    return isinstance(op, ElementwiseOp) or op.has_trait(ReadAsAccess)


def _repeat_for_each(function: FuncOp) -> None:
    """Copy dequantizations and broadcasts for their readers: each reader that computes a
    dequantization itself gets its own copy, and each scatter its own broadcast of indices."""
    for op in list(function.body.block.ops):
        if not isinstance(op, DequantizeOp | ExpandOp):
            continue
        for use in list(op.res.uses)[1:]:
            expands = isinstance(op, ExpandOp)
            if use.operation.has_trait(ReadsOnce) if expands else _takes_in(use.operation, op.res):
                own = op.clone()
                Rewriter.insert_op(own, InsertPoint.before(use.operation))
                use.operation.operands[use.index] = own.res


def _shared(group: list[NnOp]) -> list[NnOp]:
    """Merge equal dequantizations in a group of ops. Returns the ops that remain."""
    known: dict[object, DequantizingOp] = {}
    left: list[NnOp] = []
    for op in group:
        if isinstance(op, DequantizeOp):
            first = known.setdefault((tuple(op.operands), op.res.type), op)
            if first is not op:
                op.res.replace_all_uses_with(first.res)
                Rewriter.erase_op(op)
                continue
        left.append(op)
    return left


def _is_left_to_readers(group: _Group) -> bool:
    """Return whether a group is a single dequantization that all its readers compute themselves.

    Memory then holds the bytes, not the dequantized numbers.
    """
    op = group.ops[0]
    if len(group.ops) > 1 or not isinstance(op, DequantizeOp) or op.res.first_use is None:
        return False
    return all(_takes_in(use.operation, op.res) for use in op.res.uses)


def _takes_in(op: Operation, value: SSAValue) -> bool:
    """Return whether an op can compute its operand ``value`` itself, one element at a time as it
    reads the operand."""
    if not isinstance(op, NnOp) or not _is_fusable(op):
        return False
    if _is_computed_where_read(op):
        return not isinstance(op, ReshapeOp)
    rows = op.has_trait(ReadsRows) and value not in op.operands[1:]
    return rows or isinstance(op, PoolOp)


def _readers(group: _Group) -> Iterator[Operation]:
    """Yield the readers of a group's results."""
    for op in group.ops:
        for result in op.results:
            yield from (use.operation for use in result.uses)


def _without_units(value: SSAValue) -> list[Size]:
    return [extent for extent in shape_of(value) if extent != 1]


def _is_light(producer: _Group, edges: Sequence[tuple[SSAValue, NnOp]]) -> bool:
    """Return whether a value that is read at several positions takes few operations, so that each
    reader can compute it again.

    Any other such value is stored in a buffer.
    """
    places = Counter(value for value, op in edges if op.has_trait(ReadAsAccess))
    again = max(places.values(), default=1) - 1
    return again * sum(isinstance(op, ElementwiseOp) for op in producer.ops) <= RECOMPUTED


def _reads_once(op: NnOp, value: SSAValue, producer: _Group) -> bool:
    """Return whether an op reads each element of a value once, or rereading it costs nothing."""
    if isinstance(value.owner, ConcatOp) and not _follows_elements(op, value):
        return False
    if isinstance(op, ReshapeOp):
        return common_digits(shape_of(value), shape_of(op.res)) is not None
    if isinstance(op, ConcatOp):
        return True
    if _is_computed_where_read(op):
        size = prod(shape_of(op.results[0]))
        return producer.only_moves or always(size <= prod(shape_of(value)))
    if op.has_trait(ReadsOnce):
        return True
    if _selects(op, value):
        return producer.only_moves
    if op.has_trait(ReadsRows):
        # A reduction is one statement, and can read rows with any stride. Other ops are several
        # statements that share loops over the rows.
        aligned = isinstance(op, ReduceOp) or not producer.transposes
        return aligned and value is op.operands[0] and value not in op.operands[1:]
    if isinstance(op, PoolOp):
        return all(isinstance(inner, DequantizeOp) for inner in producer.ops)
    if not isinstance(op, MatmulOp):
        return False
    return estimated(op.operations) <= 2 * estimated(prod(shape_of(value)))


def _selects(op: Operation, value: SSAValue) -> bool:
    """Return whether an op uses the elements of a value only as indices that select other
    elements."""
    moves = op.get_trait(MovesElements)
    indices = moves.indices if moves is not None else ()
    return bool(indices) and all(i in indices for i, v in enumerate(op.operands) if v is value)


def _follows_elements(op: NnOp, value: SSAValue) -> bool:
    """Return whether an op is the only reader of ``value``, the result of a concat, and reads each
    element once and in order.

    The op can then be computed for each part of the concat.
    """
    return value.has_one_use() and isinstance(op, (ElementwiseOp, ConcatOp, ReshapeOp))


def _same_order(value: SSAValue, op: NnOp) -> bool:
    """Return whether an elementwise op reads a value's elements in the order in which they are in
    memory."""
    if not isinstance(op, ElementwiseOp) or len(shape_of(value)) != len(shape_of(op.res)):
        return True
    start, end = place_of(value.type), place_of(op.res.type)
    return start is None or end is None or start.layout == end.layout


# ** the rewrite **


def _outline(group: list[NnOp]) -> None:
    """Move the ops into a group at the position of the last one."""
    group = _shared(group)
    last = group[-1]
    members = set(group)
    outside: list[SSAValue] = []
    for op in group:
        for value in op.operands:
            if value.owner not in members and value not in outside:
                outside.append(value)
    results = [
        result
        for op in group
        for result in op.results
        if any(use.operation not in members for use in result.uses) or op is last
    ]
    block = Block(arg_types=[v.type for v in outside])
    inner = dict(zip(outside, block.args, strict=True))
    for value, argument in inner.items():
        argument.name_hint = value.name_hint
    fused = FusedOp(outside, [r.type for r in results], Region(block))
    Rewriter.insert_op(fused, InsertPoint.before(last))
    for result, new in zip(results, fused.res, strict=True):
        new.name_hint = result.name_hint
        result.replace_uses_with_if(new, lambda use: use.operation not in members)
    for op in group:
        op.detach()
        block.add_op(op)
        for i, value in enumerate(op.operands):
            if value in inner:
                op.operands[i] = inner[value]
    block.add_op(YieldOp(results))


def _sort(block: Block) -> None:
    """Move each op after its operands' producers, and otherwise keep the order."""
    ops = list(block.ops)
    placed: set[Operation] = set()
    for first in ops:
        waiting = [first]
        while waiting:
            op = waiting[-1]
            missing = [
                owner
                for value in op.operands
                if isinstance(owner := value.owner, Operation)
                and owner.parent is block
                and owner not in placed
            ]
            if missing and op not in placed:
                waiting += missing
                continue
            waiting.pop()
            if op not in placed:
                placed.add(op)
                op.detach()
                block.add_op(op)
