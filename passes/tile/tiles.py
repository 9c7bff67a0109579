"""How the range of an index splits into tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tessella.dialects.tile import ContractOp
from tessella.dialects.tile.flat import Flat

OVERLAPPED = 16
"""Tiles of a reduction that may be computed once more in part: the work of one in 16 at most."""


@dataclass(frozen=True)
class Tiles:
    """Equal tiles run by a loop (``count`` of them from ``start``), or one tile unrolled at
    ``start``."""

    start: int
    size: int
    count: int = 1
    edge: bool = False
    """Whether constraints have to be checked point by point."""
    overlap: int = 0
    """By how much the last tile lies over the one before it."""

    @property
    def stop(self) -> int:
        return self.start + self.size * self.count - self.overlap


def overlaps(op: ContractOp, flat: Flat, name: str, extent: int, tile: int) -> bool:
    """Whether the last tile of an index lies over the one before it, so that no code is needed for
    what remains: its results are computed twice. Panels begin at whole tiles."""
    if any(name in a.lanes for a in flat.accesses):
        return False
    return extent > tile if op.is_map else extent > OVERLAPPED * tile


def split(range_: int, tile: int, clean: tuple[int, int], *, overlap: bool) -> Iterator[Tiles]:
    """The tiles of ``0 .. range_``; those wholly inside ``clean`` and full are looped over."""
    low, high = clean
    start = 0
    while start < range_:
        size = min(tile, range_ - start)
        inside = min(high, range_) - start if low <= start else 0
        if inside >= tile:
            over = -inside % tile if overlap else 0
            yield Tiles(start, tile, (inside + over) // tile, overlap=over)
            start += inside if overlap else inside // tile * tile
        else:
            yield Tiles(start, size, edge=start < low or start + size > high)
            start += size


def parts(extent: int, size: int, *, overlap: bool) -> list[tuple[int, int]]:
    """(extent of a tile, how many of them) for a range without constraints."""
    tiles = split(extent, size, (0, extent), overlap=overlap)
    return [(each.size, each.count) for each in tiles]
