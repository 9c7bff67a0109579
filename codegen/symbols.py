"""Names for linking, so that the text of a kernel does not depend on its name in a program.

    define void @"conv_relu_12"(...)    ->    define void @"tessella.function..."(...)

A module is compiled with PLACEHOLDER as its name, so that equal kernels are compiled once, whatever
program they are from. Linking puts the name in its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tessella.codegen.lltypes import quote

PLACEHOLDER = "tessella.function.00000000"
BODY = ".body"
"""The end of the name of a kernel's or segment's body, which is a function beside it."""
PHASE = ".phase"
"""The end of the name of a segment's phase, if it has only one."""

_SYMBOL = re.compile(r'@(?:"([^"]*)"|([-\w.$]+))')


def linked_names(names: Iterable[str]) -> dict[str, str]:
    """The name under which each of these modules is linked."""
    return {name: f"{PLACEHOLDER[:-8]}{number:08x}" for number, name in enumerate(names, start=1)}


def nameless(name: str, text: str, linked: Mapping[str, str] | None = None) -> str:
    """The text of a module in which its own name is PLACEHOLDER, and those of others what they are
    linked under."""
    symbols = {**(linked or {}), name: PLACEHOLDER}
    ends = ("", BODY, PHASE)
    new = {_escaped(old + end): symbol + end for old, symbol in symbols.items() for end in ends}

    def replaced(found: re.Match[str]) -> str:
        symbol = new.get(found[1] or found[2])
        return found[0] if symbol is None else f'@"{symbol}"'

    return _SYMBOL.sub(replaced, text)


def _escaped(name: str) -> str:
    return quote(name)[1:-1]
