"""Windows: the ranges of tensors that an iteration of shared loops computes, because statements of
the same iteration read them.

    %t = tile.contract = [y: 56, x: 56] (%x[y, x]) -> [y, x] at [y: step - 1 by 10] ...
    %d = tile.contract + [y: 56, x: 56 | i: 3] (%t[y + i - 1, x]) -> [y, x] at [y] ...

Under `nest = #tile.nest<[56 by 8]>`, 8 rows of the second statement need 10 rows of the first
statement. At the ends of the range, a window is moved into the range: the first iteration runs rows
0 to 9, the last one rows 46 to 55.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tessella.dialects.nn.core import shape_of
from tessella.dialects.place import place_of
from tessella.dialects.sizes import is_static
from tessella.dialects.tile.access import Access, Linear
from tessella.dialects.tile.loop_attributes import At, AtAttr, Window
from tessella.dialects.tile.nest import Steps, blocks_of, lives_within, shared_loops
from tessella.dialects.tile.ops import ContractOp
from tessella.support.conditions import decided
from tessella.support.decisions import decided_max, decided_min, known_all
from tessella.support.sizes import Expr, Size


@dataclass(frozen=True)
class ReadRange:
    """The elements of a dimension of a tensor that an iteration of a shared loop reads.

    They range from ``factor * first + low`` to ``factor * last + high``, if ``first`` and ``last``
    are the first and the last value of the reader's index in the iteration.
    """

    dim: int
    factor: int
    low: Size
    high: Size
    block: int
    """The number of elements of the dimension that the writer writes for each value of its
    index."""


def needed(writer: ContractOp, reader: ContractOp, access: Access, number: int) -> ReadRange | None:
    """Return the elements of the writer's result that an iteration of the shared loop ``number``
    needs when ``reader`` accesses it by ``access``. None if they are not a range of one
    dimension that moves forward with the loop, or if the layout splits that dimension."""
    moved, _ = _nth(writer, number)
    name, _ = _nth(reader, number)
    dim = next(d for d, form in enumerate(writer.out_access) if form.coefficient(moved))
    factor = access[dim].coefficient(name)
    elsewhere = any(form.coefficient(name) for d, form in enumerate(access) if d != dim)
    if factor <= 0 or elsewhere or _is_split(writer, dim):
        return None
    low, high = access[dim].substitute({name: Linear()}).bounds(reader.ranges)
    return ReadRange(dim, factor, low, high, writer.out_access[dim].coefficient(moved))


def reads_own(writer: ContractOp, reader: ContractOp, access: Access, number: int) -> bool:
    """Return whether each iteration of the shared loop ``number`` reads only elements of the
    writer's result that the same iteration writes."""
    if _reads_same(writer, reader, access, number):
        return True
    need = needed(writer, reader, access, number)
    if lives_within(writer.res) <= number or need is None:
        return False
    (_, theirs), (_, own) = _nth(writer, number), _nth(reader, number)
    return _covers(theirs, own, need, shape_of(writer.res)[need.dim])


@lru_cache(maxsize=1024)
def _covers(theirs: Steps, own: Steps, need: ReadRange, extent: int) -> bool:
    """Return whether each iteration of a shared loop writes all elements of a dimension that it
    reads. ``theirs`` is the loop over the writer's index, ``own`` that over the reader's."""
    trips = own.trips
    if isinstance(trips, Expr):
        return False
    for number in range(trips):
        first, start = own.first(number), theirs.first(number) * need.block
        low = decided_max(0, need.factor * first + need.low)
        stop = decided_min(extent, need.factor * (first + own.step - 1) + need.high + 1)
        end = start + theirs.step * need.block
        if decided(low < stop) and not (decided(start <= low) and decided(stop <= end)):
            return False
    return True


def infer_windows(statements: Sequence[ContractOp]) -> None:
    """Set the windows of statements in shared loops, so that each iteration computes all elements
    that later statements read in it."""
    for op in reversed(statements):
        ats = op.at_list
        if ats:
            windows = (_window(op, number) for number in range(len(ats)))
            op.at = AtAttr(tuple(At(at.name, w) for at, w in zip(ats, windows, strict=True)))


def _window(op: ContractOp, number: int) -> Window | None:
    """Return the window that a statement must have in a shared loop for its readers.

    None if the result does not live within an iteration of the loop, if each iteration reads the
    elements that it writes without a window, or if no window is sufficient.
    """
    readers = list(_readers(op))
    if lives_within(op.res) <= number or not readers:
        return None
    name, own = _nth(op, number)
    if own.loop.counts(own.extent) and all(_reads_same(op, *each, number) for each in readers):
        return None
    found = [_asked(op, *each, number) for each in readers]
    plain = [known_all(each) for each in found if each is not None and is_static(each)]
    scales = {scale for scale, _, _ in plain}
    block = next(form.coefficient(name) for form in op.out_access if form.coefficient(name))
    extent = own.extent
    if isinstance(extent, Expr) or len(plain) < len(found) or len(scales) > 1:
        return None
    scale = scales.pop()
    if scale % block:
        return None
    first = min(first for _, first, _ in plain) // block
    stop = -(-max(stop for _, _, stop in plain) // block)
    return Window(scale // block, first, min(stop - first, extent))


def _readers(op: ContractOp) -> Iterator[tuple[ContractOp, Access]]:
    for use in op.res.uses:
        if isinstance(use.operation, ContractOp):
            yield use.operation, use.operation.access_list[use.index]


def _asked(
    writer: ContractOp, reader: ContractOp, access: Access, number: int
) -> tuple[Size, Size, Size] | None:
    """Return the range of elements that ``reader`` reads per iteration, as three numbers: the
    distance by which it moves per value of the loop, and its first element and its end in the
    first iteration. None if there is no moving range."""
    need = needed(writer, reader, access, number)
    _, own = _nth(reader, number)
    if need is None or need.factor % own.block:
        return None
    scale = need.factor // own.block * (1 if own.window is None else own.window.scale)
    last = need.factor * (own.offset + own.step - 1) + need.high
    return scale, need.factor * own.offset + need.low, last + 1


def _nth(op: ContractOp, number: int) -> tuple[str, Steps]:
    return list(shared_loops(op).items())[number]


def _reads_same(writer: ContractOp, reader: ContractOp, access: Access, number: int) -> bool:
    """Return whether each iteration reads as many elements of each dimension as it writes, and
    iterations share no elements."""
    written = _parts(writer, writer.out_access, number)
    return None not in written and written == _parts(reader, access, number)


def _parts(op: ContractOp, access: Access, number: int) -> list[Size | None]:
    """Return the number of elements of each dimension that an iteration accesses, 0 for a dimension
    through which the loop does not move.

    The number is None for a dimension in which iterations may access the same elements.
    """
    name, loop = _nth(op, number)
    ranges = op.ranges
    parts: list[Size | None] = []
    for form in access:
        length = blocks_of(form, name, ranges) if form.coefficient(name) else 0
        once = length is not None and (length == 0 or loop.window is None)
        parts.append(length * loop.step if once and length is not None else None)
    return parts


def _is_split(op: ContractOp, dim: int) -> bool:
    """Return whether the layout of a statement's result splits the dimension ``dim``."""
    place, rank = place_of(op.res.type), len(shape_of(op.res))
    pieces = place.layout.order(rank) if place is not None else ()
    return sum(piece.dim == dim for piece in pieces) > 1
