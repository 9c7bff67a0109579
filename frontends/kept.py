"""ONNX models whose programs are cached on disk. A model is read only if a program is missing."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tessella.driver.cache.cached_source import KeptSource
from tessella.support import disk
from tessella.support.disk import file_state
from tessella.support.errors import InvalidModelError

if TYPE_CHECKING:
    from tessella.frontends.onnx import OnnxSource

_LARGEST = 2**31 - 1
"""The maximum size in bytes of a model that is cached here. The importer refuses larger models,
with a reason."""


class KeptModel(KeptSource["OnnxSource"]):
    """An ONNX model, identified by its bytes and those of its external data."""

    def __init__(
        self, model: object, settings: Mapping[str, Any], read: Callable[[], OnnxSource]
    ) -> None:
        self._model = model
        self._settings = settings
        self._state = _state_of(model)
        """Numbers that describe the file before it was hashed. If they have changed since, the
        contents may have changed."""
        super().__init__(_identity(model, settings), read)

    def _first(self) -> OnnxSource:
        source = self._read()
        if _state_of(self._model) != self._state:
            raise _changed("while it was read", self._model)
        return source

    def _opened(self) -> OnnxSource:
        if self._source is None:
            state, source = _state_of(self._model), self._read()
            own = _identity(self._model, self._settings)
            is_same = self._whole(own, self._kept.files) == self.fingerprint
            if not is_same or _state_of(self._model) != state:
                raise _changed("since it was compiled", self._model)
            self._source = source
        return self._source

    def _files(self, source: OnnxSource) -> Sequence[str]:
        return source.files

    def _whole(self, own: str | None, files: Sequence[str]) -> str | None:
        if own is None or not files or not isinstance(self._model, str | os.PathLike):
            return own
        digest = hashlib.sha256(own.encode())
        try:
            for name in files:
                digest.update(_digest_of(Path(os.fsdecode(self._model)).parent / name))
        except (OSError, ValueError):
            return None
        return digest.hexdigest()


def _changed(when: str, model: object) -> InvalidModelError:
    where = os.fsdecode(model) if isinstance(model, str | os.PathLike) else None
    return InvalidModelError(f"the model has changed {when}", where=where, hint="compile it again")


def _state_of(model: object) -> tuple[int, ...]:
    """Return numbers that change when the model's file changes; an empty tuple if ``model`` does
    not name a file."""
    if not isinstance(model, str | os.PathLike):
        return ()
    try:
        return file_state(os.stat(model))
    except (OSError, ValueError):
        return ()


def _identity(model: object, settings: Mapping[str, Any]) -> str | None:
    """Return a hash of the model's bytes, its import settings and the version of onnx, whose op
    definitions the import uses. None without a cache, or if the model cannot be read."""
    if disk.home() is None:
        return None
    try:
        digest = hashlib.sha256(_contents(model))
        digest.update(f"onnx={version('onnx')}".encode())
        for name, value in sorted(settings.items()):
            _add(digest.update, name, value)
    except (OSError, ValueError, TypeError, MemoryError, PackageNotFoundError):
        return None
    return digest.hexdigest()


def _contents(model: object) -> bytes:
    """Return the bytes of a model. Raises OSError, ValueError, TypeError."""
    if isinstance(model, bytes):
        return model
    if isinstance(model, str | os.PathLike):
        return _plain_file(Path(os.fsdecode(model)), _LARGEST).read_bytes()
    if type(model).__name__ != "ModelProto":
        raise TypeError("it is not a model")
    return cast(Any, model).SerializeToString(deterministic=True)


def _digest_of(path: Path) -> bytes:
    with _plain_file(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _plain_file(path: Path, largest: int | None = None) -> Path:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) or (largest is not None and status.st_size > largest):
        raise ValueError("it is not the file of a model")
    return path


def _add(update: Callable[[bytes], None], name: str, value: object) -> None:
    """Pass the name and the value of an import setting (a number, or arrays by name) to the hash
    function ``update``."""
    if not isinstance(value, Mapping):
        update(f"{name}={value!r}".encode())
        return
    arrays = cast(Mapping[str, Any], value)
    for key in sorted(arrays):
        array = np.asarray(arrays[key])
        if array.dtype.hasobject:
            raise TypeError("it has no bytes")
        update(f"{name}.{key!r}={array.dtype!r}{array.shape}".encode())
        update(np.ascontiguousarray(array).tobytes())
