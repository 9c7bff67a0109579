"""The cost of a kernel for an op on a machine, in seconds.

The cost is a measured time (``targets.database``) or an estimate for concrete sizes
(``sized_cost.py``). For symbolic sizes, it is the geometric mean over a few numbers of their
ranges. The kernel with the least mean is that of least regret: the ratio of its cost to that of the
best kernel for the same numbers has the least mean, too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from xdsl.ir import SSAValue

from tessella.dialects.nn.core import NnOp, shape_of
from tessella.dialects.place import CopyOp, PlaceAttr, Step, conversion_steps, is_apart
from tessella.kernels.cost import CALL, SHUFFLING, bytes_of, moving
from tessella.kernels.registry import Kernel
from tessella.passes.pick.cost_key import op_text
from tessella.passes.pick.device_cost import copy_seconds
from tessella.passes.pick.price import CandidateFacts, PickFunction, check_monotone, price_of
from tessella.passes.pick.sized_cost import SizedCost
from tessella.passes.pick.usual import sampled_ops
from tessella.runtime.devices import device
from tessella.support.elements import ELEMENTS
from tessella.support.sizes import estimated
from tessella.targets import Target
from tessella.targets.database import Times, Timing

LONGER = (1, 2, 4, 8, 16)
"""The multiples of a lower bound for which the caller's function is asked for prices, to check that
they do not decrease."""


@dataclass(frozen=True)
class Prices:
    """The machine and the settings from which the costs of a program's kernels follow."""

    target: Target
    times: Times = field(default_factory=dict[str, Timing])
    """Measured times of this machine, which replace estimates."""
    shared: bool = False
    """True if constants are packed as programs for other sizes pack them."""
    function: PickFunction | None = None
    """The caller's function of the price of a candidate; None if its price is its cost."""
    contested: Collection[NnOp] = ()
    """The ops that several kernels can run. Symbolic sizes of other ops have their usual values
    alone, because one kernel in several layouts is about as good in each for all sizes."""
    known: dict[NnOp, dict[str, float]] = field(
        default_factory=dict[NnOp, dict[str, float]], compare=False
    )
    """The prices that the function has returned so far, by `conv at x86/f32/nhwc`."""

    def of(self, op: NnOp) -> OpCost:
        """Return the costs of the kernels of an op, which are computed when they are read."""
        return OpCost(op, self)


