"""How the loops of a statement enforce its constraints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tessella.dialects.tile.attributes import Schedule
from tessella.dialects.tile.flat import Constraint, Flat
from tessella.support.conditions import decided
from tessella.support.decisions import decided_max, decided_min
from tessella.support.errors import InvalidModelError
from tessella.support.sizes import Size

UNROLLED = 256
"""Values of a reduced index that a boundary tile unrolls at most. It bounds the code of schedules
that are given: the search avoids long windows, and without the bound none of 500 kernels changes on
avx512 (`python -m bench.constants constraints`)."""


@dataclass(frozen=True)
class Constraints:
    """The constraints of a statement, grouped by how the loops enforce them."""

    rows: tuple[Constraint, ...]
    """On the blocked rows and one reduced index: it has a loop for each set of rows that are inside
    together."""
    bounds: tuple[Constraint, ...]
    """On one reduced index and at most one plain free index: they bound the reduced index's
    loop."""
    lanes: tuple[Constraint, ...]
    """On the vector index and at most one reduced index: boundary tiles mask lanes, others need no
    check."""
    masks: tuple[Constraint, ...]
    """The rest: checked at each point."""
    stores: tuple[Constraint, ...]
    """Those of the result, and of what the post body reads: what lies beyond is not stored."""
    bounded: frozenset[str]
    """The reduced indices whose loops are bounded, and are not unrolled."""

    @property
    def masked(self) -> tuple[Constraint, ...]:
        """The constraints that masks enforce, in boundary tiles or everywhere."""
        return (*self.lanes, *self.masks)

    def interior(self, flat: Flat, name: str) -> tuple[Size, Size]:
        """The values of an index of the register tile for which every constraint of its boundary
        tiles holds, for all values of the reduced index."""
        low: Size = 0
        high = flat.ranges[name]
        for c in (*self.rows, *self.lanes):
            if c.form.coefficient(name):
                first, end = c.interior(name, flat.ranges)
                low, high = decided_max(low, first), decided_min(high, end)
        return low, decided_max(low, high)


def _reduced_indices(constraints: Iterable[Constraint], flat: Flat) -> set[str]:
    return {n for c in constraints for n, _ in c.form.terms} & set(flat.reduced)


def classify(flat: Flat, schedule: Schedule) -> Constraints:
    """Group the constraints by how they are enforced.

    Raises InvalidModelError for a result that can leave its tensor along the lanes, or where an
    input does.
    """
    stores = tuple(c for c in flat.constraints if c.is_of_results(flat.inputs))
    for c in stores:
        if min(c.operands) < flat.inputs or c.form.coefficient(schedule.vector or ""):
            raise InvalidModelError(
                f"the access {c.form} leaves its tensor, which only those of inputs may here",
                expected=f"0 <= {c.form} < {c.extent}",
            )
    rows: list[Constraint] = []
    bounds: list[Constraint] = []
    lanes: list[Constraint] = []
    masks: list[Constraint] = []
    for c in (each for each in flat.constraints if each not in stores):
        names = {n for n, _ in c.form.terms}
        reduced = names & set(flat.reduced)
        plain = names - reduced - {schedule.rows}
        floating = names & flat.floating & {schedule.rows, schedule.vector}
        positive = all(k > 0 for _, k in c.form.terms)
        # an index whose loop is unrolled has no bounds, and the other way round
        unrolled, bounded = (_reduced_indices(group, flat) for group in (rows, bounds))
        vectors = schedule.vector in names and schedule.vector in flat.free
        if floating:
            masks.append(c)
        elif vectors and names - reduced == {schedule.vector} and len(reduced) < 2 and positive:
            lanes.append(c)
        elif schedule.vector in names or len(reduced) != 1 or not positive or flat.running in names:
            masks.append(c)
        elif (
            schedule.rows in names
            and not plain
            and not reduced & (unrolled | bounded)
            and all(decided(flat.ranges[name] <= UNROLLED) for name in reduced)
        ):
            rows.append(c)
        elif schedule.rows not in names and len(plain) <= 1 and not reduced & unrolled:
            bounds.append(c)
        else:
            masks.append(c)
    bounded = frozenset(_reduced_indices(bounds, flat))
    return Constraints(tuple(rows), tuple(bounds), tuple(lanes), tuple(masks), stores, bounded)
