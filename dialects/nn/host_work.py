"""The cost of NumPy kernels beyond their operands and results, for limits on folding."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tessella.dialects.nn.core import shape_of
from tessella.support.decisions import decided_zero
from tessella.support.sizes import Size, product

WIDE = 3 * 8
"""Bytes per element: kernels compute in float64 and hold temporaries."""
STEPS = 16
"""Multiplications that weigh as much as one byte."""
POINT = 1 << 10
"""The weight of one iteration of a kernel's Python loop, in bytes."""


def elements(value: SSAValue) -> Size:
    """Return the number of elements; a size of zero counts as one, as temporaries may lack that
    dimension."""
    return product(1 if decided_zero(size) else size for size in shape_of(value))


def padded(value: SSAValue, pads: Sequence[int]) -> Size:
    """Return the number of elements with padding, which the types do not show, as strides may skip
    it."""
    n, c, *sizes = shape_of(value)
    rank = len(sizes)
    return n * c * product(sizes[d] + pads[d] + pads[rank + d] for d in range(rank))