@dataclass(frozen=True)
class OpCost:
    """The costs of the kernels of one op on a machine."""

    op: NnOp
    prices: Prices

    @property
    def target(self) -> Target:
        return self.prices.target

    def measured(self, kernel: Kernel, place: PlaceAttr) -> float | None:
        """Return the measured seconds of one call of a kernel; None if it was not measured."""
        if not self.prices.times:
            return None
        timing = self.prices.times.get(timing_key(self._exact, kernel.name, place))
        return None if timing is None else CALL + timing.cycles / (self.target.ghz * 1e9)

    @cached_property
    def _exact(self) -> str:
        return op_text(self.op)

    @cached_property
    def sizes(self) -> Mapping[str, SizedCost]:
        """The costs at a few sizes, the usual ones first, by a text such as `n = 128`."""
        target, shared = self.target, self.prices.shared
        most = None if self.op in self.prices.contested else 1
        return {k: SizedCost(op, target, shared) for k, op in sampled_ops(self.op, most).items()}

    @property
    def _usual(self) -> SizedCost:
        return next(iter(self.sizes.values()))

    def seconds(self, kernel: Kernel, place: PlaceAttr, error: float = 1.0) -> float:
        """Return the seconds of one call at a place: measured, or the estimate times ``error``."""
        measured = self.measured(kernel, place)
        return error * self.modelled(kernel, place) if measured is None else measured

    def price(self, kernel: Kernel, place: PlaceAttr, error: float = 1.0) -> float:
        """Return what the pick compares: the caller's function of the seconds of one call, or the
        seconds if there is no function. Raises OptionError for a function that gives no price."""
        seconds, function = self.seconds(kernel, place, error), self.prices.function
        if function is None:
            return seconds
        facts = self._facts(kernel, place, seconds)
        price = price_of(function, facts)
        if (bound := self._bound(kernel, place, error)) is not None:
            check_monotone(function, bound, (facts, price))
        self.prices.known.setdefault(self.op, {})[f"{kernel.name} at {place}"] = price
        return price

    def least_price(self, kernel: Kernel, place: PlaceAttr, error: float = 1.0) -> float:
        """Return a lower bound on a candidate's price, which needs no estimate. Raises OptionError
        if the caller's function gives a lower price for a longer time."""
        measured = self.measured(kernel, place)
        if self.prices.function is None:
            return error * self.at_least(kernel, place) if measured is None else measured
        if measured is not None:
            return self.price(kernel, place)
        bound = self._bound(kernel, place, error)
        return 0.0 if bound is None else bound[1]

    def _bound(
        self, kernel: Kernel, place: PlaceAttr, error: float
    ) -> tuple[CandidateFacts, float] | None:
        """Return the facts for a lower bound on a candidate's time, with their price; None if there
        is no bound. The prices of longer times are compared with it."""
        function = self.prices.function
        if function is None or kernel.work is None or self.measured(kernel, place) is not None:
            return None
        seconds = error * self.at_least(kernel, place)
        facts = [self._facts(kernel, place, times * seconds) for times in LONGER]
        priced = [(each, price_of(function, each)) for each in facts]
        for shorter, longer in pairwise(priced):
            check_monotone(function, shorter, longer)
        return priced[0]

    def _facts(self, kernel: Kernel, place: PlaceAttr, seconds: float) -> CandidateFacts:
        return CandidateFacts(
            op=self.op.name,
            node=self.op.node,
            kernel=kernel.name,
            method=kernel.method,
            device=place.device.data,
            precision=place.precision.data,
            layout=str(place.layout),
            operands=tuple(_shapes(self.op.operands)),
            results=tuple(_shapes(self.op.results)),
            seconds=seconds,
            measured=self.measured(kernel, place) is not None,
        )

    def compared(self, sites: Sequence[tuple[Kernel, PlaceAttr]]) -> list[tuple[float, bool]]:
        """Return the price of each kernel at its place, and whether its time was measured."""
        error = self.error(sites)
        return [(self.price(*at, error), self.measured(*at) is not None) for at in sites]

    def error(self, sites: Sequence[tuple[Kernel, PlaceAttr]]) -> float:
        """Return the factor by which estimates are multiplied when they compete with measured
        times; 1 if no kernel was measured.

        It is the largest ratio of a measured time to its estimate, so that no unmeasured kernel
        wins only because the model underestimates all kernels.
        """
        known = ((self.measured(*site), site) for site in sites)
        wrong = (s / self.modelled(*site) for s, site in known if s is not None)
        return max(wrong, default=1.0)

    def at_least(self, kernel: Kernel, place: PlaceAttr) -> float:
        """Return a lower bound on the estimates of a kernel at a place's precision."""
        return _mean([each.at_least(kernel, place) for each in self.sizes.values()])

    def weights(self, kernel: Kernel, place: PlaceAttr) -> float:
        """Return the bytes of the weights, packed or transformed, that a generated kernel reads."""
        return self._usual.weights(kernel, place)

    def modelled(self, kernel: Kernel, place: PlaceAttr) -> float:
        """Return the estimated seconds of one call of a kernel at a place."""
        return _mean([each.modelled(kernel, place) for each in self.sizes.values()])

    def fused_seconds(self, kernel: Kernel, place: PlaceAttr, value: SSAValue) -> float:
        """Return the seconds saved if an elementwise op takes an operand in registers, at usual
        sizes."""
        return self._usual.fused_seconds(kernel, place, value)


def _mean(seconds: Sequence[float]) -> float:
    """Return the geometric mean of numbers from 0 on."""
    if len(seconds) == 1:
        return seconds[0]
    return 0.0 if 0 in seconds else math.exp(math.fsum(map(math.log, seconds)) / len(seconds))


def _shapes(values: Sequence[SSAValue]) -> Iterator[tuple[int, ...]]:
    """Yield the shapes of tensors, with usual values of symbols."""
    return (tuple(map(estimated, shape_of(value))) for value in values)


def timing_key(op: str, kernel: str, place: PlaceAttr) -> str:
    """Return the name of the timing of a kernel for an op, given as ``op_text``, at a place."""
    return f"{op} {kernel} at {place}"


def step_seconds(step: Step, value: SSAValue, start: PlaceAttr, target: Target) -> float:
    """Return the seconds of one conversion of a value: bytes read and written at the machine's
    bandwidth.

    It is 0 if memory does not change: between the host and a CPU, and between layouts with equal
    offsets.
    """
    kind, end = step
    shape = shape_of(value)
    if kind is CopyOp:
        return copy_seconds(start, end, bytes_of(value))
    if start.precision == end.precision and start.layout.same_memory(end.layout, shape):
        return 0.0
    size = estimated(math.prod(shape))
    if is_apart(start.device.data):
        stored = sum(ELEMENTS[place.precision.data].bytes(size) for place in (start, end))
        return device(start.device.data).facts.kernel_seconds(0, stored)
    read, written = (ELEMENTS[place.precision.data].bytes(size) for place in (start, end))
    cycles = size * SHUFFLING if start.layout != end.layout else 0.0
    return CALL + moving(read, written, target) + cycles / (target.ghz * 1e9)


def conversion_seconds(value: SSAValue, start: PlaceAttr, end: PlaceAttr, target: Target) -> float:
    """Return the seconds of all conversions of a value from one place to another."""
    steps = conversion_steps(start, end.resolved(start))
    starts = (start, *(place for _, place in steps))
    return sum(
        step_seconds(step, value, at, target) for step, at in zip(steps, starts, strict=False)
    )
