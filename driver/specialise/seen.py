"""Shapes that vary between calls: which sizes become symbols."""

from __future__ import annotations

from collections.abc import Mapping

from tessella.runtime.signature import Dimensions
from tessella.support import fork


class Seen:
    """Shapes that are known only at run time.

    A size is a number until it takes another value, and a symbol afterwards. Sizes that have always
    been equal share a symbol.
    """

    def __init__(self) -> None:
        self._lock = fork.Lock()
        self._known: dict[tuple[str, int, int], int | str] = {}
        """The number or the symbol of each size, by name, rank and dimension."""

    def shapes(self, found: Mapping[str, tuple[int, ...]]) -> Mapping[str, Dimensions]:
        """Return the shapes of a call by name, with symbols for sizes that have varied so far."""
        sizes = {(n, len(s), axis): size for n, s in found.items() for axis, size in enumerate(s)}
        with self._lock:
            groups = {at: (self._known.get(at, size), size) for at, size in sizes.items()}
            named: dict[tuple[int | str, int], int | str] = {}
            for at, (before, size) in groups.items():
                named.setdefault((before, size), size if before == size else f"{at[0]}:{at[2]}")
            known = {at: named[group] for at, group in groups.items()}
            self._known |= known
        return {n: tuple(known[n, len(s), i] for i in range(len(s))) for n, s in found.items()}
