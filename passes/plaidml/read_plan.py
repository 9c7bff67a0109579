"""The plan by which a group of threads loads its tile of an input into local memory.

Indices that move through memory in the same direction are loaded as one: where a convolution reads
``D[x + i]``, a tile of 2 values of ``x`` and 2 of ``i`` takes 3 elements, not 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod


@dataclass(frozen=True)
class MergedIndex:
    """One or several indices whose elements lie on one line of ``range`` elements, ``stride``
    apart."""

    names: tuple[str, ...]
    stride: int
    """The distance between neighbouring elements in global memory, in elements; positive."""
    range: int

    @property
    def name(self) -> str:
        return "_".join(self.names)


def merge(names: Sequence[str], strides: Sequence[int], tile: Sequence[int]) -> list[MergedIndex]:
    """Return the lines of a tile, in the order of their strides.

    An index joins the first line whose stride divides its own, if its steps leave no gap in the
    line; otherwise it becomes a new line. The sign of a stride does not matter: it only changes the
    line's first element. Indices of stride 0 are skipped.
    """
    merged: list[MergedIndex] = []
    moving = [x for x in zip(names, map(abs, strides), tile, strict=True) if x[1]]
    for name, stride, extent in sorted(moving, key=lambda index: index[1]):
        i = _line_of(stride, merged)
        if i is None:
            merged.append(MergedIndex((name,), stride, extent))
        else:
            line = merged[i]
            longer = line.range + stride // line.stride * (extent - 1)
            merged[i] = MergedIndex((*line.names, name), line.stride, longer)
    return merged


def _line_of(stride: int, lines: Iterable[MergedIndex]) -> int | None:
    for i, line in enumerate(lines):
        steps, rest = divmod(stride, line.stride)
        if rest == 0 and steps <= line.range:
            return i
    return None


@dataclass(frozen=True)
class ReadPlan:
    """The plan of a tile of an input in local memory: its indices from the innermost to the
    outermost.

    All local strides are odd: neighbouring threads along any index then access different banks. Odd
    ranges are innermost, as they need no padding, then long ones, as every range outside repeats a
    padding element.
    """

    indices: tuple[MergedIndex, ...]

    @staticmethod
    def of(names: Sequence[str], strides: Sequence[int], tile: Sequence[int]) -> ReadPlan:
        """Return the plan for a tile; of equal ranges, the one with the smaller stride goes
        first."""
        merged = merge(names, strides, tile)
        merged.sort(key=lambda index: (index.range % 2 == 0, -index.range))
        return ReadPlan(tuple(merged))

    @cached_property
    def local_strides(self) -> tuple[int, ...]:
        """The stride of each index in local memory, in elements: the product of the stride and
        range of the index before it, plus 1 if that is even."""
        sizes = accumulate(self.indices, lambda size, index: size * index.range | 1, initial=1)
        return tuple(sizes)[: len(self.indices)]

    @property
    def size(self) -> int:
        """The number of elements of local memory that the tile takes, padding between them
        included."""
        return self.local_strides[-1] * self.indices[-1].range if self.indices else 1

    def loads(self, line: int) -> int:
        """Return the number of reads of ``line`` elements of global memory, if lines are aligned
        and each one serves as many elements of the best index as it can hold."""
        per_line = [min(line, i.stride * i.range) // i.stride for i in self.indices]
        return prod(i.range for i in self.indices) // max([1, *per_line])
