"""The stride table of a normal form, as PlaidML 0.7's `FlatContraction` has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tessella.dialects.layout import NCHW
from tessella.dialects.tile.access import Linear
from tessella.dialects.tile.flat import FlatAccess, flatten_access
from tessella.dialects.tile.maths.intervals import Constraint
from tessella.dialects.tile.maths.normalize import Normal
from tessella.support.decisions import known


@dataclass(frozen=True)
class StrideTable:
    """Addresses in elements, and what limits the points of the box."""

    names: tuple[str, ...]
    """The indices in alphabetical order."""
    ranges: tuple[int, ...]
    accesses: tuple[FlatAccess, ...]
    """The output's, then the inputs'."""
    constraints: tuple[tuple[Linear, int], ...]
    """``form <= bound`` for forms without a constant."""


def stride_table(normal: Normal, shapes: Sequence[Sequence[int]]) -> StrideTable:
    """The table of a normal form, for row-major tensors of these shapes."""
    ranges = {x.name: known(x.range) for x in sorted(normal.indices, key=lambda index: index.name)}
    pairs = zip(normal.accesses, shapes, strict=True)
    accesses = tuple(flatten_access(access, shape, NCHW, ranges) for access, shape in pairs)
    sides = (side for constraint in normal.constraints for side in _sides(constraint))
    kept = tuple((form, bound) for form, bound in sides if known(form.bounds(ranges)[1]) > bound)
    return StrideTable(tuple(ranges), tuple(ranges.values()), accesses, kept)


def _sides(constraint: Constraint) -> Iterator[tuple[Linear, int]]:
    """``0 <= form < extent`` as ``form <= bound``, twice."""
    form, extent = constraint
    constant, extent = known(form.constant), known(extent)
    moving = form - constant
    yield moving * -1, constant
    yield moving, extent - 1 - constant
