"""The weight store: a program's constant tensors beside its IR, keyed by symbol."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from tessella.runtime.elements import packed
from tessella.support.errors import InvalidModelError
from tessella.support.files import regular
from tessella.support.foreign import is_foreign

Array = npt.NDArray[Any]

_KEY = "w:"  # prevents a symbol from colliding with an argument name of savez
_MOST = 1024  # characters of a symbol: archives limit names to 64 KiB, without null characters


class WeightStore:
    """Arrays by symbol, as they are in memory. They are shared, and never modified once stored."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        self._suffixes: dict[str, int] = {}

    def __contains__(self, symbol: str) -> bool:
        return symbol in self._arrays

    def __getitem__(self, symbol: str) -> Array:
        return self._arrays[symbol]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def get(self, symbol: str) -> Array | None:
        """Return the array; None if the store lacks the symbol."""
        return self._arrays.get(symbol)

    def add(self, hint: str, array: Array) -> str:
        """Store an array under ``hint``, or ``hint_1``, ``hint_2``... if that is taken, and return
        the symbol.

        Numbers of fewer than 8 bits, and strings, are packed into a flat array of bytes.
        """
        symbol = hint = hint.replace("\0", "")[:_MOST] or "weight"
        while symbol in self._arrays:
            self._suffixes[hint] = self._suffixes.get(hint, 0) + 1
            symbol = f"{hint}_{self._suffixes[hint]}"
        self._arrays[symbol] = packed(array)
        return symbol

    def copy(self) -> WeightStore:
        """Return a copy of the store with the same arrays."""
        other = WeightStore()
        other._arrays = dict(self._arrays)
        other._suffixes = dict(self._suffixes)
        return other

    def drop(self, symbol: str) -> None:
        """Remove an array, if the store has it."""
        self._arrays.pop(symbol, None)

    def keep(self, symbols: set[str]) -> None:
        """Remove all arrays that ``symbols`` does not name."""
        self._arrays = {k: v for k, v in self._arrays.items() if k in symbols}

    def nbytes(self) -> int:
        """Return the total size of the arrays in bytes."""
        return sum(array.nbytes for array in self._arrays.values())

    def save(self, path: str | Path) -> None:
        """Write the store as an uncompressed ``.npz`` archive at exactly this path."""
        with open(path, "wb") as file:
            np.savez(file, allow_pickle=False, **{_KEY + k: v for k, v in self._arrays.items()})

    @staticmethod
    def load(path: str | Path) -> WeightStore:
        """Return the store in a file that ``save`` has written. Raises InvalidModelError for any
        other file; never unpickles."""
        store = WeightStore()
        try:
            with regular(path).open("rb") as file:
                for name, array in _entries(file):
                    store._arrays[name.removeprefix(_KEY)] = array
        except Exception as error:
            if is_foreign(error):
                raise
            # NumPy and zipfile document no exceptions for damaged archives.
            raise InvalidModelError(
                f"cannot read the weights: {error}",
                where=str(path),
                expected="the .weights file that was written beside the stage's text",
            ) from error
        return store


def _entries(file: IO[bytes]) -> Iterator[tuple[str, Array]]:
    """Yield the arrays of an ``.npz`` archive.

    Raises ValueError if the arrays take more memory than the file has bytes: compressed entries, or
    entries that overlap.
    """
    with zipfile.ZipFile(file) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
        if size > os.fstat(file.fileno()).st_size:
            raise ValueError(f"it unpacks to {size} bytes, more than it has")
        for entry in archive.infolist():
            with archive.open(entry) as member:
                array = np.lib.format.read_array(member, allow_pickle=False)
                yield entry.filename.removesuffix(".npy"), np.asarray(array, order="C")
