"""Sums of blocks: products that are summed in a block of values before they are scaled."""

from __future__ import annotations

from collections.abc import Sequence

from tessella.dialects.tile import ContractOp, Schedule
from tessella.dialects.tile.flat import Flat
from tessella.dialects.tile.summed import SummedProduct


def block_sums(op: ContractOp, flat: Flat, s: Schedule) -> SummedProduct | None:
    """Return the product of a statement whose schedule sums each block in a partial sum, and scales
    that sum; None for any other schedule."""
    if s.partial is None or s.partial[1] != 1:
        return None
    product = op.summed
    found = None if product is None else block_index(op, product, flat, s.reduction)
    return product if found == s.partial[0] and s.vector not in flat.reduced else None


def block_index(
    op: ContractOp, product: SummedProduct, flat: Flat, reduction: Sequence[str]
) -> str | None:
    """Return the innermost reduced index along which scales move, if each of its values is a block
    that a partial sum can cover: scales move along all loops around it and along none inside.

    None if the sums cannot be scaled block by block.
    """
    if flat.constraints or flat.running is not None or op.is_scatter:
        return None
    moving = {name for name in reduction if name in scale_indices(product, flat)}
    if not moving or {*reduction[: len(moving)]} != moving or len(moving) == len(reduction):
        return None
    return reduction[len(moving) - 1]


def scale_indices(product: SummedProduct, flat: Flat) -> set[str]:
    """Return the reduced indices along which the scales of a product move."""
    scales = [a for i, a in enumerate(flat.accesses[: flat.inputs]) if i not in product.operands]
    return {name for name in flat.reduced if any(a.lane_stride(name) for a in scales)}
