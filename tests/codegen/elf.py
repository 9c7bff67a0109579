"""Reads from an ELF object what the tests ask of it."""

from __future__ import annotations

import struct


def undefined_symbols(image: bytes) -> set[str]:
    """The names of the symbols that a 64-bit little-endian ELF object expects from elsewhere."""
    section_offset, entry_size, count = _sections(image)
    headers = [
        struct.unpack_from("<IIQQQQIIQQ", image, section_offset + index * entry_size)
        for index in range(count)
    ]
    names: set[str] = set()
    for header in headers:
        if header[1] != 2:  # SHT_SYMTAB
            continue
        strings = headers[header[6]][4]
        for offset in range(header[4] + 24, header[4] + header[5], 24):
            name, _, _, section = struct.unpack_from("<IBBH", image, offset)
            if section == 0:
                start = strings + name
                names.add(image[start : image.index(b"\0", start)].decode())
    return names - {""}


def _sections(image: bytes) -> tuple[int, int, int]:
    (offset,) = struct.unpack_from("<Q", image, 40)
    size, count = struct.unpack_from("<HH", image, 58)
    return offset, size, count
