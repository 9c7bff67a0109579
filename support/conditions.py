"""Conditions: comparisons of sizes that may hold for some values of the symbols only.

``a < b`` of two sizes (``support/sizes.py``) is a ``Condition`` where it depends on symbols.
``decided`` gives its truth, and raises ``UndecidedSizeError`` where it holds for some values only;
``always`` says whether it holds for all values. A program that raises is compiled for numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from tessella.support.errors import TessellaError


class UndecidedSizeError(TessellaError):
    """A number or a decision was needed that some values of symbols would change.

    ``symbols`` are their names. ``turn`` is where a decision changes that one symbol alone makes:
    it is another one from this value on.
    """

    def __init__(self, what: str, symbols: Iterable[str], turn: int | None = None) -> None:
        self.symbols = frozenset(symbols)
        self.turn = turn
        super().__init__(what, hint="the program is compiled for the numbers instead")


class Apart(Protocol):
    """How far two sizes are apart: what a condition asks of their difference."""

    @property
    def negative(self) -> bool | None:
        """Whether it is below 0, for all values or for none; None if neither is known."""
        ...

    @property
    def names(self) -> frozenset[str]:
        """The symbols that it depends on."""
        ...

    @property
    def sign_changes(self) -> int | None:
        """The value of its one symbol from which on it is negative, or is not any more."""
        ...


@dataclass(frozen=True)
class Condition:
    """An ordering of two sizes. `decided` and `always` say what it counts for if it holds for some
    values of symbols only."""

    left: object
    relation: str
    right: object
    apart: Apart
    """Negative where the condition holds."""

    @property
    def holds(self) -> bool | None:
        """Whether the condition holds for all values or for none; None if neither is known."""
        return self.apart.negative

    def undecided(self) -> UndecidedSizeError:
        what = f"{self.left} {self.relation} {self.right} holds for some sizes only"
        return UndecidedSizeError(what, self.apart.names, self.apart.sign_changes)

    def __bool__(self) -> object:
        """For what compares inside, as sorting does: no `bool`, so that type checkers refuse a
        condition of code that does not say what it counts for."""
        return decided(self)


def decided(condition: bool | Condition) -> bool:
    """Whether a condition holds. Raises UndecidedSizeError where it does for some values only."""
    if condition is True or condition is False:
        return condition
    holds = condition.holds
    if holds is None:
        raise condition.undecided()
    return holds


def always(condition: bool | Condition) -> bool:
    """Whether a condition is known to hold for all values."""
    return condition.holds is True if isinstance(condition, Condition) else condition
