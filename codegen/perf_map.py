"""The names that `perf` shows for generated code: each kernel, with the nodes that it computes.

`perf` reads ``/tmp/perf-PID.map``, which has a line ``START SIZE NAME`` for each function, with
numbers in hexadecimal (``tools/perf/Documentation/jit-interface.txt`` of Linux). The names are in
this table beside the code, and never in its text, which is the same for equal kernels.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping, Sequence

from tessella.codegen.link import Library
from tessella.support.errors import OptionError

Nodes = Mapping[str, Sequence[str]]
"""The nodes that each kernel computes, by the kernel's name."""

_SYMTAB = 2
_FUNCTION = 2
_SECTIONS = struct.Struct("<40xQ10xHHH")
"""Of an ELF64 header: where the section headers begin, the size of one, and how many there are."""
_SECTION = struct.Struct("<II16xQQI12xQ")
"""Of a section header: name, type, offset, size, link, size of an entry."""
_SYMBOL = struct.Struct("<IBBHQQ")
"""Name, info, other, section, value, size."""


def label(name: str, nodes: Nodes) -> str:
    """A kernel's name, and the nodes that it computes: ``conv_relu_1 [conv, relu]``."""
    known = ", ".join(dict.fromkeys(nodes.get(name, ())))
    return f"{name} [{known}]" if known else name


def function_sizes(image: bytes) -> dict[str, int]:
    """Bytes of each function that an ELF64 object of little-endian code defines."""
    if image[:6] != b"\x7fELF\x02\x01":
        return {}
    start, step, count, _ = _SECTIONS.unpack_from(image)
    sections: list[tuple[int, ...]] = [
        _SECTION.unpack_from(image, start + i * step) for i in range(count)
    ]
    sizes: dict[str, int] = {}
    for _, kind, offset, size, link, entry in sections:
        if kind != _SYMTAB:
            continue
        strings = sections[link][2]
        for at in range(offset, offset + size, entry):
            name, info, _, section, _, length = _SYMBOL.unpack_from(image, at)
            if info & 15 == _FUNCTION and section:
                end = image.index(b"\0", strings + name)
                sizes[image[strings + name : end].decode()] = length
    return sizes


def lines(library: Library, images: Mapping[str, bytes], nodes: Nodes) -> Iterator[str]:
    """The map's line for each function of a library."""
    sizes: dict[str, int] = {}
    for image in images.values():
        sizes |= function_sizes(image)
    for name, symbol in library.symbols.items():
        yield f"{library.address(name):x} {sizes.get(symbol, 0):x} {label(name, nodes)}\n"


def write(library: Library, images: Mapping[str, bytes], nodes: Nodes) -> None:
    """Add a library to the map of this process. Raises OptionError where that cannot be written."""
    path = f"/tmp/perf-{os.getpid()}.map"
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            file.writelines(lines(library, images, nodes))
    except OSError as error:
        raise OptionError(
            f"cannot write the map for perf: {error.strerror or error}",
            where=path,
            hint="TESSELLA_PERF=0 leaves it out",
        ) from error
