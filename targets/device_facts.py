"""The facts about a device other than the CPU: its limits, and rates from which costs follow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceFacts:
    """The rates and limits of a device.

    The rates are those that programs reach, not those of a data sheet, because the pick compares
    the resulting costs with estimates for the CPU.
    """

    flops: float
    """Operations on ``f32`` per second. A multiply-add counts as two."""
    bandwidth: float
    """Bytes per second between the device's processors and its memory."""
    link: float
    """Bytes per second between the memory of the device and that of the host."""
    latency: float
    """Seconds that a copy between the two memories takes in addition to the transfer of its
    bytes."""
    launch: float
    """Seconds that the launch of a kernel takes."""
    group_items: int = 256
    """The largest number of work-items in a work-group."""
    local_bytes: int = 16384
    """Bytes of local memory of a work-group."""
    register_bytes: int = 16384
    """Bytes of registers for the accumulators of a work-group."""
    line_bytes: int = 64
    """Bytes that one access to global memory moves."""
    units: int = 1
    """The number of work-groups that run at the same time."""
    has_local_memory: bool = True
    """True if local memory is faster than the caches for global memory."""
    runs_in_turn: bool = False
    """True if a unit runs the work-items of a group in turn, as a core of a CPU does. Such a unit
    needs no further groups that compute while one waits for memory, and work-items that share an
    output save no time."""

    def copy_seconds(self, size: float) -> float:
        """Return the seconds of a copy of ``size`` bytes from or to the host."""
        return self.latency + size / self.link

    def kernel_seconds(self, operations: float, size: float) -> float:
        """Return the seconds that a kernel takes if it computes ``operations`` and moves ``size``
        bytes at the device's rates."""
        return self.launch + max(operations / self.flops, size / self.bandwidth)
