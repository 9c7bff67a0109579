"""The method of a sort and its cost, from estimates of cycles."""

from __future__ import annotations

from collections.abc import Iterator
from math import log

from tessella.dialects.elements import element_of
from tessella.dialects.nn.core import shape_of, tensor_type
from tessella.dialects.tile import Sorting, SortOp
from tessella.dialects.tile.flat import FlatAccess, flatten_access, layout_of
from tessella.dialects.tile.sort import INSERTION, INTERLEAVED, RADIX
from tessella.support.conditions import always
from tessella.support.sizes import Size, ceil_div, estimated
from tessella.targets import Target

COMPARED = 5.0
"""Cycles to load a vector of keys, convert them to integers and compare them."""
TRIED = 60.0
"""Cycles to try a block's keys one by one and insert one, beside the cycles of the move."""
MOVED = 7.0
"""Cycles to move a vector of the best keys with their positions."""
EXCHANGED = 4.0
"""Cycles to exchange a vector of interleaved keys, with their positions, for better ones."""
SPREAD = 8.0
"""Cycles to load a key from another cache line than the previous one."""
DIGIT = 5.0
"""Cycles per digit of a key: to count it, and to move the key and its position."""
SLOT = 2.0
"""Cycles to add up the count of a digit's value."""
FOUND = 4.0
"""Cycles to write a selected value with its position."""
DIGITS = (8, 11)
"""Bits of a digit: wider ones need fewer passes, and more counts."""


def best_sorting(op: SortOp, target: Target) -> Sorting:
    """Return the fastest way to sort the rows of a statement."""
    return min(_sortings(op, target), key=lambda sorting: _row_cycles(op, sorting))


def sort_cycles(op: SortOp) -> float:
    """Return the modelled cycles of a sort under its schedule; 0 if it has none."""
    return 0.0 if op.schedule is None else estimated(op.rows) * _row_cycles(op, op.schedule.data)


def _sortings(op: SortOp, target: Target) -> Iterator[Sorting]:
    bits = element_of(tensor_type(op.values)).bits
    lanes = target.lanes(max(bits, 32))
    yield Sorting(method=INSERTION, lanes=lanes)
    if _lie_side_by_side(op, lanes):
        yield Sorting(method=INTERLEAVED, lanes=lanes)
    for digit in DIGITS:
        yield Sorting(method=RADIX, lanes=lanes, digit=min(digit, bits))


def _lie_side_by_side(op: SortOp, lanes: int) -> bool:
    """Return whether the keys at one position of neighbouring rows are contiguous in memory, and
    there are enough rows along the last free index to fill a vector."""
    if not op.free or lanes == 1 or not always(op.free[-1].range >= lanes):
        return False
    return all(access.stride(op.free[-1].name) in (0, 1) for access in _accesses(op))


def _row_cycles(op: SortOp, sorting: Sorting) -> float:
    """Return the cycles to sort one row by a method."""
    size, count = estimated(op.along.range), estimated(op.count)
    written = FOUND * count
    if sorting.method == INTERLEAVED:
        # A vector of keys is inserted if the key of at least one lane is.
        hits = min(size, sorting.lanes * count * (1 + log(max(1, size / max(1, count)))))
        return (size * COMPARED + hits * EXCHANGED * count) / sorting.lanes + written
    if sorting.method == INSERTION:
        # In a random row, each key is among the best ones before it with probability count /
        # position.
        inserted = count * log(max(1, size / max(1, count)))
        moves = MOVED * (1 + count / sorting.lanes)
        first = count * (MOVED + moves) / 2
        read = size / sorting.lanes * COMPARED + size * SPREAD * _is_strided(op)
        return read + first + inserted * (TRIED + moves) + written
    digits = ceil_div(element_of(tensor_type(op.values)).bits, sorting.digit)
    slots = digits * SLOT * (1 << sorting.digit)
    return size * (COMPARED + SPREAD * _is_strided(op) + DIGIT * digits) + slots + written


def _is_strided(op: SortOp) -> bool:
    """Return whether neighbouring keys of a row are not neighbours in memory."""
    return any(a.stride(op.along.name) not in (0, 1) for a in _accesses(op))


def _accesses(op: SortOp) -> Iterator[FlatAccess[Size]]:
    for value, forms in zip(op.inputs, op.input_accesses, strict=True):
        yield flatten_access(forms, shape_of(value), layout_of(value), op.ranges)
