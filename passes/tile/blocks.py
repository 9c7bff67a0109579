"""Sums of blocks: products that are summed over a block of values before the sum is scaled, as for
weights with a scale for each block."""

from __future__ import annotations

from collections.abc import Sequence

from tessella.dialects.tile import ContractOp, Schedule
from tessella.dialects.tile.flat import Flat
from tessella.dialects.tile.summed import SummedProduct
from tessella.passes.tile.plan import AccessPlan


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
    """Return the reduced index whose every value is a block with its own scale: the scales depend
    on all loops from the outermost one to this index, and on no loop inside it.

    Returns None if the sums cannot be scaled block by block.
    """
    if flat.constraints or flat.running is not None or op.is_scatter:
        return None
    moving = {name for name in reduction if name in scale_indices(product, flat)}
    if not moving or {*reduction[: len(moving)]} != moving or len(moving) == len(reduction):
        return None
    return reduction[len(moving) - 1]


def scale_indices(product: SummedProduct, flat: Flat) -> set[str]:
    """Return the reduced indices that the scales of a product depend on."""
    if not product.is_scaled:
        return set()
    scales = [a for i, a in enumerate(flat.accesses[: flat.inputs]) if i not in product.operands]
    return {name for name in flat.reduced if any(a.lane_stride(name) != 0 for a in scales)}


def sums_blocks(op: ContractOp, product: SummedProduct, flat: Flat) -> bool:
    """Return whether blocks can be summed before they are scaled, in some order of the loops."""
    blocks = scale_indices(product, flat)
    order = sorted(flat.reduced, key=lambda name: name not in blocks)
    return block_index(op, product, flat, order) is not None


def decoding_ops(
    product: SummedProduct | None, plan: AccessPlan[int], s: Schedule, rows: int, vectors: int
) -> float:
    """Return the number of operations, at a point of a register tile, that compute the factors of a
    product from its operands. A dot product instruction widens its factors itself."""
    if product is None:
        return 0.0
    ops = 0.0
    for number, operand in enumerate(product.operands):
        found = product.decoding(number) if s.dot is not None else product.widening(number)
        o, each = plan.read[operand], sum(product.reads(op) for op in found)
        ops += each * (vectors if o.by_vector else 1) * (rows if o.by_row else 1)
    return ops
