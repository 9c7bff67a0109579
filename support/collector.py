"""Python's cyclic garbage collector, kept from running while much is made that stays."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager

_owners: set[int] = set()
"""The thread that has turned the collector off."""


@contextmanager
def no_collection() -> Generator[None]:
    """Collect no cycles for the length of a block: a compiler's IR is one large cycle, which each
    collection would go through for nothing."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    _owners.add(threading.get_ident())
    try:
        yield
    finally:
        _owners.clear()
        gc.enable()


def _enable_in_child() -> None:
    """The thread that would turn the collector on again is not in a forked child."""
    if _owners - {threading.get_ident()}:
        _owners.clear()
        gc.enable()


os.register_at_fork(after_in_child=_enable_in_child)
