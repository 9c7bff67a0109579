"""How the range of a blocked index splits into tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Tiles:
    """Equal tiles run by a loop (``count`` of them from ``start``), or one tile unrolled at
    ``start``."""

    start: int
    size: int
    count: int = 1
    edge: bool = False
    """Whether constraints have to be checked point by point."""

    @property
    def stop(self) -> int:
        return self.start + self.size * self.count


def split(range_: int, tile: int, clean: tuple[int, int]) -> Iterator[Tiles]:
    """The tiles of ``0 .. range_``; those wholly inside ``clean`` and full are looped over."""
    low, high = clean
    start = 0
    while start < range_:
        size = min(tile, range_ - start)
        count = (min(high, range_) - start) // tile if low <= start else 0
        if count > 0:
            yield Tiles(start, tile, count)
            start += count * tile
        else:
            yield Tiles(start, size, edge=start < low or start + size > high)
            start += size
