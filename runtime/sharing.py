"""Constants that programs share: equal constants are in memory once, as long as a program reads
them.

New constants are placed one after another in one block, as a huge page serves several of them. The
pages of each constant are returned to the system when no program reads it any more, even if other
constants of its block are still in use.
"""

from __future__ import annotations

import weakref
from collections.abc import MutableMapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from tessella.runtime.arena import ALIGNMENT, address, aligned
from tessella.runtime.elements import bytes_of
from tessella.support.memory import discard, give_back

Array = npt.NDArray[Any]
Key = tuple[int, int]
"""The size of an array in bytes, and a hash of a sample of its bytes."""

_SAMPLES = 1024
"""Bytes of an array that are sampled before it is compared with another one as a whole."""

_KEPT = 32 << 20
"""Freed bytes after which the C library is told to return memory."""

_shared: MutableMapping[Key, Array] = WeakValueDictionary()
"""The shared arrays of bytes, by key. Among several arrays with the same key, only the latest is
found."""

named: MutableMapping[str, Array] = WeakValueDictionary()
"""Shared arrays of bytes, by the SHA-256 of their content."""


def packed(arrays: list[Array]) -> list[Array]:
    """Return the bytes of each array, aligned to ``ALIGNMENT``; they are shared and must not be
    modified.

    The list is emptied: each array is released once its bytes are copied. Raises ResourceError if
    memory is short.
    """
    missing: dict[Key, Array] = {}
    chosen = [_first(bytes_of(array), _shared, missing) for array in arrays]
    new: dict[int, list[int]] = {}
    for place, flat in enumerate(chosen):
        if _shared.get(_key(flat)) is not flat:
            new.setdefault(id(flat), []).append(place)
    rooms = placed([chosen[places[0]].size for places in new.values()])
    arrays.clear()
    missing.clear()
    freed = 0
    for room, places in zip(rooms, new.values(), strict=True):
        room[:] = chosen[places[0]]
        _shared[_key(room)] = room
        for place in places:
            chosen[place] = room
        freed += room.size
        if freed > _KEPT:
            give_back()
            freed = 0
    return chosen


def placed(sizes: Sequence[int]) -> list[Array]:
    """Return arrays of these sizes in bytes, aligned to ``ALIGNMENT``, in one block.

    The whole pages of an array are returned to the system once nothing refers to it. Raises
    ResourceError if memory is short.
    """
    block, end = aligned(sum(map(_room, sizes))), 0
    arrays: list[Array] = []
    for size in sizes:
        # The base is a memoryview, so that views of the array refer to the array: if the base were
        # the block, views would refer to the block.
        array = np.frombuffer(block.data[end : end + size], np.uint8)
        weakref.finalize(array, _discard, block, end, size).atexit = False
        arrays.append(array)
        end += _room(size)
    return arrays


def _discard(block: Array, start: int, size: int) -> None:
    discard(address(block) + start, size)


def adopted(flats: Sequence[Array]) -> list[Array]:
    """Return, for each array of bytes, an equal array that a program already has, or the array
    itself.

    All arrays must be aligned to ``ALIGNMENT`` and no longer be modified.
    """
    return [_first(flat, _shared) for flat in flats]


def _first(flat: Array, *tables: MutableMapping[Key, Array]) -> Array:
    """Return an array of the tables that equals ``flat``; if there is none, add ``flat`` to the
    last table and return it."""
    key = _key(flat)
    for table in tables:
        known = table.get(key)
        if known is not None and (known is flat or np.array_equal(known, flat)):
            return known
    tables[-1][key] = flat
    return flat


def _key(flat: Array) -> Key:
    step = flat.size // _SAMPLES + 1
    return flat.size, hash(flat[::step].tobytes())


def _room(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
