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
    """The statement's position in the shared loops of its kernel."""

    starts: tuple[Pos, ...]
    """The first elements of the operands and the result, as offsets."""
    bases: Mapping[str, Pos] = field(default_factory=dict[str, Pos])
    """The first values of the shared indices."""
    stops: Mapping[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    """The ends of indices that do not run over their whole ranges (`dialects/tile/reach.py`)."""
    share: tuple[SSAValue, SSAValue] | None = None
    """The values of the parallel index that this thread runs."""


@dataclass(frozen=True)
class Before:
    """An earlier value of a running index, at which aggregates have been stored."""

    value: Pos
    step: Pos
    """The distance from the current value to it."""
    none: SSAValue
    """Whether there is no earlier value, because the current one is the first; ``value`` is then
    the current one."""


@dataclass(frozen=True)
class Point:
    """The position of the loops: index values, operand offsets, and the register tile."""

    indices: Mapping[str, Pos]
    offsets: tuple[Pos, ...]
    rows: tuple[int, ...] = (0,)
    cut: Cut = UNCUT
    """The tiles that constraints cut."""
    masked: bool = False
    """Whether masks must check constraints on the lanes."""
    vectors: int = 1
    tail: Size = 0
    """Valid lanes of the last vector; 0 if all are valid."""
    line: Pos | None = None
    """The line of the next panel that this point prefetches."""
    left: int = 0
    """Valid values of the last group of a dot product; 0 if all are valid."""
    part: Size = 0
    """Values that the current partial sum adds; 0 outside partial sums."""
    placed: bool = False
    """Whether the result's offset includes the coordinates of an indexed write."""
    blocks: Mapping[str, Extent] = field(default_factory=dict[str, Extent])
    """The current block of each index that runs in blocks."""
    stops: Mapping[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    """The ends of the reduced indices that do not run over their whole ranges here."""
    before: Before | None = None
    """The aggregates to continue from, if the loop over the running index is outside register
    tiles."""

    def tail_of(self, vector: int) -> Size:
        """Number of valid lanes of one of the tile's vectors; 0 if all are valid."""
        return self.tail if vector == self.vectors - 1 else 0
