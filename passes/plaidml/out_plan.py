"""The distribution of a tile of the output over a group of threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tessella.passes.plaidml.stride_table import Column


@dataclass(frozen=True)
class OutPlan:
    """The plan of a tile of the output: the sizes of the free indices, and the threads along each.

    The indices are sorted by the output's strides, the smallest first.
    """

    strides: tuple[int, ...]
    tile: tuple[int, ...]
    threads: tuple[int, ...]
    line: int
    """The number of elements of global memory that are written at once."""

    @staticmethod
    def of(out: Column, tile: Sequence[int], threads: int, mem_width: int) -> OutPlan:
        """Return the plan for a tile of all indices, with up to ``threads`` threads and
        ``mem_width``-byte lines.

        Among equal strides, the last index comes first.
        """
        free = [(abs(s), -i) for i, s in enumerate(out.strides) if s]
        order = [-i for _, i in sorted(free)]
        sizes = tuple(tile[i] for i in order)
        line = max(1, mem_width // out.step_bytes)
        return OutPlan(
            tuple(out.strides[i] for i in order), sizes, share(sizes, threads, line), line
        )

    @property
    def elements(self) -> int:
        """The number of outputs that one thread accumulates."""
        return prod(-(-n // t) for n, t in zip(self.tile, self.threads, strict=True))

    @property
    def lines(self) -> int:
        """The number of writes of a tile to global memory. Along an index of stride 1, a write
        moves a line; along others, an element."""
        return prod(
            -(-n // self.line) if stride == 1 else n
            for stride, n in zip(self.strides, self.tile, strict=True)
        )


def share(tile: Sequence[int], threads: int, line: int) -> tuple[int, ...]:
    """Return the number of threads along each index of a tile, all powers of two.

    The first index gets the threads of one line. Then one index after the other gets twice as many,
    until all threads are used or no index has more values than threads. Each time, an index whose
    size is divisible by the doubled number, or that has fewer threads, is preferred to a candidate
    before it.
    """
    if not tile:
        return ()
    counts = [_power_of_two(min(line, threads, tile[0])), *[1] * (len(tile) - 1)]
    left = threads // counts[0]
    while left > 1 and (i := _next_index(tile, counts, threads)) is not None:
        counts[i] *= 2
        left //= 2
    return tuple(counts)


def _next_index(tile: Sequence[int], counts: Sequence[int], threads: int) -> int | None:
    best, best_divides, fewest = None, False, threads
    for i, (extent, count) in enumerate(zip(tile, counts, strict=True)):
        divides = extent % (count * 2) == 0
        if count < extent and ((divides and not best_divides) or count < fewest):
            best, best_divides, fewest = i, divides, count
    return best


def _power_of_two(n: int) -> int:
    """Return the least power of two that is at least n."""
    return 1 << (n - 1).bit_length()
