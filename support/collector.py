"""Python's cyclic garbage collector, kept from running while much is made that stays."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Generator[None]:
    """Collect no cycles for the length of a block: a compiler's IR is one large cycle, which each
    collection would go through for nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
