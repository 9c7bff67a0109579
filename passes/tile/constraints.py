"""How the loops of a statement enforce its constraints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tessella.dialects.tile.flat import Constraint, Flat
from tessella.dialects.tile.schedule_attributes import Schedule
from tessella.support.conditions import decided
from tessella.support.decisions import decided_max, decided_min
from tessella.support.errors import InvalidModelError
from tessella.support.sizes import Size

UNROLLED = 256
"""The most values of a reduced index that a boundary tile unrolls.

It bounds the code of explicit schedules; the search avoids long windows (`python -m bench.constants
constraints`).
"""


@dataclass(frozen=True)
class Constraints:
    """The constraints of a statement, grouped by how its loops keep accesses within bounds."""

    rows: tuple[Constraint, ...]
    """Constraints on the blocked rows and one reduced index.

    The reduced index has a loop for each set of rows that are in bounds together.
    """
    bounds: tuple[Constraint, ...]
    """Constraints on one reduced index and at most one plain free index.

    They bound the reduced index's loop.
    """
    lanes: tuple[Constraint, ...]
    """Constraints on the vector index and at most one reduced index.

    Boundary tiles mask lanes; other tiles need no check.
    """
    masks: tuple[Constraint, ...]
    """All other constraints, checked at each point."""
    stores: tuple[Constraint, ...]
    """Constraints of the result and of the post body's operands: out-of-bounds points are not
    stored."""
    bounded: frozenset[str]
    """Reduced indices whose loops are bounded and not unrolled."""

    @property
    def masked(self) -> tuple[Constraint, ...]:
        """The constraints that masks enforce, in boundary tiles or everywhere."""
        return (*self.lanes, *self.masks)

    def interior(self, flat: Flat, name: str) -> tuple[Size, Size]:
        """Return the range of values of the index ``name`` at which register tiles need no check of
        the constraints on rows and lanes, as these are satisfied for all values of the reduced
        indices."""
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
    """Group the constraints by how the loops enforce them.

    Raises InvalidModelError if the result can leave its tensor along the lanes, or if an input and
    the result share a constraint.
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
        # A reduced index is unrolled for ``rows`` or has a bounded loop for ``bounds``, not both.
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
