"""Native code as data, and in memory.

An image is text and constants in one block that runs wherever it begins a page: code reaches all of
it by distances, and functions of the system through addresses in it, which loading fills in. So an
image is loaded by mapping memory, copying, and making it executable. It is never writable then.
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
"""The functions of the C library that code may call. LLVM writes such calls itself."""

_ADDRESS = 8
"""Bytes of an address."""
_PROT_READ, _PROT_EXEC = 1, 4


class Function(NamedTuple):
    """A function of an image."""

    offset: int
    size: int
    """In bytes."""
    nodes: Sequence[str] = ()
    """What it computes, for people."""


@dataclass(frozen=True)
class Image:
    """Linked code."""

    code: bytes | memoryview
    functions: Mapping[str, Function]
    imports: Mapping[str, int]
    """Where the addresses of functions of the system go, by name (``SYSTEM``)."""


class Library:
    """An image, which is in memory from the first time that somebody asks for an address, until the
    last reference to the library has gone."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self._lock = fork.Lock()
        self._memory: mmap.mmap | None = None
        self._start = 0

    def address(self, name: str) -> int:
        """Where a function starts. Raises InternalError for one that the image does not have, and
        ResourceError if the system does not give executable memory."""
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
    """Memory of this process alone with the image in it."""
    size = -(-len(image.code) // mmap.PAGESIZE) * mmap.PAGESIZE
    try:
        memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, ValueError) as error:
        raise ResourceError(f"there is no memory for code: {error}") from error
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
    """Let cores fetch what was written. Linux does so by itself where a page becomes executable for
    the first time, as all of these do; GCC's library does it as the architecture asks."""
    library = _gcc()
    if library is not None:
        library.__clear_cache(ctypes.c_void_p(start), ctypes.c_void_p(start + size))


@functools.cache
def _gcc() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libgcc_s.so.1")
    except OSError:
        return None
