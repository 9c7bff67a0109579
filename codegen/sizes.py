"""Sizes as run-time values: the symbols that a call passes, and expressions of them."""

from __future__ import annotations

from functools import partial, reduce

from tessella.codegen.lltypes import I64, LLValue, constant
from tessella.codegen.writer import Writer
from tessella.dialects.rt import SIZES_SLOT
from tessella.support.errors import InternalError
from tessella.support.sizes import Atom, Expr, Size, Symbol


def size_value(w: Writer, size: Size) -> LLValue:
    """Return a size as a value, computed at its first use in the function's entry block."""
    if not isinstance(size, Expr):
        return constant(I64, size)
    if size not in w.sizes:
        products = (
            reduce(partial(w.binary, "mul nsw"), _factors(w, atoms, factor))
            for atoms, factor in size.terms.items()
        )
        w.sizes[size] = reduce(partial(w.binary, "add nsw"), products)
    return w.sizes[size]


def _factors(w: Writer, atoms: tuple[Atom, ...], factor: int) -> list[LLValue]:
    numbers = [constant(I64, factor)] if factor != 1 or not atoms else []
    return [*(_atom(w, atom) for atom in atoms), *numbers]


def _atom(w: Writer, atom: Atom) -> LLValue:
    if atom not in w.sizes:
        if isinstance(atom, Symbol):
            w.sizes[atom] = _symbol(w, atom)
        else:
            w.sizes[atom] = floor_divide(w, size_value(w, atom.numerator), atom.divisor)
    return w.sizes[atom]


def _symbol(w: Writer, symbol: Symbol) -> LLValue:
    if symbol.name not in w.symbols:
        raise InternalError(f"the module declares no symbol {symbol.name!r}")
    slot = w.gep("%context", "i64", constant(I64, SIZES_SLOT))
    sizes = w.name()
    w.line(f"{sizes} = load ptr, ptr {slot}, align 8")
    place = w.gep(sizes, "i64", constant(I64, w.symbols.index(symbol.name)))
    return w.push(I64, f"load i64, ptr {place}, align 8")


def floor_divide(w: Writer, a: LLValue, divisor: int) -> LLValue:
    """Return a / divisor rounded down: a shift for powers of two, else `a < 0 ? -1 - (-1 - a) / d :
    a / d`."""
    if divisor & (divisor - 1) == 0:
        return w.binary("ashr", a, constant(I64, divisor.bit_length() - 1))
    minus = constant(I64, -1)
    negative = w.compare("icmp slt", a, constant(I64, 0))
    folded = w.select(negative, w.binary("sub nsw", minus, a), a)
    quotient = w.binary("sdiv", folded, constant(I64, divisor))
    return w.select(negative, w.binary("sub nsw", minus, quotient), quotient)
