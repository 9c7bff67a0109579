"""The cost of a kernel for an op whose sizes are numbers, in seconds.

A kernel declares its cost, or has a lowering. In the second case, the op is lowered
(``scratch.py``), the pipeline's kernel passes run on it, and the tile model estimates the result.
As that takes milliseconds, ops with equal keys (``cost_key.py``) share an estimate.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

from xdsl.ir import SSAValue

from tessella.dialects.elements import element_of
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.core import NnOp, shape_of
from tessella.dialects.nn.elementwise import ElementwiseOp
from tessella.dialects.place import PlaceAttr, is_apart
from tessella.kernels.cost import CALL, moving
from tessella.kernels.registry import Kernel
from tessella.passes.pick.cost_key import CostKey, cost_key, exact_key
from tessella.passes.pick.device_cost import device_seconds
from tessella.passes.pick.scratch import scratch_kernel
from tessella.passes.pick.usual import stored_op
from tessella.passes.tile.cost import cost_after
from tessella.passes.tile_stage import kernel_passes
from tessella.support.elements import ELEMENTS
from tessella.support.sizes import estimated
from tessella.support.tables import of_compilations, remembered
from tessella.targets import Target

MAX_KEPT = 1 << 16
"""The most estimates that a compilation caches."""

_ESTIMATES: dict[Hashable, KernelEstimate] = of_compilations(512)  # some 1 KB each


@dataclass(frozen=True)
class KernelEstimate:
    """The cost of a generated kernel."""

    seconds: float
    """Seconds of one call of the kernel."""
    weights: float
    """Bytes of the constants that the kernel reads."""

    def scaled(self, factor: float) -> KernelEstimate:
        """Scale the estimate to an op that is larger by a factor."""
        return KernelEstimate(factor * self.seconds, factor * self.weights)


@dataclass(frozen=True)
class SizedCost:
    """The costs of the kernels of one op without symbols on a machine."""

    op: NnOp
    target: Target
    shared: bool
    """True if constants are packed as programs for other sizes pack them."""

    @cached_property
    def _key(self) -> tuple[CostKey, float]:
        return cost_key(self.op)

    def at_least(self, kernel: Kernel, place: PlaceAttr) -> float:
        """Return a lower bound on the estimates of a kernel at a place's precision."""
        return 0.0 if kernel.work is None else kernel.work(self._at(place)).seconds(self.target)

    def weights(self, kernel: Kernel, place: PlaceAttr) -> float:
        """Return the bytes of the weights, packed or transformed, that a generated kernel reads."""
        if kernel.work is not None:
            return kernel.work(self._at(place)).weights
        return self.estimate(kernel, place).weights

    def modelled(self, kernel: Kernel, place: PlaceAttr) -> float:
        """Return the estimated seconds of one call of a kernel at a place."""
        if is_apart(place.device.data) and kernel.lower is not None:
            return device_seconds(self.op, kernel, place)
        if kernel.cost is not None:
            return kernel.cost(self._at(place), self.target)
        return CALL + self.estimate(kernel, place).seconds

    def _at(self, place: PlaceAttr) -> NnOp:
        """Return the op with floats stored as a place says."""
        return stored_op(self.op, place.precision.data)

    def fused_seconds(self, kernel: Kernel, place: PlaceAttr, value: SSAValue) -> float:
        """Return the seconds saved if an elementwise op takes an operand in registers.

        These are the seconds of the call, and of writing and reading the value, but at most the
        cost of the op. The tile model's estimates contain all three.
        """
        element = ELEMENTS[element_of(value.type).name]
        stored = ELEMENTS.get(place.precision.data, element) if element.is_float else element
        size = stored.bytes(estimated(math.prod(shape_of(value))))
        saved = CALL + moving(size, size, self.target)
        return (
            saved if kernel.cost is None else min(saved, kernel.cost(self._at(place), self.target))
        )

    def estimate(self, kernel: Kernel, place: PlaceAttr) -> KernelEstimate:
        """Return the cost of a generated kernel at a place."""
        (cost, scale), op = self._key, self.op
        if place.layout.is_split:  # a rounded extent may not split into the digits
            cost, scale = exact_key(op), 1.0
        if not layout_matters(kernel, op):
            place = place.replaced(layout=NCHW)
        shared = self.shared
        key = (cost, kernel, place, self.target, shared)

        def make() -> KernelEstimate:
            scratch = scratch_kernel(cost, op, kernel, place)
            found = cost_after(kernel_passes(shared=shared), scratch, self.target)
            return KernelEstimate(found.seconds, found.weights)

        return remembered(_ESTIMATES, key, MAX_KEPT, make).scaled(scale)


def layout_matters(kernel: Kernel, op: NnOp) -> bool:
    """Return whether a kernel's cost depends on its layout."""
    return kernel.cost is None and not isinstance(op, ElementwiseOp)
