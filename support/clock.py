"""The clock that native code and Python share: nanoseconds that never go back."""

from __future__ import annotations

import time

ID = time.CLOCK_MONOTONIC
"""Its number, the first argument of ``clock_gettime``."""


def now() -> int:
    """The current time in nanoseconds."""
    return time.clock_gettime_ns(ID)
