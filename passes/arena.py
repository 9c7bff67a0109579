"""Placement of buffers in an arena, by live range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from xdsl.dialects import memref

from tessella.dialects.rt import ALONE, Part
from tessella.support.decisions import known
from tessella.support.sizes import Size, bounds_of, estimated, symbols_of

_Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True)
class Lifetime:
    """The live range of the buffers that share an arena slot."""

    ops: tuple[memref.AllocOp, ...]
    size: Size
    first: int
    last: int
    until: int
    """The position of the first barrier after the last use; in a segment that runs in a loop, it
    may be in the next iteration."""
    part: Part
    """How threads divide the bytes that they touch."""

    @property
    def is_alone(self) -> bool:
        """True if only one thread touches the buffers, so that no barrier is needed between their
        uses."""
        return self.part == ALONE


class Arena:
    """Offsets and live ranges of buffers. They are stored in arrays, because a segment may have
    thousands of buffers."""

    def __init__(self, most: int, step: int | None) -> None:
        """Create an empty arena for at most ``most`` buffers. ``step`` is the number of ops in an
        iteration of a segment that runs in a loop; None for other segments."""
        self.count = 0
        self._step = step
        self._first, self._last, self._until, self._start, self._end = np.zeros((5, most), np.int64)
        self._alone = np.zeros(most, np.bool_)

    @property
    def size(self) -> Size:
        return int(self._end[: self.count].max(initial=0))

    def place(self, lifetime: Lifetime) -> Size:
        """Place a buffer at the lowest offset that is free during its live range. Returns the
        offset."""
        n = self.count
        offset = self._free(self._taken(lifetime), lifetime.size)
        self._first[n], self._last[n] = lifetime.first, lifetime.last
        self._until[n], self._alone[n] = lifetime.until, lifetime.is_alone
        self.count += 1
        return offset

    def _free(self, taken: _Mask, size: Size) -> Size:
        """Place a buffer of ``size`` bytes at the lowest offset where it overlaps none of the
        ``taken`` buffers. Returns the offset."""
        n, room = self.count, known(size)
        starts, ends = self._start[:n][taken], self._end[:n][taken]
        order = np.argsort(starts)
        starts = starts[order]
        # the largest end of all buffers with a lower start
        reach = np.maximum.accumulate(np.concatenate([[0], ends[order]]))
        gaps = np.flatnonzero(starts - reach[:-1] >= room)
        offset = int(reach[gaps[0]] if gaps.size else reach[-1])
        self._start[n], self._end[n] = offset, offset + room
        return offset

    def _taken(self, x: Lifetime) -> _Mask:
        """Return a mask of the placed buffers that may be live at the same time as ``x``."""
        first, last, until = (a[: self.count] for a in (self._first, self._last, self._until))
        taken = (first <= x.until) & (until >= x.first)
        if self._step is not None:
            taken |= (first + self._step <= x.until) | (until >= x.first + self._step)
        if x.is_alone:
            taken &= ~self._alone[: self.count] | ((first <= x.last) & (last >= x.first))
        return taken


class SymbolicArena(Arena):
    """An arena with symbolic sizes: a buffer may share bytes only if that is valid for all
    values."""

    def __init__(self, most: int, step: int | None) -> None:
        super().__init__(most, step)
        self._ranges: list[tuple[Size, Size]] = []
        self._total: Size = 0

    @property
    def size(self) -> Size:
        return self._total

    def _free(self, taken: _Mask, size: Size) -> Size:
        others = [self._ranges[i] for i in np.flatnonzero(taken)]
        starts = sorted({0, *(end for _, end in others)}, key=estimated)
        # The sum of all ends is behind every buffer, for all values of symbols.
        starts.append(sum((end for _, end in others), 0))
        offset = next(x for x in starts if all(_beside(x, size, other) for other in others))
        self._ranges.append((offset, offset + size))
        self._total = _most(self._total, offset + size)
        return offset


def _beside(offset: Size, size: Size, other: tuple[Size, Size]) -> bool:
    """Return whether a buffer of ``size`` bytes at ``offset`` is known not to overlap the range
    ``other``, for all values of symbols."""
    start, end = other
    return _is_least(end, offset) or _is_least(offset + size, start)


def _most(a: Size, b: Size) -> Size:
    """Return an upper bound of two sizes: the larger one, or their sum if neither is known to be
    larger."""
    if _is_least(a, b):
        return b
    return a if _is_least(b, a) else a + b


@lru_cache(maxsize=1024)
def _is_least(a: Size, b: Size) -> bool:
    """Return whether a size is at most another one for all values of symbols."""
    return bounds_of(b - a)[0] >= 0


def arena_for(lifetimes: Sequence[Lifetime], step: int | None) -> Arena:
    """Return an empty arena for these buffers, symbolic if the size of any of them is."""
    kind = SymbolicArena if symbols_of(x.size for x in lifetimes) else Arena
    return kind(len(lifetimes), step)
