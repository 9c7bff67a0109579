"""A linker: objects become one position-independent image without external references."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tessella.codegen import elf
from tessella.codegen.elf import ElfSymbol, Object, Section
from tessella.codegen.symbols import PLACEHOLDER
from tessella.runtime.image import SYSTEM, Function, Image
from tessella.support.errors import InternalError
from tessella.targets.family import Family
from tessella.targets.table import FAMILIES

LINE = 64
"""Alignment of sections, in bytes. It keeps a loop's position within cache lines independent of the
rest of the image."""

_ADDRESS, _PAGE = 8, 4096
_FAMILIES = {family.elf: family for family in FAMILIES.values()}
"""The CPU families, by the ELF number of the machine in their objects."""


def patched(family: Family, kind: int, word: int, at: int, target: int) -> int:
    """Return the 32 bits ``word`` at offset ``at``, changed to refer to offset ``target``. Raises
    InternalError for a relocation kind that images cannot hold."""
    patch = family.patches.get(kind)
    if patch is None:
        raise InternalError(f"code that is linked into an image has a relocation of kind {kind}")
    return patch(word, at, target)


class _Placed(NamedTuple):
    """An object, and the offsets of its sections in the image, by section number."""

    object: Object
    places: Mapping[int, int]


def link(
    objects: Mapping[str, bytes],
    symbols: Mapping[str, str] | None = None,
    nodes: Mapping[str, Sequence[str]] | None = None,
) -> Image:
    """Link objects, which are keyed by the functions that they define, and may call each other.

    ``symbols`` gives a function's symbol in the objects if it differs from the key
    (``codegen/symbols.py``); ``nodes`` says which nodes each function computes. Equal objects are
    linked once. Raises InternalError for a missing symbol, and for an object with contents that
    images cannot hold.
    """
    image = _Linker(symbols or {})
    placed = image.place({data: elf.read(data) for data in dict.fromkeys(objects.values())})
    for name, data in objects.items():
        image.define(name, placed[data], (nodes or {}).get(name, ()))
    for each in placed.values():
        image.relocate(each)
    return Image(bytes(image.code), image.functions, image.imports)


class _Linker:
    """An image under construction."""

    def __init__(self, symbols: Mapping[str, str]) -> None:
        self.code = bytearray()
        self.functions: dict[str, Function] = {}
        self.imports: dict[str, int] = {}
        self._symbols = symbols
        self._defined: dict[str, int] = {}
        """Offsets of functions, by symbol."""
        self._jumps: dict[str, int] = {}
        """Offsets of jumps to functions of the system, by symbol."""

    def place(self, objects: Mapping[bytes, Object]) -> dict[bytes, _Placed]:
        """Put the sections of objects into the image, all code before all constants."""
        places: dict[bytes, dict[int, int]] = {data: {} for data in objects}
        for is_code in (True, False):
            for data, each in objects.items():
                for number, section in enumerate(each.sections):
                    if section.is_loaded and section.is_code == is_code:
                        places[data][number] = self._put(section)
        return {data: _Placed(each, places[data]) for data, each in objects.items()}

    def define(self, name: str, placed: _Placed, nodes: Sequence[str]) -> None:
        """Record the offsets of the functions that an object exports: by symbol, for calls from
        other objects, and by name, for callers of the image."""
        symbol = self._symbols.get(name, name)
        for each in placed.object.symbols:
            if each.is_exported and each.section:
                at = placed.places[each.section] + each.value
                self._defined[each.name.replace(PLACEHOLDER, symbol)] = at
                function = Function(at, each.size, nodes)
                self.functions[each.name.replace(PLACEHOLDER, name)] = function

    def relocate(self, placed: _Placed) -> None:
        """Apply the relocations of an object's sections."""
        family = _FAMILIES[placed.object.machine]
        for number, place in placed.places.items():
            for offset, kind, symbol, addend in placed.object.relocations.get(number, ()):
                at = place + offset
                target = self._target(placed, placed.object.symbols[symbol]) + addend
                (word,) = struct.unpack_from("<I", self.code, at)
                struct.pack_into("<I", self.code, at, patched(family, kind, word, at, target))

    def _put(self, section: Section) -> int:
        if section.is_writable or section.alignment > _PAGE:
            raise InternalError(f"an image can have no section such as {section.name!r}")
        return self._add(section.data, max(LINE, section.alignment))

    def _add(self, data: bytes | memoryview, alignment: int) -> int:
        self.code += bytes(-len(self.code) % alignment)
        self.code += data
        return len(self.code) - len(data)

    def _target(self, placed: _Placed, symbol: ElfSymbol) -> int:
        if symbol.section in placed.places:
            return placed.places[symbol.section] + symbol.value
        found = self._defined.get(symbol.name)
        return self._jump(placed.object.machine, symbol.name) if found is None else found

    def _jump(self, machine: int, name: str) -> int:
        if name not in SYSTEM:
            raise InternalError(
                f"the objects call {name!r}, which none of them defines",
                expected=f"another object's function, or one of {', '.join(SYSTEM)}",
            )
        if name not in self._jumps:
            code = _FAMILIES[machine].indirect_jump
            self._jumps[name] = self._add(code + bytes(_ADDRESS), _ADDRESS)
            self.imports[name] = self._jumps[name] + len(code)
        return self._jumps[name]
