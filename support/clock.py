"""The monotonic clock, in nanoseconds, that native code and Python share."""

from __future__ import annotations

import time

ID = time.CLOCK_MONOTONIC
"""The clock's number: the first argument of ``clock_gettime``."""


def now() -> int:
    """Return the current time of the monotonic clock, in nanoseconds."""
    return time.clock_gettime_ns(ID)
