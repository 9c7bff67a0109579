"""Reads from a 64-bit little-endian ELF object what the tests ask of it."""

from __future__ import annotations

import struct
from dataclasses import dataclass

_SYMBOLS, _RELOCATIONS, _ZEROS, _LOADED = 2, 4, 8, 2


@dataclass(frozen=True)
class Section:
    """A part of an object."""

    kind: int
    flags: int
    size: int
    data: bytes
    link: int
    info: int

    @property
    def is_loaded(self) -> bool:
        """True if it is in memory when the code runs."""
        return bool(self.flags & _LOADED)

    @property
    def relocations(self) -> list[tuple[int, int, int, int]]:
        """Return the entries of a relocation section: offset, kind, the symbol's number, addend."""
        if self.kind != _RELOCATIONS:
            return []
        entries = struct.iter_unpack("<QIIq", self.data)
        return [(at, kind, symbol, addend) for at, kind, symbol, addend in entries]


@dataclass(frozen=True)
class Symbol:
    """A name for a place in a section; in none if it is expected from elsewhere."""

    name: str
    section: int
    value: int


def sections(image: bytes) -> list[Section]:
    """All sections of an object, by number."""
    (start,) = struct.unpack_from("<Q", image, 40)
    size, count = struct.unpack_from("<HH", image, 58)
    found: list[Section] = []
    for index in range(count):
        header = struct.unpack_from("<IIQQQQIIQQ", image, start + index * size)
        _, kind, flags, _, offset, length, link, info, _, _ = header
        data = b"" if kind == _ZEROS else image[offset : offset + length]
        found.append(Section(kind, flags, length, data, link, info))
    return found


def symbols(image: bytes) -> list[Symbol]:
    """All symbols of an object, by number."""
    parts = sections(image)
    table = next((part for part in parts if part.kind == _SYMBOLS), None)
    if table is None:
        return []
    names = parts[table.link].data
    return [
        Symbol(_text(names, name), section, value)
        for name, _, _, section, value, _ in struct.iter_unpack("<IBBHQQ", table.data)
    ]


def undefined_symbols(image: bytes) -> set[str]:
    """The names of the symbols that an object expects from elsewhere."""
    return {symbol.name for symbol in symbols(image) if not symbol.section} - {""}


def _text(names: bytes, start: int) -> str:
    return names[start : names.index(b"\0", start)].decode()
