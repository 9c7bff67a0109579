"""Compaction: the elements that a condition selects are moved to the front, by a cumulative sum and
an indexed write.

    chosen    0  1  1  0  1        ranks = cumsum(chosen), exclusive
    ranks     0  0  1  2  2        result[ranks[i]] = x[i], in order: the last one stays
    x         a  b  c  d  e
    result    b  c  e              and unspecified elements beyond the count
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import Value, concat
from tessella.support.conditions import always
from tessella.support.sizes import Size

_INDEX = np.dtype(np.int64)


def positions(of: Value, count: Size) -> Value:
    """Emit the positions 0, 1, .., ``count`` - 1 as int64. ``of`` is any value of the program."""
    return of.emitter.emit(nn.IotaOp, count=count)[0]


def put(ranks: Value, values: Value, count: Size, reduction: str = "none") -> Value:
    """Emit an array of ``count`` zeros into which ``values`` are written at the positions
    ``ranks``, in order."""
    start = values.emitter.splat(0, (count,), values.dtype)
    return start.scatter(ranks, values, reduction)


@dataclass(frozen=True, eq=False)
class Chosen:
    """The elements of an array that a condition selects, in row-major order."""

    mask: Value
    """A vector of at least one boolean: whether each element is selected."""
    ranks: Value
    """The number of selected elements before each element."""

    @classmethod
    def by(cls, mask: Value) -> Chosen:
        """Return the elements that a mask of booleans selects."""
        mask = mask.flat()
        number = np.int32 if always(mask.shape[0] < 1 << 31) else np.int64
        ranks = mask.cast(number).op(nn.CumsumOp, axis=0, exclusive=True, reverse=False)
        return cls(mask, ranks)

    @property
    def size(self) -> Size:
        """The number of elements of the mask, selected or not."""
        return self.mask.shape[0]

    @property
    def count(self) -> Value:
        """The number of selected elements."""
        last = [x.part(0, self.size - 1, 1) for x in (self.ranks, self.mask)]
        before, own = (x.reshape(()).cast(_INDEX) for x in last)
        return before + own

    def of(self, values: Value) -> Value:
        """Return the selected elements of ``values`` in order, at the front of an array as large as
        the mask."""
        return put(self.ranks, values, self.size)

    @property
    def places(self) -> Value:
        """The positions of the selected elements in order, at the front of an array as large as the
        mask."""
        return self.of(positions(self.mask, self.size).cast(self.ranks.dtype))


@dataclass(frozen=True, eq=False)
class Groups:
    """The distinct elements of a vector, and the number of the group of equal elements to which
    each element belongs."""

    first: Value
    """The position of the first element of each group, at the front of an array as large as the
    vector."""
    inverse: Value
    """For each element of the vector, the number of its group."""
    count: Value
    """The number of groups."""

    def counts(self, groups: Size) -> Value:
        """Emit the number of elements in each of the groups, whose number is a size."""
        ones = self.inverse.emitter.splat(1, (), _INDEX).expand(self.inverse.shape)
        return put(self.inverse, ones, groups, "add")


def by_value(x: Value) -> Groups:
    """Return the groups of equal elements of ``x`` in ascending order. All NaNs are one group."""
    size = x.shape[0]
    values, places = x.emitter.emit(nn.TopkOp, x, k=size, axis=0, largest=False)
    chosen = Chosen.by(_starts(values))
    ranks = chosen.ranks + chosen.mask.cast(chosen.ranks.dtype) - 1
    inverse = put(places, ranks.cast(_INDEX), size)
    return Groups(chosen.of(places), inverse, chosen.count)


def by_place(x: Value) -> Groups:
    """Return the groups of equal elements of ``x`` in order of first occurrence. All NaNs are one
    group."""
    size, sorted_ = x.shape[0], by_value(x)
    own = sorted_.first.gather(sorted_.inverse, 0)  # the first position of each element's group
    chosen = Chosen.by(own.equals(positions(x, size)))
    inverse = chosen.ranks.cast(_INDEX).gather(own, 0)
    return Groups(chosen.of(positions(x, size)), inverse, sorted_.count)


def coordinates(places: Value, shape: Sequence[Size]) -> Value:
    """Emit the coordinates of elements of an array of this shape, given their row-major positions:
    a row for each dimension, a column for each element."""
    if not shape:
        return places.emitter.splat(0, (0, *places.shape), _INDEX)
    rows: list[Value] = []
    for size in shape[:0:-1]:
        outer = places / size
        rows.append(places - outer * size)
        places = outer
    columns = [row.reshape((1, *row.shape)).cast(_INDEX) for row in (places, *reversed(rows))]
    return concat(columns, 0)


def _starts(values: Value) -> Value:
    """Emit whether each element of a sorted vector differs from its predecessor; the first one
    always does."""
    size = values.shape[0]
    own, before = values.part(0, 1, size - 1), values.part(0, 0, size - 1)
    differ = ~own.equals(before)
    if values.is_float:
        differ = differ & before.equals(before)  # NaNs, which are sorted last, count as equal
    return concat([values.emitter.splat(1, (1,), np.bool_), differ], 0)
