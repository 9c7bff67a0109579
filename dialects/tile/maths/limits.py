"""Limits on contractions. Programs are untrusted: one that exceeds a limit raises an error."""

from __future__ import annotations

from collections.abc import Iterable

from tessella.support.errors import ResourceError

MAX_INDICES = 32
"""The maximum number of indices of a contraction."""
MAX_FORMS = 256
"""The maximum of the number of dimensions of all tensors of a contraction plus the number of its
constraints."""
MAX_NUMBER = 1 << 62
"""The limit on the absolute value of ranges and offsets, and of the numerators and denominators of
coefficients."""
MAX_STEPS = 1 << 18
"""The maximum number of numbers that the search for the ranges of one contraction computes, which
takes about a second."""


def check_count(what: str, count: int, limit: int) -> None:
    """Raise `ResourceError` if ``count`` exceeds ``limit``. ``what`` names the counted items."""
    if count > limit:
        raise ResourceError(
            f"a contraction has too many {what}", expected=f"at most {limit}", found=str(count)
        )


def check_numbers(numbers: Iterable[int], where: object) -> None:
    """Raise `ResourceError` if the absolute value of a number reaches ``MAX_NUMBER``. ``where`` is
    shown in the error."""
    if any(not -MAX_NUMBER < x < MAX_NUMBER for x in numbers):
        raise ResourceError(
            "a contraction leads to numbers that are too large",
            where=str(where)[:200],
            expected="numbers of less than 2^62",
        )


class Budget:
    """The remaining budget of the search for the ranges of a contraction, in computed numbers."""

    def __init__(self, limit: int = MAX_STEPS) -> None:
        self.left = limit

    def spend(self, numbers: int) -> None:
        """Subtract ``numbers`` from the budget. Raises `ResourceError` if it falls below 0."""
        self.left -= numbers
        if self.left < 0:
            raise ResourceError(
                "the ranges of a contraction's indices take too long to find",
                hint="write it with fewer indices, smaller coefficients, or explicit constraints",
            )
