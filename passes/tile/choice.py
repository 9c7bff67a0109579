"""A schedule of a statement, with the cost model's estimate of its cycles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tessella.dialects.place import PlaceAttr
from tessella.dialects.tile import Schedule
from tessella.passes.tile.model import Estimate


@dataclass(frozen=True)
class Choice:
    """A schedule with its estimate, and the layouts and element types that it requires for operands
    of the kernel, by operand number."""

    schedule: Schedule
    estimate: Estimate
    places: Mapping[int, PlaceAttr] = field(default_factory=dict[int, PlaceAttr])
    penalty: float = 1.0
    """A factor of the cycles, above 1 for many boundary tiles, whose code is slow to fetch."""
    copies: float = 0.0
    """Cycles to pack operands that are not constants."""

    @property
    def cycles(self) -> float:
        return self.estimate.cycles * self.penalty + self.copies
