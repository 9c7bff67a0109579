"""A folder of entries that any number of processes share: an entry is found whole, or not at all.

``TESSELLA_CACHE`` names the folder, or is `off`; without it, it is tessella's in the user's cache
folder (XDG Base Directory). ``TESSELLA_CACHE_SIZE`` bounds it, as `500M` or `8G`. Nothing here ever
fails: where the disk is full, may not be written to, or is not ours alone, work is done again.

An entry is a file: 8 bytes, the SHA-256 of its key and content, the content. Files are put in place
by renaming, so that there are no locks; what somebody else wrote, or can have written, is not read.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
import secrets
import stat
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tessella.support.errors import ResourceError

Buffer = bytes | memoryview

MAGIC = b"tessella"
DIGEST = 32
"""Bytes of a SHA-256 digest."""
HEADER = len(MAGIC) + DIGEST

_OFF = ("off", "0")
_PART = ".part"
"""The end of the names of files that are being written."""

DEFAULT_BOUND = 4 << 30
"""Bytes that all caches may take, where nobody says another number."""

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

_OWN = 0o600
"""The rights of an entry."""

_STALE = 3600.0
"""Seconds after which nobody writes such a file any more."""

_FRESH = 600.0
"""An entry that was used in so many seconds is not marked as used again."""

_log = logging.getLogger(__name__)


_is_off = False


@contextlib.contextmanager
def off() -> Generator[None]:
    """Use no cache for the length of a block, in this process."""
    global _is_off
    before, _is_off = _is_off, True
    try:
        yield
    finally:
        _is_off = before


def home() -> Path | None:
    """The folder of all caches, which need not exist; None where there are to be none."""
    return None if _is_off else folder()


def folder() -> Path | None:
    """The folder that TESSELLA_CACHE names, or the default one, even where `off` lets no cache be
    used; None where TESSELLA_CACHE is `off`."""
    named = os.environ.get("TESSELLA_CACHE", "")
    if named.lower() in _OFF:
        return None
    if named:
        return Path(os.path.abspath(named))
    root = os.environ.get("XDG_CACHE_HOME", "")
    try:
        base = Path(root) if os.path.isabs(root) else Path.home() / ".cache"
    except RuntimeError:  # there is no home
        return None
    return base / "tessella"


def bound() -> int:
    """Bytes that all caches may take together. A text that is no number counts as none."""
    text = os.environ.get("TESSELLA_CACHE_SIZE", "").strip().upper().removesuffix("B")
    number = text.rstrip("KMGT")
    unit = _UNITS.get(text[len(number) :])
    if unit is None or not (number.isascii() and number.isdigit() and len(number) < 16):
        if text:
            _log.warning("TESSELLA_CACHE_SIZE: expected a size such as 500M, found %r", text)
        return DEFAULT_BOUND
    return int(number) * unit


@dataclass(frozen=True)
class Usage:
    """What a folder of entries takes."""

    entries: int
    size: int
    """In bytes."""


class Folder:
    """Entries by key, of one kind, with a bound on what they take together."""

    def __init__(self, name: str, share: float) -> None:
        """``name`` is that of the folder in `home()`; ``share`` is its part of `bound()`."""
        self.name = name
        self.share = share

    @property
    def most(self) -> int:
        """Bytes that the entries may take."""
        return int(self.share * bound())

    def path(self) -> Path | None:
        """Where the entries are; None where there are to be none."""
        root = home()
        return None if root is None else root / self.name

    def get(self, key: str) -> bytes | None:
        """The content of an entry, if there is one that can be trusted."""
        content = self.read(key, lambda size: memoryview(bytearray(size)))
        return None if content is None else bytes(content)

    def read(self, key: str, room: Callable[[int], memoryview]) -> memoryview | None:
        """The content of an entry, in memory of the size that ``room`` is called with."""
        file = self._file(key)
        if file is None:
            return None
        try:
            with _opened(file) as stream:
                header = stream.read(HEADER)
                content = room(max(0, os.fstat(stream.fileno()).st_size - HEADER))
                stream.readinto(content)
                _mark_used(stream)
        except (OSError, ValueError, MemoryError, ResourceError):
            return None
        if header != _header(key, (content,)):
            _log.info("a damaged entry is dropped: %s", file)
            _remove(file)
            return None
        return content

    def has(self, key: str, size: int) -> bool:
        """Whether there is an entry with so many bytes of content. It counts as used now."""
        file = self._file(key)
        if file is None:
            return False
        try:
            with _opened(file) as stream:
                _mark_used(stream)
                return os.fstat(stream.fileno()).st_size == HEADER + size
        except (OSError, ValueError):
            return False

    def put(self, key: str, *content: Buffer) -> None:
        """Store an entry, whose content comes in parts, if that can be done."""
        file = self._file(key)
        size = sum(memoryview(part).nbytes for part in content)
        if file is None or size > self.most // 2 or not self._is_ours(file.parent):
            return
        try:
            write(file, _OWN, _header(key, content), *content)
        except OSError as error:
            _log.info("the cache cannot be written to: %s", error)
            return
        # one time in 64 on average, so that few look through the folder
        if int(_name(key)[:2], 16) < 4 or size > self.most // 64:
            self.trim()

    def trim(self, most: int | None = None) -> int:
        """Remove the entries used longest ago until the others take no more than ``most``. Returns
        the number of those that the system keeps."""
        most = self.most if most is None else most
        files = sorted(self._files(), key=lambda file: file[1].st_mtime)
        size, stayed = sum(status.st_size for _, status in files), 0
        for file, status in files:
            if size <= most:
                break
            stayed += not _remove(file)
            size -= status.st_size
        return stayed

    def usage(self) -> Usage:
        """How many entries there are, and what they take."""
        sizes = [status.st_size for _, status in self._files()]
        return Usage(len(sizes), sum(sizes))

    def _file(self, key: str) -> Path | None:
        folder = self.path()
        return None if folder is None else folder / _name(key)

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """The entries. What was begun to be written long ago is removed."""
        folder = self.path()
        if folder is None:
            return
        with contextlib.suppress(OSError), os.scandir(folder) as found:
            for entry in found:
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if not entry.name.endswith(_PART):
                        yield Path(entry.path), status
                    elif status.st_mtime < time.time() - _STALE:
                        _remove(Path(entry.path))

    def _is_ours(self, folder: Path) -> bool:
        """Whether the folder is there, or can be made, and nobody else can write to it."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return _is_trusted(os.stat(folder))
        except (OSError, ValueError):
            return False


