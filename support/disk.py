"""An on-disk store of entries that any number of processes share. Readers see whole entries only.

``TESSELLA_CACHE`` names the folder, or is `off`. The default is a folder of tessella's in the
user's cache folder (XDG Base Directory). ``TESSELLA_CACHE_SIZE`` bounds its size, as `500M` or
`8G`.

No function fails: if the disk is full, is read-only, or other users can write to the folder, the
entry is recomputed. An entry is a file: 8 bytes of magic, the SHA-256 of its key and content, the
content. Files appear by renaming, which needs no locks. Files that another user wrote, or could
have written, are not read.
"""

from __future__ import annotations

import contextlib
import functools
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
"""Length of a SHA-256 digest in bytes."""
HEADER = len(MAGIC) + DIGEST

_OFF = ("off", "0")
_PART = ".part"
"""The suffix of files that are still being written."""

DEFAULT_BOUND = 4 << 30
"""Default bound on the size of all caches together, in bytes."""

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

_OWN = 0o600
"""The access mode of an entry."""

_STALE = 3600.0
"""Age in seconds after which an unfinished file counts as abandoned."""

_FRESH = 600.0
"""The time in seconds after a mark of an entry as used in which further uses do not mark it
again."""

_log = logging.getLogger(__name__)


_is_off = False


@contextlib.contextmanager
def off() -> Generator[None]:
    """Disable the cache in this process for the length of a block."""
    global _is_off
    before, _is_off = _is_off, True
    try:
        yield
    finally:
        _is_off = before


def home() -> Path | None:
    """Return the folder of all caches, which may not exist yet; None if caching is off."""
    return None if _is_off else folder()


def folder() -> Path | None:
    """Return the folder that TESSELLA_CACHE names, or the default one; None if TESSELLA_CACHE is
    `off`.

    The context manager `off` does not change the answer.
    """
    named = os.environ.get("TESSELLA_CACHE", "")
    if named.lower() in _OFF:
        return None
    if named:
        return Path(os.path.abspath(named))
    root = os.environ.get("XDG_CACHE_HOME", "")
    try:
        base = Path(root) if os.path.isabs(root) else Path.home() / ".cache"
    except RuntimeError:  # the user has no home folder
        return None
    return base / "tessella"


def bound() -> int:
    """Return the bound on the size of all caches together, in bytes. Malformed text counts as
    unset."""
    return _bytes(os.environ.get("TESSELLA_CACHE_SIZE", ""))


@functools.cache
def _bytes(given: str) -> int:
    """Parse a size in bytes, such as `500M`. Malformed text gives the default bound, with one
    warning."""
    text = given.strip().upper().removesuffix("B")
    number = text.rstrip("KMGT")
    unit = _UNITS.get(text[len(number) :])
    if unit is None or not (number.isascii() and number.isdigit() and len(number) < 16):
        if text:
            _log.warning("TESSELLA_CACHE_SIZE: expected a size such as 500M, found %r", given)
        return DEFAULT_BOUND
    return int(number) * unit


@dataclass(frozen=True)
class Usage:
    """The number of entries in a folder, and their total size."""

    entries: int
    size: int
    """The total size of the entries in bytes."""


class Folder:
    """A folder of cache entries of one kind, by key, with a bound on their total size."""

    def __init__(self, name: str, share: float) -> None:
        """``name`` is the folder's name in `home()`; ``share`` is its fraction of `bound()`."""
        self.name = name
        self.share = share

    @property
    def most(self) -> int:
        """The bound on the total size of the entries, in bytes."""
        return int(self.share * bound())

    def path(self) -> Path | None:
        """Return the folder of the entries; None if caching is off."""
        root = home()
        return None if root is None else root / self.name

    def get(self, key: str) -> bytes | None:
        """Return the content of an entry; None if it is missing, damaged or not trusted."""
        content = self.read(key, lambda size: memoryview(bytearray(size)))
        return None if content is None else bytes(content)

    def read(self, key: str, room: Callable[[int], memoryview]) -> memoryview | None:
        """Read an entry into the memory that ``room`` returns for its size, and return this memory;
        None if the entry is missing, damaged or not trusted."""
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
        """Return whether there is an entry with ``size`` bytes of content, and mark it as used."""
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
        """Store an entry, whose content comes in parts, if the disk allows."""
        file = self._file(key)
        size = sum(memoryview(part).nbytes for part in content)
        if file is None or size > self.most // 2 or not self._is_ours(file.parent):
            return
        try:
            write(file, _OWN, _header(key, content), *content)
        except OSError as error:
            _log.info("the cache cannot be written to: %s", error)
            return
        # once in 64 calls on average, as trimming scans the folder
        if int(_name(key)[:2], 16) < 4 or size > self.most // 64:
            self.trim()

    def trim(self, most: int | None = None) -> int:
        """Remove the least recently used entries until the others take at most ``most`` bytes.

        Returns the number of entries that could not be removed.
        """
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
        """Return the number of entries, and their total size."""
        sizes = [status.st_size for _, status in self._files()]
        return Usage(len(sizes), sum(sizes))

    def _file(self, key: str) -> Path | None:
        folder = self.path()
        return None if folder is None else folder / _name(key)

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Yield the path and the status of each entry, and remove abandoned unfinished files."""
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
        """Return whether the folder exists or can be created, and only this user can write to
        it."""
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
    """Open a file that this user owns and nobody else can write. Raises OSError or ValueError."""
    # opening a pipe would block
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
    """Write a file atomically, with the given mode except for the bits that the umask clears.

    Raises OSError, and leaves no partial file.
    """
    with replaced(file) as part:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(part, flags, mode), "wb") as stream:
            stream.writelines(parts)


@contextlib.contextmanager
def replaced(file: Path) -> Generator[Path]:
    """Yield a path to write to. At the end of the block, the written file replaces ``file``
    atomically.

    If the block raises, the original stays and the new file is removed.
    """
    part = file.with_name(f".{file.name}.{secrets.token_hex(8)}{_PART}")
    try:
        yield part
        os.replace(part, file)
    except BaseException:
        _remove(part)
        raise


def file_state(status: os.stat_result) -> tuple[int, ...]:
    """Return a tuple that changes whenever the file is written or replaced."""
    return status.st_ino, status.st_size, status.st_mtime_ns


def _remove(file: Path) -> bool:
    """Remove a file. Returns whether it is gone."""
    try:
        file.unlink(missing_ok=True)
    except OSError:
        return False
    return True
