"""Control of Python's cyclic garbage collector, which should not run while a compilation creates
many objects that stay in use."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager

FEW_WAITING, MOST_WAITING = 50_000, 1_000_000
"""Bounds on the number of objects that may wait for a collection. Between them, the limit is a
quarter of the objects that the last collection left, so that collections take a bounded share of
the time. The bounds are some 7 and 140 MB."""

MANY = 200_000
"""The number of waiting objects above which a collection is worth 50 ms or more of the compiling
thread."""

IMMORTAL = 10_000
"""A bound on the number of immortal objects. In each collection, CPython 3.12 moves them to the
frozen objects: a few hundred, where other code freezes hundreds of thousands."""

_waiting = 0
"""The number of objects that were set aside since the last collection."""

_most_waiting = FEW_WAITING
"""The number of waiting objects above which the next compilation starts with a collection."""

_frozen = False
"""True if other code has frozen objects. Once this is true, the number of frozen objects is not
queried again: the query takes longer the more objects are frozen, 30 ms for 350 000."""

_owners: set[int] = set()
"""The identifier of the thread that has turned the collector off; empty while it is on."""


@contextmanager
def no_collection() -> Generator[None]:
    """Disable the collection of cycles within a block: a compiler's IR is one large cycle, which
    each collection would traverse in vain. If earlier blocks have left many objects, these are
    collected first: memory then does not grow, and the collection does not delay a finished
    result."""
    if not gc.isenabled():
        yield
        return
    if _waiting > _most_waiting:
        _collect()
    gc.disable()
    _owners.add(threading.get_ident())
    try:
        try:
            yield
        finally:
            _set_aside()
    finally:  # an interrupt is unlikely to leave the collector off, as nothing here takes long
        _owners.clear()
        gc.enable()


def collect_many() -> None:
    """Collect cycles if many objects were set aside. Call it after dropping a large cycle."""
    if _waiting > MANY:
        _collect()


def _collect() -> None:
    global _waiting, _most_waiting
    gc.collect()
    _waiting = 0
    _most_waiting = min(max(FEW_WAITING, len(gc.get_objects()) // 4), MOST_WAITING)


def _set_aside() -> None:
    """Move all objects to the oldest generation, which is seldom collected. Otherwise the next new
    object would start a collection of everything that the block has created, which delays the
    first result of DenseNet-121 by 0.35 s."""
    global _frozen, _waiting
    _frozen = _frozen or gc.get_freeze_count() > IMMORTAL
    if _frozen:
        return  # objects that other code has frozen must stay frozen
    _waiting += gc.get_count()[0]
    gc.freeze()
    gc.unfreeze()


def _enable_in_child() -> None:
    """Turn the collector on in a forked child that lacks the thread which has turned it off."""
    if _owners - {threading.get_ident()}:
        _owners.clear()
        gc.enable()


os.register_at_fork(after_in_child=_enable_in_child)
