"""The description of a CPU family: what its targets have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tessella.support.errors import InternalError
from tessella.targets.target import Target

Patch = Callable[[int, int, int], int]
"""A function that relocates 32 bits of code: from the bits, their address and the address of their
target, it computes the new bits.

Addresses are offsets in an image, which begins at a page boundary.
"""


class Level(NamedTuple):
    """A target of a CPU family, such as `avx2`, and the features by which machines that run its
    code are recognised."""

    target: Target
    flags: frozenset[str]
    """Required flags in /proc/cpuinfo."""
    extras: frozenset[str]
    """LLVM's names of features that a machine may have beyond the target's."""


class Jump(NamedTuple):
    """Machine code that jumps to a function of another object, with the relocation that the linker
    needs."""

    code: bytes
    at: int
    """The offset of the relocation."""
    kind: int
    addend: int


@dataclass(frozen=True)
class Family:
    """The facts that all targets of one CPU architecture share."""

    name: str
    """The name of the family, which is the device in the names of places: `x86`."""
    machines: tuple[str, ...]
    """Names that ``platform.machine`` returns for the architecture, in lower case."""
    triples: Mapping[str, str]
    """LLVM's triple by operating system. Objects are ELF on all systems."""
    data_layout: str
    """LLVM's data layout, as its TargetMachine reports it."""
    aliases: Mapping[str, str]
    """The names of targets by the other names that users may give."""
    levels: Sequence[Level]
    """The targets, best first. Every machine that runs the required Python runs the last one's
    code."""
    features: Mapping[str, str]
    """LLVM's names of features beyond a level, by their flags in /proc/cpuinfo."""
    rates: Mapping[str, Sequence[tuple[str, float]]]
    """The rates that differ from the table of instructions, by the maker of the CPU, which
    /proc/cpuinfo calls `vendor_id`."""
    steady: frozenset[str]
    """Flags in /proc/cpuinfo for a processor's counter that counts time, not cycles, and continues
    while a core sleeps.

    The set is empty if all machines have this kind of counter.
    """
    counter: str
    """The call that reads the processor's counter, in LLVM's text."""
    pause: str
    """The call between two spins, in LLVM's text."""
    futex: int
    """The number of Linux's system call ``futex``."""
    reduces_minmax: bool
    """True if instructions reduce a vector to its minimum and maximum."""
    saturates: bool
    """True if conversions of float vectors saturate, and give 0 for NaN."""
    flushes_code: bool
    """True if instruction caches must be synchronised after writing code."""
    elf: int
    """The machine's number in ELF objects."""
    code_alignment: int
    """The alignment of code in an object, on which offsets in code may depend."""
    patches: Mapping[int, Patch]
    """Relocation patches by kind. An image is closed: only relative kinds occur."""
    indirect_jump: bytes
    """Code that jumps to the address in the 8 bytes after it."""
    jump: Jump


def distance(word: int, at: int, target: int) -> int:
    """Return the distance from the offset ``at`` to the offset ``target`` as 32 bits, which is what
    a relative relocation inserts."""
    return fits(target - at, 32) & 0xFFFF_FFFF


def fits(distance: int, bits: int) -> int:
    """Return the distance if it fits into a signed number of ``bits`` bits. Raises InternalError
    otherwise."""
    if not -1 << bits - 1 <= distance < 1 << bits - 1:
        raise InternalError(f"an image is too large: a distance of {distance} has {bits} bits")
    return distance
