"""Costs of kernels and conversions without a model of their code, in seconds."""

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
"""The share of boxes whose score is above the least one, of those that a detector gives."""
SHUFFLING = 0.5
"""Cycles to change the order of an element, beside moving it: 64 shuffles transpose a square of
16x16, and stores that lie in two lines take as long again."""
CALL = 2e-7
"""Seconds to call a generated kernel."""


@dataclass(frozen=True)
class Work:
    """What a generated kernel does at the least."""

    products: float
    """Multiply-adds."""
    bits: int
    """Of an element that is multiplied, at the least."""
    weights: float
    """Bytes of the constants that it reads."""

    def seconds(self, target: Target) -> float:
        """What that takes at the least: products at the peak, constants from memory."""
        cycles = self.products / (target.lanes(self.bits) * target.fma_ports)
        cycles = max(cycles, self.weights / target.memory_bandwidth)
        return CALL + cycles / (target.ghz * 1e9)


def bytes_of(value: SSAValue) -> int:
    """Bytes of a tensor's elements, of the usual size, in the precision of its place if it has
    one."""
    type, place = tensor_type(value), place_of(value.type)
    element = ELEMENTS[place.precision.data] if place else element_of(type)
    return element.bytes(estimated(product(shape_of(type))))


def moving(read: int, written: int, target: Target) -> float:
    """Seconds to read and write so many bytes.

    Beyond the second level, a written line is first read, and written back later.
    """
    size = read + written
    allocated = written if target.is_far(size) else 0
    return (size + allocated) / (target.bandwidth(size) * target.ghz * 1e9)


def copying(op: NnOp, target: Target) -> float:
    """Seconds of a kernel that moves elements: the parts of the operands that it reads, and its
    results."""
    written = sum(map(bytes_of, op.results))
    read = min(written, sum(map(bytes_of, op.operands)))
    return CALL + moving(read, written, target)


def no_cost(op: NnOp, target: Target) -> float:
    """A view of memory costs nothing."""
    return 0.0
