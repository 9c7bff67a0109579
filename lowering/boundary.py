"""Register tiles at the edges of a tensor, where some rows are outside of it for some values of a
reduced index.

A tile of 4 rows of a filter of 3 positions with padding 1 sums its first position over rows 1 to 3
at the left edge, its last over rows 0 to 2 at the right one, and all others over all rows. So three
loops over positions, of which some are empty, serve the tiles at both edges and those between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tessella.dialects.tile import Linear
from tessella.dialects.tile.flat import Constraint
from tessella.passes.tile.tiles import Tiles
from tessella.support.conditions import decided
from tessella.support.decisions import decided_max, decided_min, known
from tessella.support.sizes import Size

Rows = tuple[int, ...]


@dataclass(frozen=True)
class Cut:
    """Which of the tiles that a loop runs have rows that may be outside."""

    starts: tuple[int, ...] = ()
    """Where these tiles begin."""
    inside: bool = True
    """Whether there are others."""


UNCUT = Cut()
"""No tiles have such rows."""


def cut_tiles(tiles: Tiles, interior: tuple[Size, Size]) -> Cut:
    """Those of the tiles that do not lie inside an interior."""
    low, high = interior
    last = tiles.stop - tiles.size
    after = decided_max(0, (high - tiles.start) // tiles.size) * tiles.size + tiles.start
    near = (
        known(decided_min(start, last))
        for first, stop in ((tiles.start, decided_min(low, tiles.stop)), (after, tiles.stop))
        for start in range(known(first), known(stop), tiles.size)
    )
    starts = {start for start in near if decided(start < low) or decided(start + tiles.size > high)}
    return Cut(tuple(sorted(starts)), tiles.count != len(starts))


def row_sets(
    constraint: Constraint,
    rows_index: str,
    rows: Sequence[int],
    reduced: str,
    ranges: Mapping[str, Size],
    cut: Cut,
) -> Sequence[Rows]:
    """The sets of rows that are inside together for values of a reduced index, in the order in
    which every tile comes to them. None is empty."""
    found = {
        tuple(row for row in rows if _holds(constraint, {rows_index: start + row, reduced: value}))
        for start in cut.starts
        for value in range(known(ranges[reduced]))
    }
    if cut.inside:
        found.add(tuple(rows))
    return sorted(found - {()}, key=lambda each: (-each[0], -each[-1]))


def _holds(constraint: Constraint, values: Mapping[str, int]) -> bool:
    point = {name: Linear((), value) for name, value in values.items()}
    value = constraint.form.substitute(point).constant
    return decided(value >= 0) and decided(value < constraint.extent)
