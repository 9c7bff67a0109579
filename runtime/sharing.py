"""Constants that programs share: equal ones are in memory once, as long as a program reads them.

New constants are placed one after another in one block, as large pages serve several of them. The
pages of each constant are given back when no program reads it any more, though others of its block
are still read.
"""

from __future__ import annotations

import weakref
from collections.abc import MutableMapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from tessella.runtime.arena import ALIGNMENT, address, aligned
from tessella.support.memory import discard, give_back

Array = npt.NDArray[Any]
Key = tuple[int, int]
"""The size of an array in bytes, and a hash of some of them."""

_SAMPLES = 1024
"""Bytes of an array that are looked at before it is compared with another as a whole."""

_KEPT = 32 << 20
"""Bytes that are freed before the C library is told to give them back."""

_shared: MutableMapping[Key, Array] = WeakValueDictionary()
"""Arrays of bytes. Of several with one key, only the latest is found."""

named: MutableMapping[str, Array] = WeakValueDictionary()
"""Arrays of bytes that have a name beside their content: such as they have on disk."""


def packed(arrays: list[Array]) -> list[Array]:
    """The bytes of each array, at a multiple of ``ALIGNMENT``; they are shared and must not be
    written to.

    The list is emptied: no array is held once its bytes are copied. Raises ResourceError.
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
    """Arrays of so many bytes, each at a multiple of ``ALIGNMENT``, in one block. The whole pages
    of an array are given back once nothing refers to it. Raises ResourceError."""
    block, end = aligned(sum(map(_room, sizes))), 0
    arrays: list[Array] = []
    for size in sizes:
        # its base is a memoryview, so that its own views refer to it: those of an array whose base
        # is the block would refer to the block
        array = np.frombuffer(block.data[end : end + size], np.uint8)
        weakref.finalize(array, _discard, block, end, size).atexit = False
        arrays.append(array)
        end += _room(size)
    return arrays


def _discard(block: Array, start: int, size: int) -> None:
    discard(address(block) + start, size)


def adopted(flats: Sequence[Array]) -> list[Array]:
    """For each array of bytes, an equal one that a program already has, or else the array itself.

    All start at multiples of ``ALIGNMENT``, and must no longer be written to.
    """
    return [_first(flat, _shared) for flat in flats]


def bytes_of(array: Array) -> Array:
    """The bytes of an array, in its own memory where it is contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _first(flat: Array, *tables: MutableMapping[Key, Array]) -> Array:
    """An equal array of the tables, or else this one, which is added to the last table."""
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
