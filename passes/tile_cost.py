"""What a kernel costs on a machine, in seconds, as the tile model sees it."""

from __future__ import annotations

from tessella.dialects.nn.core import shape_of
from tessella.dialects.tile import ContractOp, KernelOp
from tessella.passes.tile_choose import estimate
from tessella.targets import Target


def seconds(kernel: KernelOp, target: Target) -> float:
    """Modelled seconds of one call: its statements one after another, each scheduled well."""
    cycles = sum(
        estimate(op, kernel, target).cycles
        for op in kernel.body.block.ops
        if isinstance(op, ContractOp) and not _joins(op)
    )
    return cycles / (target.ghz * 1e9)


def _joins(op: ContractOp) -> bool:
    """Whether a map will be a part of the aggregation that it reads: see ``tile_fuse_maps.py``."""
    if not op.is_map or not op.inputs:
        return False
    value = op.inputs[0]
    return (
        isinstance(value.owner, ContractOp)
        and not value.owner.is_map
        and value.has_one_use()
        and shape_of(value) == shape_of(op.res)
    )
