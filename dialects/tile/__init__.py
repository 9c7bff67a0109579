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
from tessella.dialects.tile.functions import (
    CONSTANT,
    PACKED,
    CallOp,
    KernelOp,
    ReturnOp,
    SegmentOp,
    ViewOp,
    check_order,
    same_memory,
    through_views,
    weight_of,
)
from tessella.dialects.tile.ops import (
    ContractOp,
    EmptyOp,
    ExtractOp,
    IndexOp,
    YieldOp,
    identity_access,
    scalar_region,
    yielded,
)

__all__ = [
    "CONSTANT",
    "PACKED",
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
    "SegmentOp",
    "Tile",
    "ViewOp",
    "WhereAttr",
    "YieldOp",
    "access",
    "check_order",
    "identity_access",
    "same_memory",
    "scalar_region",
    "through_views",
    "weight_of",
    "yielded",
]

Tile = Dialect(
    "tile",
    [
        *(YieldOp, ReturnOp, IndexOp, ExtractOp, EmptyOp, ContractOp),
        *(KernelOp, SegmentOp, CallOp, ViewOp),
    ],
    [IndicesAttr, AccessAttr, WhereAttr, ScheduleAttr],
)
