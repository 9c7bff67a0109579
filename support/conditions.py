"""Conditions: comparisons of sizes whose truth may depend on the values of symbols.

``a < b`` of two sizes (``support/sizes.py``) is a ``Condition`` if it depends on symbols.
``decided`` returns its truth, and raises ``UndecidedSizeError`` if that depends on the symbols'
values; ``always`` says whether it is true for all values. A compilation that raises starts again
with numbers for the symbols.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from tessella.support.errors import TessellaError


class UndecidedSizeError(TessellaError):
    """The answer to a question depends on the values of symbols.

    ``symbols`` are the names of these symbols. ``turn`` is the value of a single symbol at which
    the answer changes; None if there are several symbols, or if this value is not known. ``apart``
    is the difference of two sizes that the question compares for equality; 0 for other questions.
    """

    def __init__(
        self, what: str, symbols: Iterable[str], turn: int | None = None, apart: object = 0
    ) -> None:
        self.symbols = frozenset(symbols)
        self.turn = turn
        self.apart = apart
        super().__init__(what, hint="the program is compiled for the numbers instead")


class Apart(Protocol):
    """The difference of two sizes, as a condition needs it."""

    @property
    def negative(self) -> bool | None:
        """True if the difference is below 0 for all values of the symbols, False if it is for none,
        and None if neither is known."""
        ...

    @property
    def names(self) -> frozenset[str]:
        """The names of the symbols in the difference."""
        ...

    @property
    def sign_changes(self) -> int | None:
        """The value of the difference's only symbol at which the sign changes; None if this is not
        known."""
        ...


@dataclass(frozen=True)
class Condition:
    """A comparison of two sizes, true for all, some or no values of their symbols.

    Call `decided` or `always` to turn it into a `bool`.
    """

    left: object
    relation: str
    right: object
    apart: Apart
    """A difference that is negative exactly where the condition is true."""

    @property
    def holds(self) -> bool | None:
        """True if the condition is true for all values of the symbols, False if it is for none, and
        None if neither is known."""
        return self.apart.negative

    def undecided(self) -> UndecidedSizeError:
        what = f"{self.left} {self.relation} {self.right} holds for some sizes only"
        return UndecidedSizeError(what, self.apart.names, self.apart.sign_changes)

    def __bool__(self) -> object:
        """Decide the condition, for callers such as `sorted` that compare values themselves.

        The annotated type is not `bool`, so that type checkers refuse ``if a < b`` and ask for
        `decided` or `always`.
        """
        return decided(self)


def decided(condition: bool | Condition) -> bool:
    """Return whether a condition is true. Raises UndecidedSizeError if that depends on symbols'
    values."""
    if condition is True or condition is False:
        return condition
    holds = condition.holds
    if holds is None:
        raise condition.undecided()
    return holds


def always(condition: bool | Condition) -> bool:
    """Return whether a condition is known to be true for all values."""
    return condition.holds is True if isinstance(condition, Condition) else condition
