"""Division of a long running index into blocks, by three statements. The first sums each block, the
second sums all blocks before each block, and the third computes the aggregates within each block,
beginning with the second one's sum.

A running index is one at each value of which a statement stores the aggregate so far, as in a
cumulative sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from xdsl.ir import Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.elements import element_of
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.core import Tensor, tensor, tensor_type
from tessella.dialects.place import PlaceAttr, place_of, placed, precision_of
from tessella.dialects.tile import (
    ContractOp,
    EmptyOp,
    Index,
    Linear,
    Running,
    scalar_region,
    yielded,
)
from tessella.dialects.tile.aggregations import aggregation_of
from tessella.dialects.tile.split import body_at
from tessella.passes.tile.rebuild import Operand, inputs_of, posts_of
from tessella.support.decisions import known
from tessella.support.sizes import Size, expression
from tessella.targets import Target

BLOCKS = 64
"""The number of blocks of a long running index: enough for many threads, and few to sum
serially."""
FEW = 16
"""The most rows of a statement whose running index is divided: if there are more, threads divide
the rows."""
WHOLE = 64
"""Block sizes are multiples of this: whole tiles of lanes, and whole cache lines."""


def is_long(op: ContractOp, target: Target) -> bool:
    """Return whether the running index of a statement should be divided into blocks, as there are
    too few rows to divide.

    The statement must also read more than the second-level cache holds.
    """
    index = op.running_index
    if index is None or any(expression(i.range) is not None for i in op.index_list):
        return False
    rows = prod(known(i.range) for i in op.index_list if not i.reduced)
    size = prod(known(i.range) for i in op.index_list) * _bytes(op)
    return rows <= FEW and size > target.l2 and known(index.range) >= BLOCKS * WHOLE


def _bytes(op: ContractOp) -> int:
    return max(element_of(value.type).size for value in op.tensors)


def in_blocks(op: ContractOp) -> None:
    """Replace a statement by statements over blocks of its running index."""
    _Blocks(op).replace()


@dataclass(frozen=True)
class _Blocks:
    op: ContractOp

    def replace(self) -> None:
        op = self.op
        sums = self._add(self._sums())
        before = self._add(self._before(sums.res))
        init = op.init
        if self.rest and init is None:
            empty = EmptyOp(tensor_type(op.res))
            Rewriter.insert_op(empty, InsertPoint.before(op))
            init = empty.res
        counted = [Index(self.block, self.count)]
        entry = Linear.of(self.block) + (1 if self.rest and self.running.reverse else 0)
        made = self._add(self._within(self.size, self.at, before.res, entry, init, counted))
        if self.rest:
            entry = 0 if self.running.reverse else self.count
            at, last = Linear.of(self.name) + self.size * entry, Linear((), entry)
            made = self._add(self._within(self.rest, at, before.res, last, made.res, []))
        made.res.name_hint = op.res.name_hint
        op.res.replace_all_uses_with(made.res)
        Rewriter.erase_op(op)

    def _add(self, new: ContractOp) -> ContractOp:
        new.attributes |= self.op.attributes
        Rewriter.insert_op(new, InsertPoint.before(self.op))
        return new

    # ** the sizes **

    @cached_property
    def index(self) -> Index[int]:
        index = self.op.running_index
        assert index is not None
        return index.with_sizes(known)

    @property
    def name(self) -> str:
        return self.index.name

    @cached_property
    def running(self) -> Running:
        running = self.index.running
        assert running is not None
        return running

    @cached_property
    def size(self) -> int:
        """The number of values of a block."""
        return self.index.range // BLOCKS // WHOLE * WHOLE

    @cached_property
    def count(self) -> int:
        """The number of blocks."""
        return self.index.range // self.size

    @cached_property
    def rest(self) -> int:
        """The number of values after the last block, in index order."""
        return self.index.range - self.size * self.count

    @property
    def at(self) -> Linear:
        """The value of the original running index, as an affine expression of the block's number
        and the index within the block. In reverse, the values after the last block come before all
        blocks in memory."""
        first = self.rest if self.running.reverse else 0
        return Linear.of(self.block, self.size) + Linear.of(self.name) + first

    @cached_property
    def block(self) -> str:
        """The name of the index that counts blocks."""
        known = {index.name for index in self.op.index_list}
        return next(n for i in range(len(known) + 1) if (n := f"block{i or ''}") not in known)

    @cached_property
    def free(self) -> list[Index]:
        return [index for index in self.op.index_list if not index.reduced]

    @cached_property
    def others(self) -> list[Index]:
        """The reduced indices other than the running one."""
        return [index for index in self.op.index_list if not index.written]

    # ** the statements **

    def _sums(self) -> ContractOp:
        """Return the statement that computes the aggregate of each block."""
        at = self.at
        summed = Index(self.name, self.size, reduced=True)
        access = (Linear.of(self.block), *(Linear.of(index.name) for index in self.free))
        return ContractOp(
            self.op.aggregation.data,
            [Index(self.block, self.count), *self.free, summed, *self.others],
            self._moved(inputs_of(self.op), at),
            access,
            self._type(self.count),
            body_at(self.op.combine, self._values(at)),
            where=self._where(at),
        )

    def _before(self, sums: SSAValue) -> ContractOp:
        """Return the statement that computes the aggregate of all values before each block, and
        before the remainder, which needs no aggregate of its own."""
        entries = self.count + (self.rest > 0)
        read = Linear.of(self.block)
        if self.rest and self.running.reverse:
            read += -1  # the remainder comes first in memory
        rows = [Linear.of(index.name) for index in self.free]
        along = Running(self.running.reverse, exclusive=True)
        return ContractOp(
            self.op.aggregation.data,
            [*self.free, Index(self.block, entries, reduced=True, running=along)],
            [(sums, (read, *rows))],
            (Linear.of(self.block), *rows),
            self._type(entries),
            scalar_region([tensor_type(sums).element_type], lambda _, args: args[0]),
        )

    def _within(
        self,
        size: int,
        at: Linear,
        before: SSAValue,
        entry: Linear,
        init: SSAValue | None,
        counted: Sequence[Index],
    ) -> ContractOp:
        """Return the statement that computes the aggregates at all values within blocks, or within
        the remainder."""
        values = self._values(at)
        access = (entry, *(Linear.of(index.name) for index in self.free))
        (_, out), *posts = self._moved([(self.op.res, self.op.out_access), *posts_of(self.op)], at)
        along = Index(self.name, size, reduced=True, running=self.running)
        return ContractOp(
            self.op.aggregation.data,
            [*self.free, *counted, along, *self.others],
            self._moved(inputs_of(self.op), at),
            out,
            tensor_type(self.op.res),
            body_at(self.op.combine, values),
            post_inputs=[*posts, (before, access)],
            post=self._post(values),
            where=self._where(at),
            init=init,
        )

    def _post(self, values: dict[str, Linear]) -> Region:
        """Return the post body, which first adds the aggregate of all preceding blocks."""
        element = yielded(self.op.combine.block).type
        add = aggregation_of(self.op.aggregation.data, element).accumulate
        if self.op.post_block is None:
            region = scalar_region([element], lambda _, args: args[0])
        else:
            region = body_at(self.op.post, values)
        block = region.block
        own, first = block.args[0], block.first_op
        assert first is not None
        total = add(block.insert_arg(element, len(block.args)), own)
        Rewriter.insert_op(total, InsertPoint.before(first))
        own.replace_uses_with_if(total.results[0], lambda use: use.operation is not total)
        return region

    def _values(self, at: Linear) -> dict[str, Linear]:
        return {i.name: Linear.of(i.name) for i in self.op.index_list} | {self.name: at}

    def _moved(self, operands: Sequence[Operand], at: Linear) -> list[Operand]:
        values = {self.name: at}
        return [(v, tuple(form.substitute(values) for form in forms)) for v, forms in operands]

    def _where(self, at: Linear) -> list[tuple[Linear, Size]]:
        return [(form.substitute({self.name: at}), size) for form, size in self.op.where_list]

    def _type(self, entries: int) -> Tensor:
        """Return the type of a tensor with ``entries`` aggregates for each row."""
        element = yielded(self.op.combine.block).type
        type = tensor(element, [entries, *(index.range for index in self.free)])
        place = place_of(self.op.res.type)
        if place is None:
            return type
        return placed(type, PlaceAttr.get(place.device.data, precision_of(element), NCHW))
