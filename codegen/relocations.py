"""How the places of an object that depend on others are filled in, and how code reaches functions
of the system: by architecture.

There are only distances in a closed image: no kind of relocation is here that needs to know where
the image will be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tessella.codegen.elf import AARCH64, X86_64
from tessella.support.errors import InternalError

Patch = Callable[[int, int, int], int]
"""From the 32 bits of a place, the place and what it refers to: the new 32 bits. Places are offsets
in an image, which begins at a page."""


class Machine(NamedTuple):
    """An architecture."""

    patches: Mapping[int, Patch]
    """By the kind of a relocation."""
    jump: bytes
    """Code that goes on where the 8 bytes after it say."""


def patched(machine: Machine, kind: int, word: int, at: int, target: int) -> int:
    """The new 32 bits of a place. Raises InternalError for a kind that no image can have."""
    patch = machine.patches.get(kind)
    if patch is None:
        raise InternalError(f"code that is linked into an image has a relocation of kind {kind}")
    return patch(word, at, target)


def _distance(word: int, at: int, target: int) -> int:
    return _fits(target - at, 32) & 0xFFFF_FFFF


def _branch(word: int, at: int, target: int) -> int:
    return word & ~0x3FF_FFFF | _fits(target - at, 28) >> 2 & 0x3FF_FFFF


def _pages(word: int, at: int, target: int) -> int:
    pages = _fits((target >> 12) - (at >> 12), 21)
    return word | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5


def _low(shift: int) -> Patch:
    """The offset in its page, in units of ``1 << shift`` bytes."""
    return lambda word, at, target: word | (target & 0xFFF) >> shift << 10


def _fits(distance: int, bits: int) -> int:
    if not -1 << bits - 1 <= distance < 1 << bits - 1:
        raise InternalError(f"an image is too large: a distance of {distance} has {bits} bits")
    return distance


MACHINES: Mapping[int, Machine] = {
    # System V ABI, AMD64 Supplement, 4.4: PC32, PLT32; then jmp *2(%rip); ud2
    X86_64: Machine({2: _distance, 4: _distance}, bytes.fromhex("ff2502000000 0f0b")),
    # ELF for the Arm 64-bit Architecture, 5.7: PREL32, ADR_PREL_PG_HI21, ADD_ABS_LO12_NC,
    # LDST*_ABS_LO12_NC, JUMP26, CALL26; then ldr x16, .+8; br x16
    AARCH64: Machine(
        {
            261: _distance,
            275: _pages,
            277: _low(0),
            278: _low(0),
            284: _low(1),
            285: _low(2),
            286: _low(3),
            299: _low(4),
            282: _branch,
            283: _branch,
        },
        bytes.fromhex("50000058 00021fd6"),
    ),
}
