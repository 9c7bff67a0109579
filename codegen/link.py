"""Objects linked in memory, ready to be called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tessella.codegen.llvm import Linked
from tessella.support.errors import InternalError


class Library:
    """Linked code. It is freed with the last reference to the library: whoever calls, keeps it."""

    def __init__(self, linked: Linked, symbols: Iterable[str]) -> None:
        self._linked = linked
        self.symbols = tuple(symbols)

    def address(self, symbol: str) -> int:
        """Where a function starts. Raises InternalError for a symbol that was not linked."""
        if symbol not in self.symbols:
            raise InternalError(
                f"the library has no symbol {symbol!r}",
                expected=f"one of {', '.join(self.symbols)}",
            )
        return self._linked[symbol]


def link(objects: Mapping[str, bytes]) -> Library:
    """Link objects; each defines the symbol under which it is given, and may call the others.

    Every library has symbols of its own: several may define the same. Raises InternalError where a
    symbol is missing. About 1 ms, and 0.1 ms for each object.
    """
    return Library(Linked(list(objects.values()), list(objects)), objects)