def _name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:40]


def _header(key: str, content: Sequence[Buffer]) -> bytes:
    digest = hashlib.sha256(len(key).to_bytes(8) + key.encode())
    for part in content:
        digest.update(part)
    return MAGIC + digest.digest()


@contextlib.contextmanager
def _opened(file: Path) -> Generator[io.BufferedReader]:
    """A file of this user's that nobody else can have written. Raises OSError, ValueError."""
    # nor a pipe, which would keep us waiting
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with open(os.open(file, flags), "rb") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode) or not _is_trusted(status):
            raise ValueError("it is not ours")
        yield stream


def _is_trusted(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _mark_used(stream: io.BufferedReader) -> None:
    with contextlib.suppress(OSError):
        if os.fstat(stream.fileno()).st_mtime < time.time() - _FRESH:
            os.utime(stream.fileno())


def write(file: Path, mode: int, *parts: Buffer) -> None:
    """Write a file that appears as a whole, with these rights as far as the process grants them.
    Raises OSError, and leaves nothing behind then."""
    with replaced(file) as part:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(part, flags, mode), "wb") as stream:
            stream.writelines(parts)


@contextlib.contextmanager
def replaced(file: Path) -> Generator[Path]:
    """A path to write to in the block. What is there afterwards takes the place of the file at
    once; where the block fails, the file stays as it is, and nothing is left behind."""
    part = file.with_name(f".{file.name}.{secrets.token_hex(8)}{_PART}")
    try:
        yield part
        os.replace(part, file)
    except BaseException:
        _remove(part)
        raise


def file_state(status: os.stat_result) -> tuple[int, ...]:
    """What changes when a file is written to, or another one takes its place."""
    return status.st_ino, status.st_size, status.st_mtime_ns


def _remove(file: Path) -> bool:
    """Whether a file is gone."""
    try:
        file.unlink(missing_ok=True)
    except OSError:
        return False
    return True
