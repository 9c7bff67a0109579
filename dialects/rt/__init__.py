"""The `rt` dialect: kernels and segments on buffers, and the ops in them that upstream lacks."""

from xdsl.ir import Dialect

from tessella.dialects.rt.functions import (
    Buffer,
    BufferCall,
    CallOp,
    KernelOp,
    LaunchOp,
    ReturnOp,
    SegmentOp,
    divided,
    memory_shape,
    timed,
)
from tessella.dialects.rt.ops import (
    ARENA_ALIGNMENT,
    BARRIER_SLOT,
    CONTEXT_SLOTS,
    PRIVATE,
    SIZES_SLOT,
    UNROLL,
    ArenaOp,
    CheckOp,
    ContextOp,
    IotaOp,
    PrefetchOp,
    SizeOp,
    WeightOp,
    aligned,
    buffer_bytes,
)
from tessella.dialects.rt.scan import ScanOp
from tessella.dialects.rt.threads import (
    ALONE,
    ANY,
    OWN,
    BarrierOp,
    Kind,
    Part,
    PartAttr,
    Share,
    ShareOp,
)

__all__ = [
    "ALONE",
    "ANY",
    "ARENA_ALIGNMENT",
    "BARRIER_SLOT",
    "CONTEXT_SLOTS",
    "OWN",
    "PRIVATE",
    "SIZES_SLOT",
    "UNROLL",
    "ArenaOp",
    "BarrierOp",
    "Buffer",
    "BufferCall",
    "CallOp",
    "CheckOp",
    "ContextOp",
    "IotaOp",
    "KernelOp",
    "Kind",
    "LaunchOp",
    "Part",
    "PartAttr",
    "PrefetchOp",
    "ReturnOp",
    "Rt",
    "ScanOp",
    "SegmentOp",
    "Share",
    "ShareOp",
    "SizeOp",
    "WeightOp",
    "aligned",
    "buffer_bytes",
    "divided",
    "memory_shape",
    "timed",
]

Rt = Dialect(
    "rt",
    [
        *(KernelOp, SegmentOp, CallOp, ScanOp, LaunchOp, ReturnOp),
        *(ContextOp, CheckOp, IotaOp, PrefetchOp, ArenaOp, WeightOp, SizeOp),
        *(ShareOp, BarrierOp),
    ],
    [PartAttr],
)
