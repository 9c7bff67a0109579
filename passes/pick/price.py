"""The price of a candidate by the function that a caller gives as the option ``pick``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

from tessella.support.errors import OptionError, TessellaError
from tessella.support.foreign import is_of_handler


@dataclass(frozen=True)
class CandidateFacts:
    """The facts about a candidate: a kernel that can run an op at a place."""

    op: str
    """The name of the op, such as ``nn.conv``."""
    node: str
    """The name of the node, as ``explain()`` lists it."""
    kernel: str
    """The name of the kernel, such as ``winograd2``."""
    method: str | None
    """The kernel's algorithm or library, such as ``winograd`` or ``blas``; None without a name."""
    device: str
    precision: str
    layout: str
    operands: tuple[tuple[int, ...], ...]
    """The shapes of the operands. A symbolic size has the value for which costs are estimated."""
    results: tuple[tuple[int, ...], ...]
    """The shapes of the results."""
    seconds: float
    """tessella's cost of the candidate: the time of one call."""
    measured: bool
    """True if this time was measured on this machine."""

    @property
    def place(self) -> str:
        """The place of the kernel, such as ``x86/f32/nhwc``."""
        return f"{self.device}/{self.precision}/{self.layout}"

    def __str__(self) -> str:
        return f"{self.op} ({self.node}), kernel {self.kernel} at {self.place}"


PickFunction = Callable[[CandidateFacts], float]
"""A function that returns the price of a candidate, in seconds."""


def name_of(function: PickFunction) -> str:
    """Return the name of a function, or of the class of another callable object."""
    return getattr(function, "__name__", type(function).__name__)


def price_of(function: PickFunction, facts: CandidateFacts) -> float:
    """Return the price of a candidate. Raises OptionError if the function fails, or returns
    anything but a finite number from 0 on."""
    try:
        price: object = function(facts)
    except Exception as error:
        if isinstance(error, TessellaError | MemoryError) or is_of_handler(error):
            raise
        raise OptionError(
            f"the function {name_of(function)} of the option 'pick' raised "
            f"{type(error).__name__}: {error}",
            where=str(facts),
        ) from error
    if isinstance(price, bool) or not isinstance(price, Real):
        raise _wrong(function, facts, f"{price!r} of type {type(price).__name__}")
    if not 0 <= price < math.inf:
        raise _wrong(function, facts, repr(float(price)))
    return float(price)


def _wrong(function: PickFunction, facts: CandidateFacts, found: str) -> OptionError:
    return OptionError(
        f"the function {name_of(function)} of the option 'pick' returned no price",
        where=str(facts),
        expected="a finite number of seconds, from 0 on",
        found=found,
        hint="Options(kernels='-NAME') turns a kernel off",
    )


def check_monotone(
    function: PickFunction,
    shorter: tuple[CandidateFacts, float],
    longer: tuple[CandidateFacts, float],
) -> None:
    """Raise OptionError if the price of a candidate is lower for a longer time. The facts, each
    with their price, differ in ``seconds`` only."""
    (before, low), (after, high) = shorter, longer
    if high < low:
        raise OptionError(
            f"the function {name_of(function)} of the option 'pick' is not monotone in `seconds`",
            where=str(after),
            expected=f"at least {low:g} for {after.seconds:g} s, as it is {low:g} for "
            f"{before.seconds:g} s",
            found=f"{high:g}",
            hint="a candidate is left out if the price for a lower bound on its time is too high",
        )
