"""Symbols that equal sums of others in some calls, such as the length of a mask, which is the sum
of the lengths that it covers."""

from __future__ import annotations

from collections.abc import Mapping, Set

from tessella.support.conditions import UndecidedSizeError
from tessella.support.sizes import (
    MOST,
    Size,
    Symbol,
    expression,
    symbols_of,
    terms_of,
    value_of,
    with_symbols,
)


class Sums:
    """The sums of symbols that another symbol has equalled in some calls. Programs for such calls
    contain the sum instead of this symbol. Symbols in sums have no bounds, and equal no sums
    themselves."""

    def __init__(self) -> None:
        self.known: dict[str, list[Size]] = {}
        """The sums that each symbol has equalled in some calls, by the name of the symbol."""

    def equal(self, symbol: str, size: int, numbers: Mapping[str, int]) -> Size | None:
        """Return a sum that has the value ``size`` where symbols have the values ``numbers``; None
        if the symbol equals no sum."""
        sums = self.known.get(symbol, ())
        return next((each for each in sums if value_of(each, numbers) == size), None)

    def learn(self, symbols: Set[Symbol], error: Exception) -> bool:
        """Learn a sum from an error that says that the compiler has to decide whether one of
        ``symbols`` equals it.

        Returns False for other errors, and for a sum that is known already: the sizes that are
        being compiled then do not have this relation.
        """
        apart = expression(error.apart) if isinstance(error, UndecidedSizeError) else None
        if apart is None:
            return False
        for symbol in sorted(symbols, reverse=True):
            equal, sums = _solved(apart, symbol), self.known.get(symbol.name, [])
            if equal is None or equal in sums or not self._is_independent(symbol, equal):
                continue
            self.known[symbol.name] = [*sums, equal]
            return True
        return False

    def _is_independent(self, symbol: Symbol, equal: Size) -> bool:
        """Return whether no sum would contain a symbol that has a sum."""
        used = symbols_of(each for sums in self.known.values() for each in sums)
        names = {each.name for each in symbols_of([equal])}
        return symbol.name not in {each.name for each in used} and not names & self.known.keys()


def _solved(apart: Size, symbol: Symbol) -> Size | None:
    """Return the size that a symbol has where ``apart`` is 0, if it is a sum with other symbols;
    None otherwise."""
    factor = terms_of(apart).get((symbol,), 0)
    if abs(factor) != 1:
        return None
    rest = symbol.size - factor * apart
    others = symbols_of([rest])
    if not others or symbol in others or min(terms_of(rest).values()) < 0:
        return None
    return with_symbols(rest, {each.name: Symbol(each.name, 0, MOST).size for each in others})
