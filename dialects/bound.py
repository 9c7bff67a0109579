"""A program specialised for values of its symbols: every size becomes a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp

from tessella.dialects.nn.traits import definitions
from tessella.dialects.sizes import declare_symbols, replace_sizes, symbols_in
from tessella.support.errors import InputError
from tessella.support.sizes import Size, Symbol, with_symbols


def bound(module: ModuleOp, values: Mapping[str, int]) -> ModuleOp:
    """Return a copy of a module in which each symbol is replaced by its value in ``values``, by
    name. Symbols that ops define may remain. A module without symbols is returned unchanged.

    Raises InputError if a value is absent or out of the symbol's range.
    """
    symbols = symbols_in(module)
    if not symbols:
        return module
    left = [symbol for symbol in defined_symbols(module) if symbol.name not in values]
    for symbol in symbols:
        if symbol not in left:
            _check(symbol, values)
    copy = module.clone()
    bind(copy, values)
    return copy


def bind(module: ModuleOp, values: Mapping[str, int]) -> None:
    """Replace symbols of a module by their values in ``values``, by name."""
    left = [symbol for symbol in symbols_in(module) if symbol.name not in values]
    declare_symbols(module, left)
    replace_sizes(module, lambda size: with_symbols(size, values))


def defined_symbols(module: ModuleOp) -> Sequence[Symbol]:
    """Return the symbols that ops of a module define."""
    return [each.symbol for op in module.walk() for each in definitions(op)]


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
