"""An image as a relocatable object for other linkers: ELF64, little-endian.

Calls of system functions, which the loader binds in an image, become jumps with a relocation.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tessella.runtime.arena import ALIGNMENT
from tessella.runtime.image import Image
from tessella.targets.family import Family, Jump

_PROGBITS, _SYMBOLS, _STRINGS, _RELOCATIONS = 1, 2, 3, 4
_LOADED, _CODE = 2, 2 | 4
_FUNCTION, _OBJECT, _UNKNOWN = 0x12, 0x11, 0x10
"""ELF's numbers for global symbols: a function, an object, and an undefined symbol."""
_TEXT, _WEIGHTS, _SYMTAB, _STRTAB = 1, 2, 4, 5
"""The numbers of the sections with code, weights, symbols, and names of symbols."""


_BEFORE = 8
"""Bytes of code before an address slot in an image. The code jumps through the slot."""


class _Section(NamedTuple):
    name: str
    kind: int
    flags: int
    data: bytes
    alignment: int = 8
    link: int = 0
    info: int = 0
    entry: int = 0


def object_file(
    family: Family, image: Image, functions: Mapping[str, str], tables: Mapping[str, bytes]
) -> bytes:
    """Return an image as a relocatable object.

    ``functions`` maps names in the image to symbols; ``tables`` maps symbols to constants.
    """
    code, names = bytearray(image.code), list(image.imports)
    relocations = b"".join(
        _jump(family.jump, code, image.imports[name], 1 + len(tables) + len(functions) + i)
        for i, name in enumerate(names)
    )
    texts = ["", *tables, *functions.values(), *names]
    starts = _starts(texts)
    constants, symbols = bytearray(), list[tuple[int, int, int, int]]()
    for data in tables.values():
        constants += bytes(-len(constants) % ALIGNMENT)
        symbols.append((_OBJECT, _WEIGHTS, len(constants), len(data)))
        constants += data
    for name in functions:
        function = image.functions[name]
        symbols.append((_FUNCTION, _TEXT, function.offset, function.size))
    symbols += [(_UNKNOWN, 0, 0, 0) for _ in names]
    entries = [
        struct.pack("<IBBHQQ", start, info, 0, section, value, size)
        for start, (info, section, value, size) in zip(starts[1:], symbols, strict=True)
    ]
    sections = [
        _Section("", 0, 0, b"", 0),
        _Section(".text", _PROGBITS, _CODE, bytes(code), family.code_alignment),
        _Section(".rodata", _PROGBITS, _LOADED, bytes(constants), ALIGNMENT),
        _Section(".rela.text", _RELOCATIONS, 0, relocations, 8, _SYMTAB, _TEXT, 24),
        _Section(".symtab", _SYMBOLS, 0, bytes(24) + b"".join(entries), 8, _STRTAB, 1, 24),
        _Section(".strtab", _STRINGS, 0, _strings(texts), 1),
        _Section(".note.GNU-stack", _PROGBITS, 0, b"", 1),
    ]
    return _file(family.elf, sections)


def _jump(jump: Jump, code: bytearray, slot: int, symbol: int) -> bytes:
    """Replace an indirect jump, through a slot with an address, by a direct jump to a symbol.
    Returns the relocation entry of the new jump."""
    start = slot - _BEFORE
    code[start : start + len(jump.code)] = jump.code
    return struct.pack("<QIIq", start + jump.at, jump.kind, symbol, jump.addend)


def _file(machine: int, sections: Sequence[_Section]) -> bytes:
    names = [section.name for section in sections] + [".shstrtab"]
    listed = [*sections, _Section(".shstrtab", _STRINGS, 0, _strings(names), 1)]
    data, headers = bytearray(64), b""
    for section, name in zip(listed, _starts(names), strict=True):
        data += bytes(-len(data) % max(1, section.alignment))
        _, kind, flags, content, alignment, link, info, entry = section
        where = (len(data), len(content), link, info, alignment, entry)
        headers += struct.pack("<IIQQQQIIQQ", name, kind, flags, 0, *where)
        data += content
    data += bytes(-len(data) % 8)
    magic = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    numbers = (1, machine, 1, 0, 0, len(data), 0, 64, 0, 0, 64, len(listed), len(listed) - 1)
    data[:64] = magic + struct.pack("<HHIQQQIHHHHHH", *numbers)
    return bytes(data + headers)


def _strings(texts: Sequence[str]) -> bytes:
    return b"".join(text.encode() + b"\0" for text in texts)


def _starts(texts: Sequence[str]) -> list[int]:
    """Return the offset of each string in the string table that ``_strings`` creates."""
    starts, end = list[int](), 0
    for text in texts:
        starts.append(end)
        end += len(text.encode()) + 1
    return starts
