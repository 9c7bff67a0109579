"""Tensor data in files beside the model. Only files inside the model's folder are read, after
checks."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

from tessella.support.disk import file_state
from tessella.support.errors import InvalidModelError


@dataclass(frozen=True)
class DataLocation:
    """The location of a tensor's data: ``size`` bytes at ``offset`` of a file."""

    path: str
    offset: int
    size: int


def location(entries: Mapping[str, str], size: int, where: str) -> DataLocation:
    """Return the location that the entries of ``external_data`` give a tensor of ``size`` bytes.
    Raises InvalidModelError."""
    path = entries.get("location", "")
    offset, length = (_number(entries, key, default, where) for key, default in _FIELDS)
    if length not in (-1, size):
        raise InvalidModelError(
            "external data of the wrong length",
            where=where,
            expected=f"{size} bytes",
            found=str(length),
        )
    return DataLocation(path, offset, size)


_FIELDS = (("offset", 0), ("length", -1))


def _number(entries: Mapping[str, str], key: str, default: int, where: str) -> int:
    if key not in entries:
        return default
    text = entries[key]
    # int() alone would accept "1_0", " 1 " and digits of other scripts
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise InvalidModelError(
            f"external data with a malformed {key}",
            where=where,
            expected="a number that is not negative",
            found=repr(text[:40]),
        )
    return int(text)


class ExternalFiles:
    """The files that a model may read: those in the folder of the model's file, or none if
    ``model`` is None.

    If the model's path is a link, the folder of its target is allowed too, because download caches
    store all files there under other names.
    """

    def __init__(self, model: Path | None) -> None:
        self._folder = model.parent.resolve() if model else None
        self._roots = (model.parent.resolve(), model.resolve().parent) if model else ()
        self.names: set[str] = set()
        """The paths of the files that the model refers to, relative to its folder."""
        self._states: dict[str, tuple[int, ...]] = {}
        """The state of each file at its first check. If it has changed since, the contents may have
        changed."""

    def check(self, place: DataLocation, where: str) -> None:
        """Check a file, and raise InvalidModelError unless it has the bytes at this location."""
        self.names.add(place.path)
        descriptor = self._open(place, where)
        try:
            self._states.setdefault(place.path, file_state(os.fstat(descriptor)))
        finally:
            os.close(descriptor)

    def read(self, place: DataLocation, where: str) -> bytearray:
        """Return the bytes at a location. Raises InvalidModelError if the file does not have them,
        or has changed since it was checked."""
        descriptor = self._open(place, where)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            file.seek(place.offset)
            data = bytearray(place.size)
            view, done = memoryview(data), 0
            while done < place.size:
                count = file.readinto(view[done:])
                if not count:
                    raise InvalidModelError("the external data file became shorter", where=where)
                done += count
            state = file_state(os.fstat(file.fileno()))
            if self._states.setdefault(place.path, state) != state:
                raise InvalidModelError(
                    "the external data has changed since the model was read",
                    where=where,
                    found=repr(place.path),
                    hint="compile the model again",
                )
            return data

    def _open(self, place: DataLocation, where: str) -> int:
        path = self._resolve(place.path, where)
        # The path is resolved, so no link is followed; NONBLOCK keeps a pipe from blocking.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise InvalidModelError(
                f"cannot read external data: {error.strerror}",
                where=where,
                found=repr(place.path),
                hint="keep the data file in the model's folder, under the name in the model",
            ) from error
        try:
            _check_file(descriptor, place, where)
        except InvalidModelError:
            os.close(descriptor)
            raise
        return descriptor

    def _resolve(self, name: str, where: str) -> Path:
        if self._folder is None:
            raise InvalidModelError(
                "the model keeps tensors in other files",
                where=where,
                found=f"external data in {name!r}",
                hint="pass the model's path, so that its folder is known",
            )
        if not _is_inside(name):
            raise _escape(name, where)
        try:
            path = (self._folder / name).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise InvalidModelError(f"cannot read external data: {error}", where=where) from error
        if not any(path.is_relative_to(root) for root in self._roots):
            raise _escape(name, where)
        return path


def _is_inside(name: str) -> bool:
    """Return whether a relative name stays inside its folder, on every system."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if not name or "\0" in name or posix.is_absolute() or windows.drive or windows.root:
        return False
    return ".." not in posix.parts and ".." not in windows.parts


def _escape(name: str, where: str) -> InvalidModelError:
    return InvalidModelError(
        "external data outside the model's folder",
        where=where,
        expected="a file inside the model's folder, not reached through `..` or a link",
        found=repr(name),
        hint="copy the data file into the model's folder",
    )


def _check_file(descriptor: int, place: DataLocation, where: str) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise InvalidModelError(
            "external data is not a plain file", where=where, found=repr(place.path)
        )
    if place.offset + place.size > status.st_size:
        raise InvalidModelError(
            "external data reaches over its file's end",
            where=where,
            expected=f"{place.size} bytes from byte {place.offset} on",
            found=f"{place.path!r} of {status.st_size} bytes",
        )
