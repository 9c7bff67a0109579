"""Hazards between accesses of threads since their last barrier."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from xdsl.ir import SSAValue

from tessella.dialects.rt import Part
from tessella.support.decisions import at_most
from tessella.support.sizes import Size

Box = Sequence[tuple[Size, Size]]
"""The least and the greatest index along each dimension of a tensor."""


class Use(NamedTuple):
    """A read or write of a buffer by a kernel."""

    buffer: SSAValue
    part: Part
    """How threads divide the elements that they touch."""
    written: bool
    box: Box | None = None
    """The region of the tensor that all threads together touch; None if it is unknown."""

    def is_apart(self, other: Use) -> bool:
        """Return whether two uses of the buffer are known to touch disjoint regions."""
        boxes = zip(self.box or (), other.box or (), strict=False)
        return any(at_most(b + 1 - c, 0) or at_most(d + 1 - a, 0) for (a, b), (c, d) in boxes)


class Hazards:
    """The uses of buffers since the last barrier.

    Two uses of a buffer, one of which writes, need a barrier in between, unless each thread touches
    the same elements in both, or the uses are in different regions of the tensor.
    """

    def __init__(self) -> None:
        self._uses: dict[SSAValue, list[Use]] = {}

    def conflict(self, uses: Iterable[Use]) -> Use | None:
        """Return the first of ``uses`` that needs a barrier after an earlier use; None if none
        does."""
        return next((use for use in uses if self._must_wait(use)), None)

    def _must_wait(self, use: Use) -> bool:
        earlier = self._uses.get(use.buffer, ())
        return any(
            (use.written or other.written)
            and not use.part.agrees(other.part)
            and not use.is_apart(other)
            for other in earlier
        )

    def add(self, uses: Iterable[Use]) -> None:
        """Record uses of buffers after the last barrier."""
        for use in uses:
            self._uses.setdefault(use.buffer, []).append(use)

    def clear(self) -> None:
        """Forget all recorded uses, as at a barrier."""
        self._uses.clear()
