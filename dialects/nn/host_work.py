"""The memory and work of NumPy kernels beyond their operands and results, which limit constant
folding."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tessella.dialects.nn.core import shape_of
from tessella.support.decisions import decided_zero
from tessella.support.sizes import Size, product

WIDE = 3 * 8
"""The assumed bytes of memory per element in a NumPy kernel, which computes in float64 and holds
temporary arrays."""
STEPS = 16
"""The number of multiplications that weigh as much as one byte of memory."""
POINT = 1 << 10
"""The weight of one iteration of a kernel's Python loop, in bytes."""


def elements(value: SSAValue) -> Size:
    """Return the number of elements of a tensor. A size of 0 counts as 1, as the kernel's temporary
    arrays may lack that dimension."""
    return product(1 if decided_zero(size) else size for size in shape_of(value))


def padded(value: SSAValue, pads: Sequence[int]) -> Size:
    """Return the number of elements of x[N, C, spatial..] with ``pads`` added to its spatial
    dimensions.

    The types of an op's results do not bound the padding, as the strides of a window may skip it.
    """
    n, c, *sizes = shape_of(value)
    rank = len(sizes)
    return n * c * product(sizes[d] + pads[d] + pads[rank + d] for d in range(rank))
