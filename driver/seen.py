"""Shapes that vary from call to call: which sizes have names."""

from __future__ import annotations

from collections.abc import Mapping

from tessella.runtime.signature import Dimensions
from tessella.support import fork


class Seen:
    """Shapes that are only known when a program runs. A size is a number until it has another
    value; then it is a symbol. Sizes that were equal so far are one."""

    def __init__(self) -> None:
        self._lock = fork.Lock()
        self._known: dict[tuple[str, int, int], int | str] = {}
        """By name, number of dimensions, and dimension."""

    def shapes(self, found: Mapping[str, tuple[int, ...]]) -> Mapping[str, Dimensions]:
        """The shapes by name, as they can be said of all that were found so far."""
        sizes = {(n, len(s), axis): size for n, s in found.items() for axis, size in enumerate(s)}
        with self._lock:
            groups = {at: (self._known.get(at, size), size) for at, size in sizes.items()}
            named: dict[tuple[int | str, int], int | str] = {}
            for at, (before, size) in groups.items():
                named.setdefault((before, size), size if before == size else f"{at[0]}:{at[2]}")
            known = {at: named[group] for at, group in groups.items()}
            self._known |= known
        return {n: tuple(known[n, len(s), i] for i in range(len(s))) for n, s in found.items()}
