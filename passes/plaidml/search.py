"""The search for the tile with the best score, in the order of PlaidML's.

It begins with tiles of one point. The tile with the highest score is expanded first; of equal
scores, the one that is last in the order of its sizes. Expanding doubles each index in turn, up to
its range; a tile that is new is scored, and queued if it fits. The search ends when an expansion
finds nothing new and the queue holds only lower scores, or when the queue is empty. It chooses the
highest score; of equal ones, that of the tile that was scored last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush

from tessella.passes.plaidml.model import PlaidmlSettings, Tile, TileStats
from tessella.passes.plaidml.stride_table import StrideTable

MAX_TILES = 1 << 16
"""The number of scored tiles after which a search ends, which takes a few seconds."""


@dataclass(frozen=True)
class SearchResult:
    """The result of a search for the tile with the best score."""

    table: StrideTable
    settings: PlaidmlSettings
    scores: dict[Tile, float]
    """The score of each tile, in the order in which they were computed."""
    expanded: int
    complete: bool
    """True if the search ended by itself, not at the tile limit."""

    def stats(self, tile: Tile) -> TileStats:
        """Return the statistics of a tile."""
        return TileStats(self.table, tile, self.settings)

    @property
    def score(self) -> float:
        """The best score; negative if no tile fits."""
        return max(self.scores.values())

    @cached_property
    def ties(self) -> list[Tile]:
        """The tiles with the best score, in the order in which they were scored."""
        best = self.score
        return [tile for tile, score in self.scores.items() if score == best]

    @property
    def chosen(self) -> Tile:
        return self.ties[-1]


def search(
    table: StrideTable, settings: PlaidmlSettings, *, full: bool = False, max_tiles: int = MAX_TILES
) -> SearchResult:
    """Search the tiles of a statement for the best score. With ``full``, all tiles that doubling
    reaches are scored."""

    def score_of(tile: Tile) -> float:
        return TileStats(table, tile, settings).score

    start = (1,) * len(table.ranges)
    last = score_of(start)
    scores: dict[Tile, float] = {start: last}
    queue = [_entry(last, start)]
    expanded = 0
    while queue and len(scores) < max_tiles:
        score, tile = _read(heappop(queue))
        if score < last and not full:
            break
        expanded += 1
        last = score
        for larger in _doublings(tile, table.ranges):
            if larger not in scores:
                last = scores[larger] = score_of(larger)
                if last > 0:
                    heappush(queue, _entry(last, larger))
    return SearchResult(
        table, settings, scores, expanded, complete=len(scores) < max_tiles or not queue
    )


def _doublings(tile: Tile, ranges: Tile) -> Iterator[Tile]:
    for i, (size, extent) in enumerate(zip(tile, ranges, strict=True)):
        yield (*tile[:i], min(2 * size, extent), *tile[i + 1 :])


def _entry(score: float, tile: Tile) -> tuple[float, Tile]:
    """Return a heap entry: the highest score comes first, and among equals the greatest tile."""
    return -score, tuple(-size for size in tile)


def _read(entry: tuple[float, Tile]) -> tuple[float, Tile]:
    return -entry[0], tuple(-size for size in entry[1])
