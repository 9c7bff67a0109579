"""Packed weights on disk, keyed by content: the programs of a model for all shapes share them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tessella.runtime import sharing
from tessella.support.disk import Folder

Array = npt.NDArray[np.uint8]

FOLDER = Folder("weights", 43 / 64)


class MissingError(Exception):
    """The error that weights of a cached program are missing."""


def keep(array: Array) -> str:
    """Store an array of bytes on disk if possible. Returns its name, the SHA-256 of the bytes."""
    name = hashlib.sha256(array.data).hexdigest()
    sharing.named[name] = array
    if not FOLDER.has(name, array.size):
        FOLDER.put(name, array.data)
    return name


def find(wanted: Sequence[tuple[str, int]]) -> list[Array]:
    """Return the arrays with these names and sizes, from programs of this process or from disk.

    Raises MissingError if an array is neither in this process nor on disk.
    """
    found = {name: sharing.named.get(name) for name, _ in wanted}
    sizes = {name: size for name, size in wanted if found[name] is None}
    for name, room in zip(sizes, sharing.placed([*sizes.values()]), strict=True):
        found[name] = sharing.named[name] = _read(name, room)
    arrays = [array for name, _ in wanted if (array := found[name]) is not None]
    return sharing.adopted(arrays)


def _read(name: str, room: Array) -> Array:
    def exactly(size: int) -> memoryview:
        if size != room.size:
            raise ValueError(f"{size} bytes where {room.size} were kept")
        return room.data

    if FOLDER.read(name, exactly) is None:
        raise MissingError(name)
    return room
