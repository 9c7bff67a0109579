"""Kernels of products of groups of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.arith import (
    AddiOp,
    CmpiOp,
    IndexCastOp,
    MaxSIOp,
    MinSIOp,
    MinUIOp,
    MuliOp,
    SelectOp,
    ShRUIOp,
    SubiOp,
)
from xdsl.dialects.builtin import IndexType, i32, i64
from xdsl.ir import SSAValue

from tessella.dialects.layout import NCHW
from tessella.dialects.nn import grouped
from tessella.dialects.nn.core import Tensor, shape_of, tensor
from tessella.dialects.tile import Linear
from tessella.kernels.builder import Body, Form, KernelBuilder, Scalars, retyped
from tessella.kernels.elements import INDICES, NATIVE, T, rows
from tessella.kernels.linear import multiply
from tessella.kernels.registry import native
from tessella.support.sizes import Size, estimated

LEAST, MOST = 8, 64
"""The least and the greatest number of rows in a block: a register tile has up to 8 rows or more,
and a matrix that 64 rows share is read fast enough."""

ELEMENTS = tuple(row for index in INDICES for row in rows(NATIVE, (T, T, index)))
"""The factors have one element type, and the ends are indices."""

Args = Sequence[SSAValue]
Read = tuple[SSAValue, Sequence[Form]]
"""A tensor, and the access to it."""


def _number(s: Scalars, name: str) -> SSAValue:
    """Return the value of an index in 32 bits."""
    return s.op(IndexCastOp(s.index(name), i32))


def _narrow(s: Scalars, numbers: Args) -> Args:
    """Return numbers of rows and groups in 32 bits: a kernel that computes in 64 bits reads them as
    such."""
    return [s.cast(x, i32) for x in numbers]


def _is_less(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
    return s.op(CmpiOp(a, b, "slt"))


def _bounds(k: KernelBuilder, ends: SSAValue, count: Size) -> SSAValue:
    """Emit the first row of each group, and the row after the last group: i32 [E + 1].

    Number i is the greatest of the ends of the groups before i, limited to 0 to ``count``.
    """
    [groups] = shape_of(ends)

    def body(s: Scalars, a: Args) -> SSAValue:
        end = s.cast(a[0], i64)
        least, most = s.like(0, end), s.op(IndexCastOp(s.size(count), i64))
        limited = s.cast(s.op(MinSIOp(s.op(MaxSIOp(end, least)), most)), i32)
        before = s.below("e", _number(s, "i"))
        return s.op(SelectOp(before, limited, s.like(0, limited)))

    type = tensor(i32, [groups + 1])
    free: dict[str, Size] = {"i": groups + 1}
    return k.contract(">", free, {"e": groups}, [(ends, ["e"])], (type, ["i"]), body)


@dataclass(frozen=True)
class _RowBlocks:
    """Blocks of rows of one group each. The last block of a group may be partial, and those after
    the last group are empty."""

    k: KernelBuilder
    bounds: SSAValue
    """The first row of each group, and the row after the last group."""
    groups: Size
    size: int
    """The number of rows in a block, a power of two."""

    def most(self, rows: Size) -> Size:
        """Return the greatest number of blocks that ``rows`` rows have."""
        return (rows + self.groups * (self.size - 1)) // self.size

    def starts(self) -> SSAValue:
        """Emit the number of the first block of each group, and of the block after the last group:
        i32 [E + 1]."""

        def body(s: Scalars, a: Args) -> SSAValue:
            first, end = a
            rows = s.op(AddiOp(s.op(SubiOp(end, first)), s.like(self.size - 1, end)))
            blocks = s.op(ShRUIOp(rows, s.like(self.size.bit_length() - 1, rows)))
            before = s.below("e", _number(s, "i"))
            return s.op(SelectOp(before, blocks, s.like(0, blocks)))

        inputs: list[Read] = [(self.bounds, ["e"]), (self.bounds, [Linear.of("e") + 1])]
        return self._numbers("+", self.groups + 1, inputs, body)

    def groups_of(self, count: Size, starts: SSAValue) -> SSAValue:
        """Emit the index of the group of each of ``count`` rows or blocks, computed as the number
        of groups that end before it. After the last group, it is the number of groups. ``starts``
        has the first row or block of each group."""

        def body(s: Scalars, a: Args) -> SSAValue:
            ends_later = _is_less(s, _number(s, "i"), a[0])
            return s.op(SelectOp(ends_later, s.like(0, a[0]), s.like(1, a[0])))

        return self._numbers("+", count, [(starts, [Linear.of("e") + 1])], body)

    def rows_of(self, groups: SSAValue, starts: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Emit the first row of each block, and its number of rows, which is not positive for an
        empty block."""

        def first(s: Scalars, a: Args) -> SSAValue:
            group = self.known_group(s, a[0])
            inside = s.op(SubiOp(_number(s, "i"), s.extract(starts, [group])))
            before = s.op(MuliOp(inside, s.like(self.size, inside)))
            return s.op(AddiOp(s.extract(self.bounds, [group]), before))

        def number(s: Scalars, a: Args) -> SSAValue:
            one = s.constant(1, IndexType())
            after = s.op(AddiOp(self.known_group(s, a[0]), one))
            return s.op(SubiOp(s.extract(self.bounds, [after]), first(s, a)))

        [count] = shape_of(groups)
        read: list[Read] = [(groups, ["i"])]
        return self._numbers("=", count, read, first), self._numbers("=", count, read, number)

    def places_of(self, groups: SSAValue, starts: SSAValue) -> SSAValue:
        """Emit the position of each row among the rows of all blocks, which are padded to whole
        blocks; -1 for a row after the last group."""

        def body(s: Scalars, a: Args) -> SSAValue:
            group = self.known_group(s, a[0])
            block = s.extract(starts, [group])
            inside = s.op(SubiOp(_number(s, "i"), s.extract(self.bounds, [group])))
            place = s.op(AddiOp(s.op(MuliOp(block, s.like(self.size, block))), inside))
            has_group = _is_less(s, a[0], s.op(IndexCastOp(s.size(self.groups), i32)))
            return s.op(SelectOp(has_group, place, s.like(-1, place)))

        [count] = shape_of(groups)
        return self._numbers("=", count, [(groups, ["i"])], body)

    def known_group(self, s: Scalars, number: SSAValue) -> SSAValue:
        """Return the index of a group to read from tensors: ``number``, or the last group if
        ``number`` is greater, as it is for rows after the last group."""
        return _limited(s, number, self.groups)

    def _numbers(
        self, aggregation: str, count: Size, inputs: Sequence[Read], body: Body
    ) -> SSAValue:
        """Emit ``count`` integers of 32 bits, which are numbered by ``i``. Aggregates are over the
        groups ``e``."""
        free: dict[str, Size] = {"i": count}
        reduced: dict[str, Size] = {} if aggregation == "=" else {"e": self.groups}
        out: tuple[Tensor, list[Form]] = (tensor(i32, [count]), ["i"])
        return self.k.contract(
            aggregation, free, reduced, inputs, out, lambda s, a: body(s, _narrow(s, a))
        )


