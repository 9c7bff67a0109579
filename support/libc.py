"""Functions of the C library, for native code and for ctypes."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from tessella.support.errors import ResourceError


@functools.cache
def function(name: str) -> Any:
    """Return a function of the C library, shared by all callers; None if the library lacks it."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):
        return None


def address(name: str) -> int:
    """Return the address of a function. Raises ResourceError if the C library lacks it."""
    found = ctypes.cast(function(name), ctypes.c_void_p).value
    if not found:
        raise ResourceError(
            f"the C library has no function {name!r}",
            hint="native code runs on Linux, with glibc or musl",
        )
    return found
