"""Models whose programs are kept on disk. The model is read only if a program is missing."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from tessella.driver import program_cache
from tessella.runtime.signature import ValueInfo
from tessella.support import disk
from tessella.support.errors import InvalidModelError, UnknownValueError
from tessella.support.sizes import Symbol

if TYPE_CHECKING:
    from tessella.dialects.graph import Graph
    from tessella.frontends.onnx import OnnxSource

Array = npt.NDArray[Any]

_LARGEST = 2**31 - 1
"""The most bytes that a model may have here. Larger ones are left to the importer, which refuses
them with a reason."""


class KeptSource:
    """An ONNX model by what identifies it; ``read`` gives the model itself."""

    symbols: Sequence[Symbol] = ()

    def __init__(
        self, model: object, settings: Mapping[str, Any], read: Callable[[], OnnxSource]
    ) -> None:
        self._model = model
        self._settings = settings
        self._read = read
        self._source: OnnxSource | None = None
        own = _identity(model, settings)
        signature = self._signature(own)
        self.inputs: Sequence[ValueInfo] = signature.inputs
        self.outputs: Sequence[ValueInfo] = signature.outputs
        self._kept = signature
        """What is known of the model without reading it."""
        self._own = own
        self.fingerprint = self._with_files(own)
        """None if there is no cache, or nothing identifies the model."""
        if self.fingerprint is None:
            self._opened()

    def graph(
        self, shapes: Mapping[str, tuple[int, ...]], values: Mapping[str, Array] | None = None
    ) -> Graph:
        """The program for these shapes of the inputs, and values of some. See ``Source``."""
        missing = [name for name in self._kept.by_value if name not in (values or {})]
        if missing:
            raise UnknownValueError("a value on which shapes depend", missing)
        try:
            graph = self._opened().graph(shapes, values)
        except UnknownValueError as error:
            self._learn(error.names)
            raise
        if not values and not any(isinstance(d, str) for info in self.inputs for d in info.shape):
            # there will be no other program: its weights take as much memory as the program's
            self._source = None
        return graph

    def _learn(self, names: Sequence[str]) -> None:
        """Keep the names of inputs on whose values shapes depend."""
        known = tuple(dict.fromkeys([*self._kept.by_value, *names]))
        if self._own is not None and known != tuple(self._kept.by_value):
            self._kept = replace(self._kept, by_value=known)
            program_cache.store_signature(self._own, self._kept)

    def _signature(self, own: str | None) -> program_cache.Signature:
        known = None if own is None else program_cache.fetch_signature(own)
        if known is not None:
            return known
        source = self._source = self._read()
        signature = program_cache.Signature(source.inputs, source.outputs, source.files)
        if own is not None:
            program_cache.store_signature(own, signature)
        return signature

    def _opened(self) -> OnnxSource:
        if self._source is None:
            self._source = self._read()
            if self._with_files(_identity(self._model, self._settings)) != self.fingerprint:
                self._source = None
                raise InvalidModelError("the model has changed since it was compiled")
        return self._source

    def _with_files(self, own: str | None) -> str | None:
        """What the model's own bytes and those of its other files identify."""
        if own is None or not self._kept.files or not isinstance(self._model, str | os.PathLike):
            return own
        digest = hashlib.sha256(own.encode())
        try:
            for name in self._kept.files:
                digest.update(_digest_of(Path(os.fsdecode(self._model)).parent / name))
        except (OSError, ValueError):
            return None
        return digest.hexdigest()


def _identity(model: object, settings: Mapping[str, Any]) -> str | None:
    """Names the bytes of a model, and how it is read; None if there is no cache, or it is no
    model."""
    if disk.home() is None:
        return None
    try:
        digest = hashlib.sha256(_contents(model))
        for name, value in sorted(settings.items()):
            _add(digest.update, name, value)
    except (OSError, ValueError, TypeError, MemoryError):
        return None
    return digest.hexdigest()


def _contents(model: object) -> bytes:
    """The bytes of a model. Raises OSError, ValueError, TypeError."""
    if isinstance(model, bytes):
        return model
    if isinstance(model, str | os.PathLike):
        return _plain_file(Path(os.fsdecode(model)), _LARGEST).read_bytes()
    if type(model).__name__ != "ModelProto":
        raise TypeError("it is no model")
    return cast(Any, model).SerializeToString(deterministic=True)


def _digest_of(path: Path) -> bytes:
    with _plain_file(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _plain_file(path: Path, largest: int | None = None) -> Path:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) or (largest is not None and status.st_size > largest):
        raise ValueError("it is no model's file")
    return path


def _add(update: Callable[[bytes], None], name: str, value: object) -> None:
    """Digest a setting: a number, or arrays by name."""
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
