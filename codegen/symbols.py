"""Names for linking, so that the LLVM text of a kernel does not depend on its name in a program.

    define void @"conv_relu_12"(...)    ->    define void @"tessella.function..."(...)

A module is compiled with PLACEHOLDER as its name, so that equal kernels are compiled once, whatever
program they are from. The linker replaces the placeholder by a symbol.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tessella.codegen.lltypes import quote

PLACEHOLDER = "tessella.function.00000000"
BODY = ".body"
"""Suffix of the body of a kernel or segment, which is its own function."""
PHASE = ".phase"
"""Suffix of the phase of a segment with a single phase."""

_SYMBOL = re.compile(r'@(?:"([^"]*)"|([-\w.$]+))')


def linked_names(names: Iterable[str]) -> dict[str, str]:
    """Return a symbol for each module's name, under which other modules call it."""
    return {name: f"{PLACEHOLDER[:-8]}{number:08x}" for number, name in enumerate(names, start=1)}


def nameless(name: str, text: str, linked: Mapping[str, str] | None = None) -> str:
    """Return a module's text with PLACEHOLDER for its own name and linked symbols for other
    names."""
    symbols = {**(linked or {}), name: PLACEHOLDER}
    ends = ("", BODY, PHASE)
    new = {_escaped(old + end): symbol + end for old, symbol in symbols.items() for end in ends}

    def replaced(found: re.Match[str]) -> str:
        symbol = new.get(found[1] or found[2])
        return found[0] if symbol is None else f'@"{symbol}"'

    return _SYMBOL.sub(replaced, text)


def _escaped(name: str) -> str:
    return quote(name)[1:-1]
