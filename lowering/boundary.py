"""Register tiles at the boundary of a tensor, where some rows are out of bounds for some values of
a reduced index.

Consider a tile of 4 rows under a filter of 3 taps with padding 1. At the left boundary, the first
tap sums over rows 1 to 3; at the right boundary, the last tap sums over rows 0 to 2; all other taps
sum over all rows. Three loops over taps, some of them empty, therefore serve boundary and interior
tiles.
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
    """Those tiles of a loop over rows in which some rows may be out of bounds."""

    starts: tuple[int, ...] = ()
    """The beginnings of the tiles that have rows out of bounds."""
    inside: bool = True
    """True if the loop also has tiles whose rows are all within bounds."""


UNCUT = Cut()
"""The cut of a loop in which all rows of all tiles are within bounds."""


def cut_tiles(tiles: Tiles, interior: tuple[Size, Size]) -> Cut:
    """Return the tiles of a loop that have rows outside ``interior``, the range of rows that are
    always in bounds."""
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
    """Return the sets of rows of a tile for which the loop over a reduced index needs code: each
    set is exactly the rows in bounds at some value of the index.

    The sets are nonempty, and in execution order, which is the same for every tile.
    """
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
