"""Vector operations of a scalar body, for costs."""

from __future__ import annotations

from xdsl.ir import Block

from tessella.dialects.sizes import SizeOp
from tessella.dialects.tile import IndexOp, YieldOp, fused_products

_INSTRUCTIONS = ("absf", "absi", "ceil", "floor", "trunc", "roundeven", "copysign", "fma")
"""Functions that are one or two instructions."""
EXPENSIVE = {
    "math": 12.0,
    "math.powf": 128.0,
    "arith.remf": 24.0,
    "arith.lookup": 4.0,
    **{f"math.{f}": 1.0 for f in _INSTRUCTIONS},
}
"""Cycles of an op on a vector, by name, otherwise by dialect; other ops take one."""


def block_ops(block: Block) -> float:
    """Return the number of vector operations that a body takes. An expensive op counts several
    times, and a product that is fused with an addition not at all."""
    return sum(
        EXPENSIVE.get(x.name) or EXPENSIVE.get(x.name.partition(".")[0], 1.0)
        for x in block.ops
        if not isinstance(x, YieldOp | IndexOp | SizeOp)
    ) - len(fused_products(block))
