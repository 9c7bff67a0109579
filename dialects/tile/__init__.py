"""The `tile` dialect: kernels as statements over named indices, with affine accesses."""

from xdsl.ir import Dialect

from tessella.dialects.tile.access import Access, Linear, access, stays_inside
from tessella.dialects.tile.attributes import (
    PACKED,
    AccessAttr,
    Index,
    IndicesAttr,
    Running,
    WhereAttr,
)
from tessella.dialects.tile.bodies import (
    ExtractOp,
    IndexOp,
    YieldOp,
    scalar_region,
    yielded,
)
from tessella.dialects.tile.functions import (
    CONSTANT,
    CallOp,
    KernelOp,
    ReturnOp,
    SegmentOp,
    ViewOp,
    can_take,
    check_order,
    origin,
    same_memory,
    taken_arguments,
    through_views,
    weight_of,
)
from tessella.dialects.tile.loop_attributes import (
    At,
    AtAttr,
    Nest,
    NestAttr,
    SharedLoop,
    Storage,
    StorageAttr,
    Window,
)
from tessella.dialects.tile.ops import (
    ContractOp,
    EmptyOp,
    fused_products,
    identity_access,
)
from tessella.dialects.tile.scan import ScanOp
from tessella.dialects.tile.schedule_attributes import Dot, Schedule, ScheduleAttr
from tessella.dialects.tile.selection import RowSchedule, RowsOp, SelectionOp
from tessella.dialects.tile.sort import Sorting, SortingAttr, SortOp
from tessella.dialects.tile.suppress import JoinOp, SuppressOp, SweepAttr

__all__ = [
    "CONSTANT",
    "PACKED",
    "Access",
    "AccessAttr",
    "At",
    "AtAttr",
    "CallOp",
    "ContractOp",
    "Dot",
    "EmptyOp",
    "ExtractOp",
    "Index",
    "IndexOp",
    "IndicesAttr",
    "JoinOp",
    "KernelOp",
    "Linear",
    "Nest",
    "NestAttr",
    "ReturnOp",
    "RowSchedule",
    "RowsOp",
    "Running",
    "ScanOp",
    "Schedule",
    "ScheduleAttr",
    "SegmentOp",
    "SelectionOp",
    "SharedLoop",
    "SortOp",
    "Sorting",
    "SortingAttr",
    "Storage",
    "StorageAttr",
    "SuppressOp",
    "SweepAttr",
    "Tile",
    "ViewOp",
    "WhereAttr",
    "Window",
    "YieldOp",
    "access",
    "can_take",
    "check_order",
    "fused_products",
    "identity_access",
    "origin",
    "same_memory",
    "scalar_region",
    "stays_inside",
    "taken_arguments",
    "through_views",
    "weight_of",
    "yielded",
]

Tile = Dialect(
    "tile",
    [
        *(YieldOp, ReturnOp, IndexOp, ExtractOp, EmptyOp, ContractOp),
        *(SortOp, SuppressOp, JoinOp),
        *(KernelOp, SegmentOp, CallOp, ScanOp, ViewOp),
    ],
    [
        *(IndicesAttr, AccessAttr, WhereAttr, NestAttr, AtAttr, StorageAttr, ScheduleAttr),
        *(SortingAttr, SweepAttr),
    ],
)
