"""How much of a long sweep a test run takes: a fixed sample, or with ``--slow`` all of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")

SLOW = "TESSELLA_SLOW_TESTS" in os.environ
"""Whether ``--slow`` was given, which ``conftest.py`` records before any test is imported."""


def sized(sample: int, whole: int) -> int:
    """The size of a sweep."""
    return whole if SLOW else sample


def examples(sample: int, whole: int) -> settings:
    """Hypothesis' settings for a sweep of this many examples."""
    return settings(max_examples=sized(sample, whole))


def some(items: Sequence[T], sample: int) -> Sequence[T]:
    """As many of the items, evenly spread, the first one among them."""
    return items if SLOW else items[:: max(1, -(-len(items) // sample))]
