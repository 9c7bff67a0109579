"""Analysis of which output elements the points of a contraction reach, and whether exactly one
point reaches each.

Constraints tie indices together; untied indices are independent. The valid points are therefore a
product over groups of tied indices, and a group is small enough to enumerate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice, product

import numpy as np

from tessella.dialects.tile import Index, Linear
from tessella.dialects.tile.maths import Normal
from tessella.dialects.tile.maths.intervals import Constraint, bounds
from tessella.support.conditions import UndecidedSizeError, always
from tessella.support.decisions import at_most, known, known_all
from tessella.support.sizes import Size, symbols_of

MOST_POINTS = 1 << 20
"""The maximum number of points of a group that are enumerated."""
_FEW = 16
"""The number of values of a reduced index up to which all are tried if sizes are dynamic. Of a
longer range, only values at the ends are tried."""


@dataclass(frozen=True)
class Space:
    """A set of points: indices with their ranges, and the constraints ``0 <= form < extent`` of
    valid points."""

    indices: tuple[Index, ...]
    constraints: tuple[Constraint, ...]

    @property
    def tied(self) -> Space:
        """The same constraints, with only the indices that occur in them."""
        names = {name for form, _ in self.constraints for name, _ in form.terms}
        return Space(tuple(i for i in self.indices if i.name in names), self.constraints)

    @property
    def reaches_all(self) -> bool:
        """True if a valid point exists for every value of the free indices; False if that is not
        known."""
        return all(group.is_reached() for group in self.groups())

    def groups(self) -> list[Space]:
        """Return the factors of this space: spaces of groups of indices, where no constraint ties
        indices of two groups."""
        groups = [Space((index,), ()) for index in self.indices]
        for constraint in self.constraints:
            names = {name for name, _ in constraint[0].terms}
            tied = [g for g in groups if names & {i.name for i in g.indices}]
            indices = tuple(i for g in tied for i in g.indices)
            merged = Space(indices, (*(c for g in tied for c in g.constraints), constraint))
            groups = [g for g in groups if g not in tied] + [merged]
        return groups

    def is_reached(self) -> bool:
        """Return whether this group has a valid point for every value of its free indices, by
        enumerating points; False if there are too many."""
        if not self.constraints:
            return True
        if self._is_open:
            return any(map(self._is_reached_at, self._choices()))
        shape = known_all(index.range for index in self.indices)
        if math.prod(shape) > MOST_POINTS:
            return False
        axes = np.indices(shape, np.int64, sparse=True)
        values = {index.name: axis for index, axis in zip(self.indices, axes, strict=True)}
        valid = np.ones(shape, bool)
        for form, extent in self.constraints:
            value = known(form.constant) + sum(c * values[name] for name, c in form.terms)
            valid &= (value >= 0) & (value < known(extent))
        reduced = tuple(axis for axis, index in enumerate(self.indices) if index.reduced)
        return bool(valid.any(axis=reduced).all())

    @property
    def _is_open(self) -> bool:
        sizes = chain((index.range for index in self.indices), _sizes(self.constraints))
        return bool(symbols_of(sizes))

    def _choices(self) -> Iterator[Mapping[str, Linear]]:
        """Yield choices of the reduced indices to try, each for all values of the free indices at
        once."""
        reduced = [index for index in self.indices if index.reduced]
        values = (
            range(index.range) if at_most(index.range, _FEW) else (0, 1, index.range - 1)
            for index in reduced
        )
        for choice in islice(product(*values), MOST_POINTS >> 10):
            numbers = (Linear((), value) for value in choice)
            yield dict(zip((index.name for index in reduced), numbers, strict=True))

    def _is_reached_at(self, choice: Mapping[str, Linear]) -> bool:
        """Return whether the constraints hold for all values of the free indices, given the values
        of the reduced ones."""
        ranges = {index.name: index.range for index in self.indices}
        return all(
            always(low >= 0) and always(high < extent)
            for form, extent in self.constraints
            for low, high in [form.substitute(choice).bounds(ranges)]
        )


def _sizes(constraints: Iterable[Constraint]) -> Iterator[Size]:
    return chain.from_iterable((form.constant, extent) for form, extent in constraints)


def is_determined(normal: Normal) -> bool:
    """Return whether no two valid points write the same element of the output.

    Two points that write the same element differ only in reduced indices, and the form of each
    constraint differs by less than its extent. Raises ResourceError if the search for a difference
    takes too long, and UndecidedSizeError if the answer depends on the values of symbols.
    """
    reduced = {index.name: index.range for index in normal.indices if index.reduced}
    differences = [(Linear.of(name), size) for name, size in reduced.items()]
    for form, extent in normal.constraints:
        terms = tuple((name, c) for name, c in form.terms if name in reduced)
        differences.append((Linear(terms), extent))
    around_zero = [(form + (extent - 1), 2 * extent - 1) for form, extent in differences]
    is_found = set((bounds(around_zero) or {}).values()) <= {(0, 0)}
    symbols = symbols_of(chain(reduced.values(), _sizes(normal.constraints)))
    if not is_found and symbols:
        what = "whether elements are assigned once needs the numbers"
        raise UndecidedSizeError(what, (symbol.name for symbol in symbols))
    return is_found
