"""The share of a long sweep that a test run takes: a fixed sample, or all of it with ``--slow``."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any, TypeVar

import pytest

from tests.models import HEAVY

T = TypeVar("T")

SLOW = "TESSELLA_SLOW_TESTS" in os.environ
"""True if ``--slow`` was given: ``conftest.py`` records it, for processes that tests start too."""

_STEP = 6
_LEAST = 2


def sampled(count: int) -> int:
    """The number of cases to take of a sweep of so many: a sixth, but two at least."""
    return count if SLOW else max(count // _STEP, min(count, _LEAST))


def seeds(count: int) -> Sequence[int]:
    """The seeds of so many random cases, or of the sample of them."""
    return range(sampled(count))


def sample(cases: Sequence[T], turn: int = 0) -> Sequence[T]:
    """Every sixth of the cases. Sweeps that differ in their turn take others."""
    return cases if SLOW else cases[turn % min(_STEP, len(cases)) :: _STEP]


def alternate(cases: Sequence[T], turn: int) -> Sequence[T]:
    """The sample of a sweep that several targets run, each in its turn: half of the cases with
    ``--slow``, so that neighbours in the order of targets have all of them."""
    return cases[turn % 2 :: 2] if SLOW else sample(cases, turn)


def sized(names: Sequence[str], quick: Collection[str] = ()) -> list[Any]:
    """The names of models as parameters of a test. Those that take long run with ``--slow``: heavy
    ones, or all but the quick ones that are given."""
    slow = set(names) - set(quick) if quick else HEAVY
    return [pytest.param(n, marks=pytest.mark.slow) if n in slow else n for n in names]
