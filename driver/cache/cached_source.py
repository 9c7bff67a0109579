"""Sources whose programs are cached on disk. The source itself is read only if a program is
missing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy.typing as npt

from tessella.driver.cache import program_cache
from tessella.driver.cache.program_cache import Signature
from tessella.runtime.signature import ValueInfo
from tessella.support.sizes import Size, Symbol

if TYPE_CHECKING:
    from tessella.dialects.graph import Graph, Source

Array = npt.NDArray[Any]
S = TypeVar("S", bound="Source")


class KeptSource(Generic[S]):
    """A source with an identity, by which its programs are cached. ``read`` returns the source
    itself."""

    symbols: Sequence[Symbol] = ()

    def __init__(self, own: str | None, read: Callable[[], S]) -> None:
        """``own`` identifies the source; it is None without a cache or an identity. ``read`` is
        called when the source itself is needed."""
        self._own = own
        self._read = read
        self._source: S | None = None
        self._kept = self._signature()
        """Facts about the source that are known without reading it."""
        self.inputs: Sequence[ValueInfo] = self._kept.inputs
        self.outputs: Sequence[ValueInfo] = self._kept.outputs
        self.determining: Sequence[str] = self._kept.determining
        self.fingerprint = self._whole(own, self._kept.files)
        """The identity of the source with all its files; None without a cache or an identity."""
        if self.fingerprint is None:
            self._opened()

    def graph(
        self, shapes: Mapping[str, tuple[Size, ...]], values: Mapping[str, Array] | None = None
    ) -> Graph:
        """Return the program for these shapes of the inputs, specialised on ``values``, the values
        of some inputs. See ``Source``."""
        graph = self._opened().graph(shapes, values)
        if not values and not any(isinstance(d, str) for info in self.inputs for d in info.shape):
            # No other program follows, and the source's weights take as much memory as the
            # program's.
            self._source = None
        return graph

    def _signature(self) -> Signature:
        known = None if self._own is None else program_cache.fetch_signature(self._own)
        if known is not None:
            return known
        source = self._source = self._first()
        files = self._files(source)
        signature = Signature(source.inputs, source.outputs, files, source.determining)
        if self._own is not None:
            program_cache.store_signature(self._own, signature)
        return signature

    def _first(self) -> S:
        """Read the source for the first time, right after it was identified. A subclass can check
        that the source did not change meanwhile."""
        return self._read()

    def _opened(self) -> S:
        if self._source is None:
            self._source = self._read()
        return self._source

    def _files(self, source: S) -> Sequence[str]:
        """Return the names of the files that belong to the source, in addition to its main file."""
        return ()

    def _whole(self, own: str | None, files: Sequence[str]) -> str | None:
        """Return an identity of the source together with its further files, given ``own``, the
        identity of its main file."""
        return own


def inner(
    program: str | None, number: int, infos: Sequence[ValueInfo], read: Callable[[], Source]
) -> Source:
    """Return the source of a subprogram, which ``read`` returns.

    Its identity consists of ``program``, the key of the program that contains the subprogram,
    ``number``, the subprogram's number there, and ``infos``, the types of its inputs. If
    ``program`` is None, the source has no identity.
    """
    if program is None:
        return read()
    text = repr((program, number, [(i.name, i.dtype, i.shape) for i in infos]))
    return KeptSource(hashlib.sha256(text.encode()).hexdigest(), read)
