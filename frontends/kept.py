"""Models whose programs are kept on disk: read only where a program is not there yet."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tessella.driver import program_cache
from tessella.runtime.signature import ValueInfo
from tessella.support import disk
from tessella.support.errors import InvalidModelError

if TYPE_CHECKING:
    from tessella.dialects.graph import Graph
    from tessella.frontends.onnx import OnnxSource

_LARGEST = 2**31 - 1
"""Bytes of a model: what has more is read, and refused, by who knows why."""


class KeptSource:
    """An ONNX model by what identifies it; ``read`` gives the model itself."""

    def __init__(self, identify: Callable[[], str | None], read: Callable[[], OnnxSource]) -> None:
        self._identify = identify
        self._read = read
        self._source: OnnxSource | None = None
        self.fingerprint = identify()
        """None for a model that is not all in one file."""
        self.inputs: Sequence[ValueInfo]
        self.outputs: Sequence[ValueInfo]
        self.inputs, self.outputs = self._signature()

    def graph(self, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
        """The program for these shapes of the inputs. Raises TessellaError."""
        return self._opened().graph(shapes)

    def _signature(self) -> program_cache.Signature:
        if self.fingerprint is not None:
            known = program_cache.fetch_signature(self.fingerprint)
            if known is not None:
                return known
        source = self._source = self._read()
        signature = source.inputs, source.outputs
        if not source.is_whole:
            self.fingerprint = None
        elif self.fingerprint is not None:
            program_cache.store_signature(self.fingerprint, signature)
        return signature

    def _opened(self) -> OnnxSource:
        if self._source is None:
            source = self._read()
            if self._identify() != self.fingerprint:
                raise InvalidModelError("the model's file has changed since it was compiled")
            self._source = source
        return self._source


def identify(model: object, settings: Mapping[str, Any]) -> str | None:
    """Names the content of an ONNX file, or its bytes, and how it is read; None where there is no
    cache, or it is no such thing."""
    if disk.home() is None:
        return None
    try:
        data = model if isinstance(model, bytes) else _contents(model)
        digest = hashlib.sha256(data)
        for name, value in sorted(settings.items()):
            _add(digest.update, name, value)
    except (OSError, ValueError, TypeError):
        return None
    return digest.hexdigest()


def _contents(model: object) -> bytes:
    """The bytes of a plain file. Raises OSError, ValueError, TypeError."""
    if not isinstance(model, str | os.PathLike):
        raise TypeError("it is no path")
    path = Path(os.fsdecode(model))
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
        raise ValueError("it is no model's file")
    return path.read_bytes()


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


__all__ = ["KeptSource", "identify"]
