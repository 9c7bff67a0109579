"""Index ranges whose bounds are sizes."""

from __future__ import annotations

from dataclasses import dataclass

from tessella.support.conditions import decided
from tessella.support.decisions import decided_max, decided_min
from tessella.support.sizes import Size, ceil_div


@dataclass(frozen=True)
class StridedIndices:
    """The ``count`` indices ``start``, ``start + step``, ``start + 2 * step``..."""

    start: Size
    count: Size
    step: int

    @staticmethod
    def between(start: Size, end: Size, step: int) -> StridedIndices:
        """Return the indices of Python's ``range(start, end, step)``, for bounds that may be
        symbolic."""
        span = end - start if step > 0 else start - end
        return StridedIndices(start, decided_max(ceil_div(span, abs(step)), 0), step)

    @staticmethod
    def sliced(key: slice, size: Size) -> StridedIndices:
        """Return the indices that a Python slice selects from ``size`` elements. Raises
        UndecidedSizeError."""
        step = 1 if key.step is None else key.step
        first, last = (0, size) if step > 0 else (-1, size - 1)

        def bound(value: Size | None, default: Size) -> Size:
            if value is None:
                return default
            from_front = value + size if decided(value < 0) else value
            return decided_min(decided_max(from_front, first), last)

        ends = (first, last) if step > 0 else (last, first)
        start, stop = bound(key.start, ends[0]), bound(key.stop, ends[1])
        return StridedIndices.between(start, stop, step)
