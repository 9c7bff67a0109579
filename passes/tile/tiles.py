"""The split of an index's range into tiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from tessella.dialects.tile import ContractOp
from tessella.dialects.tile.flat import Flat
from tessella.support.sizes import Size, bounds_of, ceil_div, known, round_up

OVERLAPPED = 16
"""Tiles of a reduction that may be computed once more in part: the work of one in 16 at most.
Without such tiles 88 of 2068 choices change (of `bench.cases` and the models of the tests, on
avx512 and avx2), and take 1% more cycles of the model in the mean and 3% at most."""


@dataclass(frozen=True)
class Tiles:
    """Equal tiles from ``start`` to ``stop``, run by a loop, or one tile at ``start``."""

    start: Size
    size: int
    stop: Size
    boundary: bool = False
    """Whether constraints have to be checked point by point."""

    @property
    def count(self) -> Size:
        return ceil_div(self.stop - self.start, self.size)

    @property
    def overlap(self) -> bool:
        """Whether the last tile overlaps the one before it, or may do so."""
        whole = (self.stop - self.start) % self.size == 0
        return not whole


def _sizes(tile: int, unit: int, least: int, few: int) -> Iterator[int]:
    """The sizes of tiles of a range that depends on symbols, and is no smaller than ``least``: each
    about half of the one before, in whole units where it is no less than one, until few values are
    left over at most, and the last fits into the range."""
    yield tile
    while tile > few or tile > least:
        half = ceil_div(tile, 2)
        tile = round_up(half, unit) if tile > unit else half
        yield tile


def shrinking(range_: Size, tile: int, *, unit: int, few: int) -> Iterator[Tiles]:
    """The tiles of a range that depends on symbols: those of each size run in a loop as often as
    they fit, and the last one of the least lies over the one before it."""
    start: Size = 0
    if range_ % tile == 0:
        yield Tiles(0, tile, range_)
        return
    sizes = list(_sizes(tile, unit, bounds_of(range_)[0], few))
    for size in sizes[:-1]:
        stop = start + (range_ - start) // size * size
        yield Tiles(start, size, stop)
        start = stop
    yield Tiles(start, sizes[-1], range_)


def overlaps(op: ContractOp, flat: Flat, name: str, extent: Size, tile: int) -> bool:
    """Whether the last tile of an index overlaps the one before it. The overlap is computed twice,
    and no code for a remainder is needed. Panels begin at whole tiles."""
    if any(name in a.lanes for a in flat.accesses):
        return False
    return extent >= tile if op.is_map else extent > OVERLAPPED * tile


def split(
    range_: Size, tile: int, interior: tuple[Size, Size], *, overlap: bool
) -> Iterator[Tiles]:
    """The tiles of ``0 .. range_``. Full tiles inside ``interior`` run in a loop."""
    low, high = interior
    start: Size = 0
    while start < range_:
        inside = min(high, range_) - start if low <= start else 0
        if inside >= tile:
            stop = start + (inside if overlap else inside // tile * tile)
            yield Tiles(start, tile, stop)
            start = stop
        else:
            size = known(min(tile, range_ - start))
            boundary = start < low or start + size > high
            yield Tiles(start, size, start + size, boundary)
            start += size


def boundary_as_loops(tiles: Iterable[Tiles]) -> Iterator[Tiles]:
    """Adjacent equal boundary tiles merged into one loop."""
    for (boundary, _), group in groupby(tiles, lambda each: (each.boundary, each.size)):
        if not boundary:
            yield from group
            continue
        same = list(group)
        yield replace(same[0], stop=same[-1].stop)


def parts(extent: int, size: int, *, overlap: bool) -> list[tuple[int, int]]:
    """(extent, count) of the tiles of a range without constraints, for the model."""
    tiles = split(extent, size, (0, extent), overlap=overlap)
    return [(each.size, each.count) for each in tiles]
