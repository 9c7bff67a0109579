"""Cost estimates, in seconds, for kernels and conversions without a model of their code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.ir import SSAValue

from tessella.dialects.elements import element_of
from tessella.dialects.nn.core import NnOp, shape_of, tensor_type
from tessella.dialects.place import place_of
from tessella.support.elements import ELEMENTS
from tessella.support.sizes import estimated, product
from tessella.targets import Target

Cost = Callable[[Any, Target], float]
"""``cost(op, target)``: seconds of one call on the machine that ``target`` describes."""

CANDIDATES = 0.1
"""The assumed fraction of a detector's boxes with a score above the threshold."""
SHUFFLING = 0.5
"""Cycles to transpose an element, in addition to moving it.

64 shuffles transpose a 16x16 block, and stores that straddle two cache lines take as long again.
"""
CALL = 2e-7
"""Seconds to call a generated kernel."""


@dataclass(frozen=True)
class KernelWork:
    """A lower bound on the work of a generated kernel."""

    products: float
    """The number of multiply-adds."""
    bits: int
    """The least width of a multiplied element, in bits."""
    weights: float
    """Bytes of the constants that the kernel reads."""

    def seconds(self, target: Target) -> float:
        """Return a lower bound on the seconds of a call: the multiply-adds at the peak rate, or the
        constants at memory bandwidth, if that takes longer."""
        cycles = self.products / (target.lanes(self.bits) * target.fma_ports)
        cycles = max(cycles, self.weights / target.memory_bandwidth)
        return CALL + cycles / (target.ghz * 1e9)


def bytes_of(value: SSAValue) -> int:
    """Return the bytes of a tensor: in the precision of its place if it has one, and with estimates
    of symbolic sizes."""
    type, place = tensor_type(value), place_of(value.type)
    element = ELEMENTS[place.precision.data] if place else element_of(type)
    return element.bytes(estimated(product(shape_of(type))))


def moving(read: int, written: int, target: Target) -> float:
    """Return the seconds to read ``read`` bytes and write ``written`` bytes.

    Beyond the second cache level, a written line is first read and later written back.
    """
    size = read + written
    allocated = written if target.is_far(size) else 0
    return (size + allocated) / (target.bandwidth(size) * target.ghz * 1e9)


def copying(op: NnOp, target: Target) -> float:
    """Return the seconds of a kernel that moves elements: it reads at most as many bytes as it
    writes."""
    written = sum(map(bytes_of, op.results))
    read = min(written, sum(map(bytes_of, op.operands)))
    return CALL + moving(read, written, target)


def no_cost(op: NnOp, target: Target) -> float:
    """Return 0 seconds, the cost of a view of memory."""
    return 0.0