def _limited(s: Scalars, number: SSAValue, count: Size) -> SSAValue:
    """Return ``number`` as an index of a dimension with ``count`` elements, or the last index if
    ``number`` is greater."""
    last = s.op(SubiOp(s.op(IndexCastOp(s.size(count), i32)), s.constant(1, i32)))
    if isinstance(count, int):
        last = s.constant(count - 1, i32)
    return s.op(IndexCastOp(s.op(MinUIOp(number, last)), IndexType()))


def _block_rows(rows: Size, groups: Size) -> int:
    """Return the number of rows in a block: the greatest power of two that does not exceed the rows
    of a group of usual size, within the limits."""
    usual = estimated(rows) // max(1, estimated(groups))
    return min(MOST, max(LEAST, 1 << max(0, usual.bit_length() - 1)))


@native(grouped.GroupedMatmulOp, "grouped_matmul", NCHW, elements=ELEMENTS)
def grouped_matmul(
    k: KernelBuilder, op: grouped.GroupedMatmulOp, x: SSAValue, w: SSAValue, ends: SSAValue
) -> SSAValue:
    """Emit the products of blocks of rows with the matrices of their groups, P[i, r, n] =
    +(X[first[i] + r, k] * W[group[i], k, n]), and then each row of the result from the row of its
    block. The sum of an empty block ends at once."""
    type = k.result_type(op)
    (count, inner), (groups, _, columns) = shape_of(x), shape_of(w)
    blocks = _RowBlocks(k, _bounds(k, ends, count), groups, _block_rows(count, groups))
    starts, most = blocks.starts(), blocks.most(count)
    own = blocks.groups_of(most, starts)
    first, number = blocks.rows_of(own, starts)

    def multiplied(s: Scalars, a: Args) -> SSAValue:
        group, row, rows = _narrow(s, a)
        place = _limited(s, s.op(AddiOp(row, _number(s, "r"))), count)
        column, inside = s.index("n"), s.index("k")
        left = s.extract(x, [place, inside])
        right = s.extract(w, [blocks.known_group(s, group), inside, column])
        found = multiply(s, [s.cast(each, k.computed(each.type)) for each in (left, right)])
        zero = s.like(0, rows)
        depth = s.op(IndexCastOp(s.size(inner), i32))
        end = s.op(SelectOp(_is_less(s, zero, rows), depth, zero))
        return s.op(SelectOp(s.below("k", end), found, s.like(0, found)))

    free: dict[str, Size] = {"i": most, "r": blocks.size, "n": columns}
    inputs: list[Read] = [(each, ["i"]) for each in (own, first, number)]
    wide = tensor(k.computed(type.element_type), [most * blocks.size, columns])
    out: list[Form] = [Linear.of("i", blocks.size) + Linear.of("r"), "n"]
    products = k.contract("+", free, {"k": inner}, inputs, (wide, out), multiplied)
    places = blocks.places_of(blocks.groups_of(count, blocks.bounds), starts)

    def moved(s: Scalars, a: Args) -> SSAValue:
        [place] = _narrow(s, a)
        has_group = _is_less(s, s.like(-1, place), place)
        place = s.op(SelectOp(has_group, place, s.like(0, place)))
        row = _limited(s, place, most * blocks.size)
        value = s.extract(products, [row, s.index("n")])
        return s.cast(s.op(SelectOp(has_group, value, s.like(0, value))), type.element_type)

    rows: dict[str, Size] = {"i": count, "n": columns}
    return k.contract("=", rows, {}, [(places, ["i"])], (type, ["i", "n"]), moved)


