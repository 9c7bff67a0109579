"""Partial sums of long reductions.

The rounding error of a sequential sum of n values grows with n; that of a sum of partial sums of b
values each grows with sqrt(n * b) (N. J. Higham, "The accuracy of floating point summation", 1993).
The inner loop does not change: the totals are updated once per partial sum, and spilled around it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tessella.dialects.elements import is_float
from tessella.dialects.tile import ContractOp, Schedule, YieldOp
from tessella.dialects.tile.flat import Flat
from tessella.dialects.tile.reach import GRANULE, reaches
from tessella.dialects.tile.summed import SummedProduct
from tessella.passes.tile.blocks import block_index

LONG = 1024
"""The number of values from which a sum is computed as a sum of partial sums."""
PART = 256
"""The usual number of values of a partial sum.

This number keeps the error of products of 1024 to 16384 summands at ONNX Runtime's
(`tests/kernels/test_accuracy.py`). Each partial sum takes a store and two loads for each
accumulator.
"""
LARGEST = 512
"""The most values of a partial sum, for ranges that PART does not divide, and for windows, which
are not cut."""


@dataclass(frozen=True)
class _Sizes:
    """The limits on the number of values of partial sums: ``LONG``, ``PART`` and ``LARGEST``, or
    smaller ones if a statement requests parts."""

    long: int
    part: int
    largest: int


_USUAL = _Sizes(LONG, PART, LARGEST)


def partial_sums(
    op: ContractOp, flat: Flat[int], s: Schedule, product: SummedProduct | None
) -> tuple[str, int] | None:
    """Return the reduced index that a schedule cuts into partial sums, and the number of values in
    each.

    Returns None if the sum is short or exact. If iterations of shared loops run only the first
    values of a reduced index, that index is cut at the points where an iteration may end, so that
    the inner loops have known lengths.
    """
    last = op.combine.block.last_op
    assert isinstance(last, YieldOp)
    if op.aggregation.data != "+" or not is_float(last.value.type) or flat.running is not None:
        return None
    block = None if product is None else block_index(op, product, flat, s.reduction)
    if block is not None and s.vector not in flat.reduced:
        return block, 1
    bounded = [name for name in reaches(op) if name in s.reduction and name != s.vector]
    if bounded:
        return bounded[0], GRANULE
    sizes = _USUAL if (n := op.part_count) is None else _Sizes(2 * n, n, n)
    found, inside = None, 1
    for name in reversed(s.reduction):
        unit = s.width if name == s.vector else s.group(name)
        steps = max(1, flat.ranges[name] // unit)
        if inside * steps > sizes.largest and found is None:
            found = _cut(flat, s, name, inside, unit, sizes)
        inside *= steps
    if found is not None and found[0] in reaches(op):
        found = found[0], GRANULE
    return found if inside >= sizes.long else None


def _cut(
    flat: Flat[int], s: Schedule, name: str, inside: int, unit: int, sizes: _Sizes
) -> tuple[str, int] | None:
    """Return how a sum is cut into partial sums: an index, and the number of its values in each of
    them.

    The index ``name`` is the innermost one over whose full range a partial sum would be too long.
    If it cannot be cut, the next inner index makes a partial sum. None if there is no such index.
    """
    most = sizes.largest // inside
    if most >= 2 and name not in flat.pinned:
        steps, wanted = flat.ranges[name] // unit, max(1, sizes.part // inside)
        whole = [n for n in range(wanted // 2, most + 1) if n and steps % n == 0]
        aligned = [n for n in whole if n % s.unroll == 0] or whole
        return name, unit * min(aligned, key=lambda n: abs(n - wanted), default=wanted)
    inner = s.reduction[s.reduction.index(name) + 1 :]
    return (inner[0], flat.ranges[inner[0]]) if inner and inside > 1 else None
