"""The current position of a statement's loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from tessella.lowering.boundary import UNCUT, Cut
from tessella.lowering.values import Pos
from tessella.support.sizes import Size


@dataclass(frozen=True)
class Extent:
    """A contiguous part of an index's range."""

    start: Pos
    size: Size


@dataclass(frozen=True)
class StepPosition:
    """The position of a statement in the current iteration of the loops that its kernel's
    statements share."""

    starts: tuple[Pos, ...]
    """The offsets at which the operands and the result begin in the current iteration."""
    bases: Mapping[str, Pos] = field(default_factory=dict[str, Pos])
    """The first value of each shared index in the current iteration."""
    stops: Mapping[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    """The ends of indices that do not run over their whole ranges (`dialects/tile/reach.py`)."""
    share: tuple[SSAValue, SSAValue] | None = None
    """The first value and the end of the parallel index's values that this thread runs; None if
    threads do not divide the statement."""


@dataclass(frozen=True)
class Before:
    """The value before the current one of a running index, with the aggregates that are stored
    there."""

    value: Pos
    step: Pos
    """The distance from the current value of the index to the earlier value."""
    none: SSAValue
    """True if there is no earlier value, because the current one is the first; ``value`` is then
    the current one."""


@dataclass(frozen=True)
class Point:
    """The position of a statement's loops: the values of the indices, the offsets of the operands,
    and the rows and vectors of the current register tile."""

    indices: Mapping[str, Pos]
    offsets: tuple[Pos, ...]
    rows: tuple[int, ...] = (0,)
    cut: Cut = UNCUT
    """The tiles of the loop over rows that have rows out of bounds."""
    masked: bool = False
    """True if masks must check constraints on the lanes."""
    vectors: int = 1
    tail: Size = 0
    """Valid lanes of the last vector; 0 if all are valid."""
    line: Pos | None = None
    """The first line of the next panel that this register tile prefetches; None if it prefetches
    none."""
    left: int = 0
    """Valid values of the last group of a dot product; 0 if all are valid."""
    part: Size = 0
    """The number of values that the current partial sum adds; 0 outside partial sums."""
    placed: bool = False
    """True if the result's offset already includes the computed coordinates of an indexed write."""
    blocks: Mapping[str, Extent] = field(default_factory=dict[str, Extent])
    """The current block of each index that runs in blocks."""
    stops: Mapping[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    """The ends of the reduced indices that do not run over their whole ranges here."""
    before: Before | None = None
    """The earlier value of the running index at which the aggregates to continue from are stored;
    None unless the loop over that index is outside register tiles."""

    def tail_of(self, vector: int) -> Size:
        """Return the number of valid lanes of the tile's vector ``vector``; 0 if all are valid."""
        return self.tail if vector == self.vectors - 1 else 0
