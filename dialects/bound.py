"""A program specialised for values of its symbols: every size becomes a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp

from tessella.dialects.sizes import declare_symbols, replace_sizes, symbols_in
from tessella.support.errors import InputError
from tessella.support.sizes import Size, Symbol, value_of


def bound(module: ModuleOp, values: Mapping[str, int]) -> ModuleOp:
    """Return a copy of a module in which each symbol is replaced by its value in ``values``, by
    name. A module without symbols is returned unchanged.

    Raises InputError if a value is absent or out of the symbol's range.
    """
    symbols = symbols_in(module)
    if not symbols:
        return module
    for symbol in symbols:
        _check(symbol, values)
    copy = module.clone()
    declare_symbols(copy, ())

    replace_sizes(copy, lambda size: value_of(size, values))
    return copy


def bound_by(
    symbols: Sequence[Symbol], shapes: Sequence[tuple[Sequence[Size], Sequence[int]]]
) -> dict[str, int]:
    """Return the values of symbols by name, computed by comparing the declared shapes with the
    actual ones.

    Only a declared dimension that consists of one symbol determines a value.
    """
    plain = {symbol.size: symbol.name for symbol in symbols}
    pairs = (pair for declared, found in shapes for pair in zip(declared, found, strict=False))
    return {plain[size]: number for size, number in pairs if size in plain}


def _check(symbol: Symbol, values: Mapping[str, int]) -> None:
    value = values.get(symbol.name)
    if value is None or not symbol.low <= value <= symbol.high:
        raise InputError(
            f"a size out of range: {symbol}",
            expected=f"{symbol.low} to {symbol.high}",
            found=str(value),
        )
