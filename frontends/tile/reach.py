"""Which output elements the points of a contraction reach, and whether by one point each.

Constraints tie indices together; untied indices are independent. The valid points are therefore a
product over groups of tied indices, and a group is small enough to enumerate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tessella.dialects.tile import Index, Linear
from tessella.dialects.tile.maths import Normal
from tessella.dialects.tile.maths.intervals import Constraint, bounds
from tessella.support.decisions import known, known_all

MOST_POINTS = 1 << 20
"""The most points of a group that are enumerated."""


@dataclass(frozen=True)
class Space:
    """Indices, and the constraints of valid points: ``0 <= form < extent``."""

    indices: tuple[Index, ...]
    constraints: tuple[Constraint, ...]

    @property
    def tied(self) -> Space:
        """Return the same constraints, without unconstrained indices."""
        names = {name for form, _ in self.constraints for name, _ in form.terms}
        return Space(tuple(i for i in self.indices if i.name in names), self.constraints)

    @property
    def reaches_all(self) -> bool:
        """Return whether every value of the free indices has a valid point; False if that is not
        known."""
        return all(group.is_reached() for group in self.groups())

    def groups(self) -> list[Space]:
        """Return the parts that share no constraint."""
        groups = [Space((index,), ()) for index in self.indices]
        for constraint in self.constraints:
            names = {name for name, _ in constraint[0].terms}
            tied = [g for g in groups if names & {i.name for i in g.indices}]
            indices = tuple(i for g in tied for i in g.indices)
            merged = Space(indices, (*(c for g in tied for c in g.constraints), constraint))
            groups = [g for g in groups if g not in tied] + [merged]
        return groups

    def is_reached(self) -> bool:
        """Compute `reaches_all` by enumerating points; False if there are too many."""
        shape = known_all(index.range for index in self.indices)
        if not self.constraints:
            return True
        if math.prod(shape) > MOST_POINTS:
            return False
        axes = np.indices(shape, np.int64, sparse=True)
        values = {index.name: axis for index, axis in zip(self.indices, axes, strict=True)}
        valid = np.ones(shape, bool)
        for form, extent in self.constraints:
            value = known(form.constant) + sum(c * values[name] for name, c in form.terms)
            valid &= (value >= 0) & (value < extent)
        reduced = tuple(axis for axis, index in enumerate(self.indices) if index.reduced)
        return bool(valid.any(axis=reduced).all())


def is_determined(normal: Normal) -> bool:
    """Return whether no two points write the same element of the output.

    Such points would differ only in reduced indices, and in the form of each constraint by less
    than its extent. Raises ResourceError if the search for such a difference takes too long.
    """
    reduced = {index.name: known(index.range) for index in normal.indices if index.reduced}
    differences = [(Linear.of(name), size) for name, size in reduced.items()]
    for form, extent in normal.constraints:
        terms = tuple((name, c) for name, c in form.terms if name in reduced)
        differences.append((Linear(terms), extent))
    around_zero = [(form + (extent - 1), 2 * extent - 1) for form, extent in differences]
    return set((bounds(around_zero) or {}).values()) <= {(0, 0)}