@native(grouped.GroupedOuterOp, "grouped_outer", NCHW, elements=ELEMENTS)
def grouped_outer(
    k: KernelBuilder, op: grouped.GroupedOuterOp, a: SSAValue, b: SSAValue, ends: SSAValue
) -> SSAValue:
    """Emit R[e, m, n] = +(A[first[e] + s, m] * B[first[e] + s, n]), where the sum over s ends at
    the number of rows of group e."""
    type = k.result_type(op)
    (count, left), (_, right), [groups] = shape_of(a), shape_of(b), shape_of(ends)
    bounds = _bounds(k, ends, count)

    def multiplied(s: Scalars, args: Args) -> SSAValue:
        first, end = _narrow(s, args)
        row = _limited(s, s.op(AddiOp(first, _number(s, "s"))), count)
        factors = [s.extract(a, [row, s.index("m")]), s.extract(b, [row, s.index("n")])]
        found = multiply(s, [s.cast(each, k.computed(each.type)) for each in factors])
        inside = s.below("s", s.op(SubiOp(end, first)))
        return s.op(SelectOp(inside, found, s.like(0, found)))

    free: dict[str, Size] = {"e": groups, "m": left, "n": right}
    inputs: list[Read] = [(bounds, ["e"]), (bounds, [Linear.of("e") + 1])]
    total = k.contract("+", free, {"s": count}, inputs, _out(k, type, free), multiplied)
    return k.stored(total, type)


def _out(k: KernelBuilder, type: Tensor, free: Mapping[str, Size]) -> tuple[Tensor, list[Form]]:
    return retyped(type, k.computed(type.element_type)), [*free]
