"""A reader for relocatable objects: ELF64, little-endian, with addends.

It reads only the parts that the linker needs. The layout is that of the System V ABI, chapters 4
("Object Files") and "ELF-64 Object File Format".
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tessella.support.errors import InternalError

"""The formats of ELF's headers and table entries, and the numbers that they contain."""

_HEADER = struct.Struct("<6s12xH20xQ10xHHH")
"""The format of the file header: magic, class and byte order; the machine; offset, entry size and
count of section headers, and the index of the section with their names."""
_SECTION = struct.Struct("<IIQ8xQQIIQ8x")
_SYMBOL = struct.Struct("<IBxHQQ")
_RELOCATION = struct.Struct("<QIIq")
_MAGIC = b"\x7fELF\x02\x01"

_SYMBOLS, _RELOCATIONS = 2, 4
"""ELF's numbers for two kinds of sections: the symbol table, and relocations."""
_WRITABLE, _LOADED, _EXECUTABLE = 1, 2, 4
"""ELF's flags of sections: writable, loaded into memory, and executable."""
_LOCAL, _FUNCTION = 0, 2


class Section(NamedTuple):
    """A section of an object: ``data``, with its ELF kind and flags.

    The meaning of ``link`` and ``info`` depends on the kind. The ``link`` of a symbol table is the
    number of the section with its names. The ``info`` of a relocation section is the number of the
    section that it changes.
    """

    name: str
    kind: int
    flags: int
    data: memoryview
    link: int
    info: int
    alignment: int

    @property
    def is_loaded(self) -> bool:
        """True if the section is in memory when code runs. Unwind tables are left out."""
        return bool(self.flags & _LOADED) and self.name != ".eh_frame"

    @property
    def is_code(self) -> bool:
        """True if the section holds instructions."""
        return bool(self.flags & _EXECUTABLE)

    @property
    def is_writable(self) -> bool:
        """True if the section holds variables."""
        return bool(self.flags & _WRITABLE)


class ElfSymbol(NamedTuple):
    """A name for a position in a section; section 0 means that another object defines it."""

    name: str
    section: int
    value: int
    size: int
    is_exported: bool
    """True if the symbol is a function that other objects may call."""


class Relocation(NamedTuple):
    """A position in a section at which the linker has to insert an address or a distance."""

    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass(frozen=True)
class Object:
    """A relocatable object."""

    machine: int
    sections: Sequence[Section]
    symbols: Sequence[ElfSymbol]
    relocations: Mapping[int, Sequence[Relocation]]
    """Relocations by the number of the section that they change."""


def read(data: bytes) -> Object:
    """Parse an object that LLVM has written. Raises InternalError for another format."""
    if data[: len(_MAGIC)] != _MAGIC:
        raise InternalError("code is linked from ELF64 objects", found=repr(data[:6]))
    _, machine, start, step, count, names = _HEADER.unpack_from(data)
    headers = [_SECTION.unpack_from(data, start + i * step) for i in range(count)]
    view = memoryview(data)
    texts = data[headers[names][3] :]
    sections = [
        Section(_text(texts, name), kind, flags, view[at : at + size], link, info, alignment)
        for name, kind, flags, at, size, link, info, alignment in headers
    ]
    table = next((section for section in sections if section.kind == _SYMBOLS), None)
    relocations = {
        section.info: _relocations(section.data)
        for section in sections
        if section.kind == _RELOCATIONS
    }
    symbols = () if table is None else _symbols(table, bytes(sections[table.link].data))
    return Object(machine, sections, symbols, relocations)


def _relocations(data: memoryview) -> list[Relocation]:
    return [Relocation(*relocation) for relocation in _RELOCATION.iter_unpack(data)]


def _symbols(table: Section, texts: bytes) -> list[ElfSymbol]:
    return [
        ElfSymbol(_text(texts, name), section, value, size, _is_exported(info))
        for name, info, section, value, size in _SYMBOL.iter_unpack(table.data)
    ]


def _is_exported(info: int) -> bool:
    return info >> 4 != _LOCAL and info & 15 == _FUNCTION


def _text(texts: bytes, start: int) -> str:
    return texts[start : texts.index(b"\0", start)].decode()
