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
    """A stretch of an index's range."""

    start: Pos
    size: Size


@dataclass(frozen=True)
class Step:
    """Where a statement is in the loops that its kernel's statements share."""

    starts: tuple[Pos, ...]
    """Where the operands and the result begin, in elements."""
    bases: Mapping[str, Pos] = field(default_factory=dict[str, Pos])
    """The first values of the shared indices."""
    stops: Mapping[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    """Where the indices end that do not run over their whole ranges (`dialects/tile/reach.py`)."""
    share: tuple[SSAValue, SSAValue] | None = None
    """The values of the parallel index that this thread runs."""


@dataclass(frozen=True)
class Before:
    """The value of a running index before the current one, at which aggregates have been stored."""

    value: Pos
    step: Pos
    """From the current value to it."""
    none: SSAValue
    """Whether the current value is the first one. ``value`` is then the current one."""


@dataclass(frozen=True)
class Point:
    """The position of the loops: the value of each index, the offset of each operand, and the
    register tile."""

    indices: Mapping[str, Pos]
    offsets: tuple[Pos, ...]
    rows: tuple[int, ...] = (0,)
    cut: Cut = UNCUT
    """Where constraints leave some of the rows."""
    masked: bool = False
    """Whether constraints on the lanes have to be checked."""
    vectors: int = 1
    tail: Size = 0
    """Lanes of the last vector that count; 0 where all do."""
    line: Pos | None = None
    """Of the lines that a point reads of a panel: which of the next panel's is asked for."""
    left: int = 0
    """Values of the last group of a dot product that count; 0 where all do."""
    part: Size = 0
    """How many values of the index of partial sums the current sum has; 0 outside of them."""
    placed: bool = False
    """Whether the offset of the result has the coordinates of an indexed write."""
    blocks: Mapping[str, Extent] = field(default_factory=dict[str, Extent])
    """Where the current blocks of indices are."""
    stops: Mapping[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    """Where the reduced indices end that do not run over their whole ranges here."""
    before: Before | None = None
    """Where aggregates go on from, if the loop over the running index is outside of register
    tiles."""

    def tail_of(self, vector: int) -> Size:
        """Number of valid lanes of one of the tile's vectors; 0 if all are valid."""
        return self.tail if vector == self.vectors - 1 else 0
