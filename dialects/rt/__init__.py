"""The `rt` dialect: kernels and segments on buffers, and the ops in them that upstream lacks."""

from xdsl.ir import Dialect

from tessella.dialects.rt.functions import (
    Buffer,
    CallOp,
    KernelOp,
    LaunchOp,
    ReturnOp,
    SegmentOp,
)
from tessella.dialects.rt.ops import (
    ARENA_ALIGNMENT,
    CONTEXT_SLOTS,
    UNROLL,
    ArenaOp,
    CheckOp,
    ContextOp,
    IotaOp,
    PrefetchOp,
    WeightOp,
    aligned,
    buffer_bytes,
)
from tessella.dialects.rt.scan import ScanOp

__all__ = [
    "ARENA_ALIGNMENT",
    "CONTEXT_SLOTS",
    "UNROLL",
    "ArenaOp",
    "Buffer",
    "CallOp",
    "CheckOp",
    "ContextOp",
    "IotaOp",
    "KernelOp",
    "LaunchOp",
    "PrefetchOp",
    "ReturnOp",
    "Rt",
    "ScanOp",
    "SegmentOp",
    "WeightOp",
    "aligned",
    "buffer_bytes",
]

Rt = Dialect(
    "rt",
    [
        *(KernelOp, SegmentOp, CallOp, ScanOp, LaunchOp, ReturnOp),
        *(ContextOp, CheckOp, IotaOp, PrefetchOp, ArenaOp, WeightOp),
    ],
    [],
)
