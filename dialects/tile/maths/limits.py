"""Limits on contractions. Programs are untrusted: one that exceeds a limit raises an error."""

from __future__ import annotations

from collections.abc import Iterable

from tessella.support.errors import ResourceError

MAX_INDICES = 32
"""The most indices of a statement."""
MAX_FORMS = 256
"""The most dimensions of all tensors, plus constraints."""
MAX_NUMBER = 1 << 62
"""The limit on ranges and offsets, and on the numerators and denominators of coefficients."""
MAX_STEPS = 1 << 18
"""The most numbers computed to find the ranges of one contraction: about a second."""


def check_count(what: str, count: int, limit: int) -> None:
    """Raise `ResourceError` if there are more items than allowed."""
    if count > limit:
        raise ResourceError(
            f"a contraction has too many {what}", expected=f"at most {limit}", found=str(count)
        )


def check_numbers(numbers: Iterable[int], where: object) -> None:
    """Raise `ResourceError` if a number is larger than allowed."""
    if any(not -MAX_NUMBER < x < MAX_NUMBER for x in numbers):
        raise ResourceError(
            "a contraction leads to numbers that are too large",
            where=str(where)[:200],
            expected="numbers of less than 2^62",
        )


class Budget:
    """The remaining budget for finding the ranges of a contraction."""

    def __init__(self, limit: int = MAX_STEPS) -> None:
        self.left = limit

    def spend(self, numbers: int) -> None:
        """Raise `ResourceError` if the budget is spent."""
        self.left -= numbers
        if self.left < 0:
            raise ResourceError(
                "the ranges of a contraction's indices take too long to find",
                hint="write it with fewer indices, smaller coefficients, or explicit constraints",
            )
