"""The description of a family of CPUs: what its targets have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tessella.support.errors import InternalError
from tessella.targets.target import Target

Patch = Callable[[int, int, int], int]
"""From the 32 bits of a place, the place and what it refers to: the new 32 bits. Places are offsets
in an image, which begins at a page."""


class Level(NamedTuple):
    """A target, and the machines that run its code."""

    target: Target
    flags: frozenset[str]
    """The flags that /proc/cpuinfo lists."""
    extras: frozenset[str]
    """LLVM's names of the features that a machine may have beyond the target's."""


class Jump(NamedTuple):
    """Code that continues in a function of another object, with its relocation."""

    code: bytes
    at: int
    """The offset of the relocation."""
    kind: int
    addend: int


@dataclass(frozen=True)
class Family:
    """The facts that machines of one architecture share."""

    name: str
    """The device of places: `x86`."""
    machines: tuple[str, ...]
    """The names that ``platform.machine`` has for it, in lower case."""
    triples: Mapping[str, str]
    """LLVM's triple by operating system. Objects are ELF on all systems."""
    data_layout: str
    """LLVM's data layout, as its TargetMachine reports it."""
    levels: Sequence[Level]
    """The targets, best first. All machines that run the required Python run the last one's code,
    without its flags."""
    features: Mapping[str, str]
    """LLVM's names of features beyond a level, by their flags in /proc/cpuinfo."""
    steady: frozenset[str]
    """The flags of a counter that counts time instead of cycles, also while a core sleeps; empty
    where all machines have one."""
    counter: str
    """The call that reads this counter, in LLVM's text."""
    pause: str
    """The call that a thread makes between two looks at memory, in LLVM's text."""
    futex: int
    """The number of Linux's system call."""
    reduces_minmax: bool
    """Whether instructions find the minimum and maximum of the lanes of a vector."""
    saturates: bool
    """Whether conversions of vectors of floats give the nearest integer that fits, and 0 of NaN."""
    flushes_code: bool
    """Whether cores may see old code at an address where new code has been written."""
    elf: int
    """The number of the machine in ELF objects."""
    code_alignment: int
    """The alignment of code in an object, on which distances in code may depend."""
    patches: Mapping[int, Patch]
    """The ways to fill in a place of code, by the kind of its relocation. An image is closed: only
    kinds for distances are here."""
    indirect_jump: bytes
    """Code that continues at the address in the 8 bytes after it."""
    jump: Jump


def distance(word: int, at: int, target: int) -> int:
    """The patch of a place that holds a distance of 32 bits."""
    return fits(target - at, 32) & 0xFFFF_FFFF


def fits(distance: int, bits: int) -> int:
    """The distance. Raises InternalError if it has more bits."""
    if not -1 << bits - 1 <= distance < 1 << bits - 1:
        raise InternalError(f"an image is too large: a distance of {distance} has {bits} bits")
    return distance
