"""The `tile` dialect: kernels as statements over named indices, with affine accesses."""

from xdsl.ir import Dialect

from tessella.dialects.tile.access import Access, Linear, access
from tessella.dialects.tile.attributes import (
    AccessAttr,
    Index,
    IndicesAttr,
    Schedule,
    ScheduleAttr,
    WhereAttr,
)
from tessella.dialects.tile.ops import (
    CONSTANT,
    CallOp,
    ContractOp,
    EmptyOp,
    ExtractOp,
    IndexOp,
    KernelOp,
    ReturnOp,
    YieldOp,
    constant_mark,
    identity_access,
    scalar_region,
    yielded,
)

__all__ = [
    "CONSTANT",
    "Access",
    "AccessAttr",
    "CallOp",
    "ContractOp",
    "EmptyOp",
    "ExtractOp",
    "Index",
    "IndexOp",
    "IndicesAttr",
    "KernelOp",
    "Linear",
    "ReturnOp",
    "Schedule",
    "ScheduleAttr",
    "Tile",
    "WhereAttr",
    "YieldOp",
    "access",
    "constant_mark",
    "identity_access",
    "scalar_region",
    "yielded",
]

Tile = Dialect(
    "tile",
    [YieldOp, ReturnOp, IndexOp, ExtractOp, EmptyOp, ContractOp, KernelOp, CallOp],
    [IndicesAttr, AccessAttr, WhereAttr, ScheduleAttr],
)
