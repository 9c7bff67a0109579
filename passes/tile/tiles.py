"""The split of an index's range into tiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from math import gcd

from tessella.dialects.tile import ContractOp
from tessella.dialects.tile.flat import Flat
from tessella.support.conditions import decided
from tessella.support.decisions import decided_min, known
from tessella.support.sizes import Size, bounds_of, ceil_div, expression, round_up, terms_of

OVERLAPPED = 16
"""The number of tiles that a reduction must have for the last one to overlap its predecessor, and
thus be partly recomputed (`python -m bench.constants tiles`)."""


@dataclass(frozen=True)
class Tiles:
    """Tiles of equal size from ``start`` to ``stop``, which a loop runs; or a single tile at
    ``start``."""

    start: Size
    size: int
    stop: Size
    boundary: bool = False
    """True if constraints must be checked point by point."""
    tail: Size = 0
    """Valid lanes of the last vector, if their number is symbolic; otherwise 0."""

    @property
    def count(self) -> Size:
        return ceil_div(self.stop - self.start, self.size)

    @property
    def overlap(self) -> bool:
        """True if the last tile overlaps its predecessor, or may do so."""
        whole = (self.stop - self.start) % self.size == 0
        return not whole and self.tail == 0


# ** ranges that depend on symbols **


def ends_of(range_: Size, tile: int) -> tuple[int, ...]:
    """Return the numbers of rows of the tail tiles for a symbolic range: multiples of a quarter of
    a tile.

    A tail tile overlaps its predecessor. If the range may be shorter than a tile, nothing can be
    overlapped, so every number of rows that may remain has a tail tile of its own.
    """
    if range_ % tile == 0:
        return ()
    least, each = bounds_of(range_)[0], gcd(tile, *terms_of(range_).values())
    if least < tile:
        return tuple(n for n in range(tile - 1, max(1, least) - 1, -1) if n % each == 0)
    quarter = round_up(ceil_div(tile, 4), each)
    return tuple(range(quarter, tile, quarter))[::-1]


def has_ends(range_: Size, tile: int, ends: Sequence[int]) -> bool:
    """Return whether tiles and tail tiles cover a range without exceeding it."""
    if expression(range_) is None or range_ % tile == 0:
        return not ends
    needed = ends_of(range_, tile) if bounds_of(range_)[0] < tile else ()
    heights = tile, *ends, 0
    return needed in ((), tuple(ends)) and all(a > b for a, b in pairwise(heights))


def with_ends(range_: Size, tile: int, ends: Sequence[int]) -> Iterator[Tiles]:
    """Yield the tiles of a symbolic number of rows: whole tiles, then the smallest sufficient tail
    tile.

    The tail tile overlaps its predecessor.
    """
    if range_ % tile == 0:
        yield Tiles(0, tile, range_)
        return

    whole, first = range_ // tile * tile, next(iter(ends), 0)

    def are_left(more: int) -> Size:
        """Return 1 if more than ``more`` rows remain after the whole tiles, otherwise 0."""
        return ((range_ + (tile - 1 - more)) // tile * tile - whole) // tile

    yield Tiles(0, tile, whole + (range_ - whole) * are_left(first))
    for rows, fewer in pairwise((*ends, 0)):
        count = are_left(fewer) - are_left(rows)
        yield Tiles(range_ - rows, rows, range_ - rows + rows * count)


def in_lanes(range_: Size, tile: int, *, lanes: int, few: int) -> Iterator[Tiles]:
    """Yield the tiles of a symbolic number of lanes.

    Tiles of each size run in a loop as often as they fit, each about half of the previous size, in
    whole vectors. The last tile overlaps its predecessor, or is a partial vector if there may be
    fewer lanes than in one.
    """
    if range_ % tile == 0:
        yield Tiles(0, tile, range_)
        return
    least, most = bounds_of(range_)
    start: Size = 0
    while tile > lanes and tile > min(few, least):
        stop = start + (range_ - start) // tile * tile
        yield Tiles(start, tile, stop)
        start, tile = stop, round_up(ceil_div(tile, 2), lanes)
    if tile <= least:
        yield Tiles(start, tile, range_)
        return
    whole = range_ // lanes * lanes if most >= lanes else 0
    if whole != 0:
        yield Tiles(start, lanes, whole)
    yield Tiles(whole, lanes, range_, tail=range_ - whole)


# ** ranges that are numbers **


def overlaps(op: ContractOp, flat: Flat, name: str, extent: Size, tile: int) -> bool:
    """Return whether the last tile of an index overlaps its predecessor.

    The results in the overlap are computed twice, which needs no code for a shorter tile. Tiles do
    not overlap if an operand has panels of whole tiles, or in an indexed write, which must count
    each point once.
    """
    if op.is_scatter or any(name in a.lanes for a in flat.accesses):
        return False
    return decided(extent >= tile if op.is_map else extent > OVERLAPPED * tile)


def split(
    range_: Size, tile: int, interior: tuple[Size, Size], *, overlap: bool
) -> Iterator[Tiles]:
    """Yield the tiles of the range from 0 to ``range_``. Full tiles inside ``interior`` form a
    loop; the others are yielded one by one, and marked if they need checks."""
    low, high = interior
    start: Size = 0
    while decided(start < range_):
        inside = decided_min(high, range_) - start if decided(low <= start) else 0
        if decided(inside >= tile):
            stop = start + (inside if overlap else inside // tile * tile)
            yield Tiles(start, tile, stop)
            start = stop
        else:
            size = known(decided_min(tile, range_ - start))
            boundary = decided(start < low) or decided(start + size > high)
            yield Tiles(start, size, start + size, boundary)
            start += size


def boundary_as_loops(tiles: Iterable[Tiles]) -> Iterator[Tiles]:
    """Yield tiles, with adjacent equal boundary tiles merged into one loop."""
    for (boundary, _), group in groupby(tiles, lambda each: (each.boundary, each.size)):
        if not boundary:
            yield from group
            continue
        same = list(group)
        yield replace(same[0], stop=same[-1].stop)


def lane_tiles(extent: Size, width: int, lanes: int) -> Iterator[tuple[Tiles, Size]]:
    """Yield the tiles of an index whose values are the lanes of vectors, each with the number of
    valid lanes in its last vector; 0 if all are valid."""
    if expression(extent) is None:
        for tiles in split(extent, width, (0, extent), overlap=False):
            yield tiles, tiles.size % lanes
        return
    full, whole = extent // width * width, extent // lanes * lanes
    yield Tiles(0, width, full), 0
    if whole != full:
        yield Tiles(full, lanes, whole), 0
    if whole != extent:
        yield Tiles(whole, lanes, extent), extent - whole


def in_parts(extent: Size, size: int) -> Iterator[tuple[Tiles, Size]]:
    """Yield the ranges of the partial sums of a reduced index, each with its number of values. The
    last partial sum of a symbolic range may be empty."""
    if expression(extent) is None:
        for tiles in split(extent, size, (0, extent), overlap=False):
            yield tiles, tiles.size
        return
    whole = extent // size * size
    yield Tiles(0, size, whole), size
    if whole != extent:
        yield Tiles(whole, size, extent), extent - whole


def parts(extent: int, size: int, *, overlap: bool) -> list[tuple[int, int]]:
    """Return (extent, count) of the tiles that `split` yields for a range without constraints."""
    if extent < size:
        return [(extent, 1)] if extent else []
    full, rest = divmod(extent, size)
    if overlap:
        return [(size, full + (rest > 0))]
    return [(size, full), (rest, 1)] if rest else [(size, full)]
