"""Python's collector of garbage in processes that run tests."""

from __future__ import annotations

import gc

THRESHOLDS = 100_000, 20, 20
"""The thresholds of the collector: 100,000 objects are some 15 MB."""


def collect_seldom() -> None:
    """Leave all objects so far alone, and collect others seldom. With Python's thresholds, the
    collector goes through all modules several times while they are imported."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
