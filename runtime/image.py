"""Native code as data, and loaded into memory.

An image is text and constants in one block that runs at any page boundary: code addresses it
relative to itself, and calls system functions through address slots, which loading fills in.
Loading maps memory, copies the image, and makes it executable. It is never writable and executable
at once.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tessella.runtime import perf_map
from tessella.support import fork, libc
from tessella.support.errors import InternalError, ResourceError
from tessella.support.knobs import KNOBS
from tessella.targets import machine

SYSTEM = ("memcpy", "memmove", "memset")
"""The C library functions that code may call. LLVM emits such calls itself."""

_ADDRESS = 8
"""Bytes of an address."""
_PROT_READ, _PROT_EXEC = 1, 4


class Function(NamedTuple):
    """A function of an image."""

    offset: int
    size: int
    """Length of the function's code in bytes."""
    nodes: Sequence[str] = ()
    """The names of the nodes of the model that the function computes, which profiles show."""


@dataclass(frozen=True)
class Image:
    """Linked native code, ready to be loaded."""

    code: bytes | memoryview
    functions: Mapping[str, Function]
    imports: Mapping[str, int]
    """The offsets of the address slots of system functions (``SYSTEM``), by name."""


class Library:
    """An image that is loaded when an address is first requested, and unloaded with the last
    reference."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self._lock = fork.Lock()
        self._memory: mmap.mmap | None = None
        self._start = 0

    def address(self, name: str) -> int:
        """Return the address of a function.

        Raises InternalError if the image lacks it, and ResourceError if the system refuses
        executable memory.
        """
        function = self.image.functions.get(name)
        if function is None:
            raise InternalError(
                f"the image has no function {name!r}",
                expected=f"one of {', '.join(self.image.functions)}",
            )
        if not self._start:
            with self._lock:
                if not self._start:
                    self._load()
        return self._start + function.offset

    def _load(self) -> None:
        self._memory = memory = _written(self.image)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        _make_executable(start, len(memory))
        if KNOBS.perf:
            table = self.image.functions.items()
            perf_map.write((name, start + f.offset, f.size, f.nodes) for name, f in table)
        self._start = start


def _written(image: Image) -> mmap.mmap:
    """Return private memory with a copy of the image, in which the addresses of system functions
    are filled in. Raises ResourceError if no memory is available."""
    size = -(-len(image.code) // mmap.PAGESIZE) * mmap.PAGESIZE
    try:
        memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, ValueError) as error:
        raise ResourceError(f"no memory for code: {error}") from error
    memory[: len(image.code)] = image.code
    for name, offset in image.imports.items():
        memory[offset : offset + _ADDRESS] = _system(name).to_bytes(_ADDRESS, "little")
    return memory


def _system(name: str) -> int:
    if name not in SYSTEM:
        raise InternalError(f"code calls {name!r}", expected=f"one of {', '.join(SYSTEM)}")
    return libc.address(name)


def _make_executable(start: int, size: int) -> None:
    system = ctypes.CDLL(None, use_errno=True)
    address = ctypes.c_void_p(start)
    if system.mprotect(address, ctypes.c_size_t(size), _PROT_READ | _PROT_EXEC):
        raise ResourceError(
            "the system does not let memory become executable",
            found=f"error {ctypes.get_errno()} of mprotect",
            hint="a policy such as SELinux's execmem forbids it",
        )
    own = machine.family()
    if own is not None and own.flushes_code:
        _flush(start, size)


def _flush(start: int, size: int) -> None:
    """Synchronise the instruction caches with new code, by a function of GCC's library.

    Without that library nothing is needed on Linux, which synchronises a page when it first becomes
    executable, as each page of an image does.
    """
    library = _gcc()
    if library is not None:
        library.__clear_cache(ctypes.c_void_p(start), ctypes.c_void_p(start + size))


@functools.cache
def _gcc() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libgcc_s.so.1")
    except OSError:
        return None
