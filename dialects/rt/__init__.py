"""The `rt` dialect: kernels and segments on buffers, and ops in them that upstream dialects
lack."""

from xdsl.ir import Dialect

from tessella.dialects.rt.dot import DotOp
from tessella.dialects.rt.functions import (
    Buffer,
    BufferCall,
    CallOp,
    KernelOp,
    LaunchOp,
    ReturnOp,
    SegmentOp,
    divided,
    flat_buffer,
    memory_shape,
    timed,
)
from tessella.dialects.rt.ops import (
    ARENA_ALIGNMENT,
    CONTEXT_SLOTS,
    LAUNCH_SLOT,
    PRIVATE,
    SIZES_SLOT,
    UNROLL,
    ArenaOp,
    CheckOp,
    ContextOp,
    GatherOp,
    IotaOp,
    PrefetchOp,
    StopOp,
    WatchOp,
    WeightOp,
    aligned,
    buffer_bytes,
)
from tessella.dialects.rt.phases import Phase, has_phases, phases
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
from tessella.dialects.sizes import SizeOp

__all__ = [
    "ALONE",
    "ANY",
    "ARENA_ALIGNMENT",
    "CONTEXT_SLOTS",
    "LAUNCH_SLOT",
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
    "DotOp",
    "GatherOp",
    "IotaOp",
    "KernelOp",
    "Kind",
    "LaunchOp",
    "Part",
    "PartAttr",
    "Phase",
    "PrefetchOp",
    "ReturnOp",
    "Rt",
    "ScanOp",
    "SegmentOp",
    "Share",
    "ShareOp",
    "StopOp",
    "WatchOp",
    "WeightOp",
    "aligned",
    "buffer_bytes",
    "divided",
    "flat_buffer",
    "has_phases",
    "memory_shape",
    "phases",
    "timed",
]

Rt = Dialect(
    "rt",
    [
        *(KernelOp, SegmentOp, CallOp, ScanOp, LaunchOp, ReturnOp),
        *(ContextOp, CheckOp, StopOp, WatchOp, IotaOp, GatherOp, PrefetchOp),
        *(ArenaOp, WeightOp, SizeOp),
        *(ShareOp, BarrierOp, DotOp),
    ],
    [PartAttr],
)
