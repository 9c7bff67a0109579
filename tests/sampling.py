"""How much of a long sweep a test run takes: a fixed sample, or with ``--slow`` all of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

SLOW = "TESSELLA_SLOW_TESTS" in os.environ
"""Whether ``--slow`` was given: ``conftest.py`` records it, for processes that tests start too."""

_STEP = 4
_LEAST = 3


def sampled(count: int) -> int:
    """The number of cases to take of a sweep of so many: a quarter, but three at least."""
    return count if SLOW else max(count // _STEP, min(count, _LEAST))


def sample(cases: Sequence[T], turn: int = 0) -> Sequence[T]:
    """Every fourth of the cases. Sweeps that differ in their turn take others."""
    return cases if SLOW else cases[turn % _STEP :: _STEP]
