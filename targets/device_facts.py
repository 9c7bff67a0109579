"""The facts of a device beside the CPU: its limits, and the rates that costs are computed from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceFacts:
    """The rates and limits of a device.

    The rates are those that programs reach, not those of a data sheet, as the pick compares them
    with estimates for the CPU.
    """

    flops: float
    """Operations on ``f32`` per second. A multiply-add counts as two."""
    bandwidth: float
    """Bytes per second between the device's processors and its memory."""
    link: float
    """Bytes per second between the memory of the device and that of the host."""
    latency: float
    """Seconds of a copy between the two memories, beside those of its bytes."""
    launch: float
    """Seconds of the launch of a kernel."""
    group_items: int = 256
    """The most work-items of a work-group."""
    local_bytes: int = 16384
    """Bytes of local memory of a work-group."""
    register_bytes: int = 16384
    """Bytes of registers for the accumulators of a work-group."""
    line_bytes: int = 64
    """Bytes that one access to global memory moves."""
    units: int = 1
    """The number of work-groups that run at the same time."""
    has_local_memory: bool = True
    """True if local memory is nearer than the caches."""

    def copy_seconds(self, size: float) -> float:
        """Return the seconds of a copy of ``size`` bytes from or to the host."""
        return self.latency + size / self.link

    def kernel_seconds(self, operations: float, size: float) -> float:
        """Return the seconds of a kernel that reads and writes ``size`` bytes, at full rates."""
        return self.launch + max(operations / self.flops, size / self.bandwidth)
