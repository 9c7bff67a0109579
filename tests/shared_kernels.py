"""LLVM compiles a kernel once in all runs of the tests: the same text comes up in many of them.

All that leads to the text, and all that follows from the object, happens in each test.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from tessella.codegen import kernel_cache, llvm
from tessella.support.disk import Folder
from tessella.targets import Target

OWN = kernel_cache.FOLDER
"""The folder of the product."""

KEPT = Path(__file__).parent.parent / "build" / "kernels"
"""Objects of this run and of others before it."""

_MADE_BY = hashlib.sha256(Path(llvm.__file__).read_bytes()).hexdigest()
"""The source of what makes an object of a text. Its version is raised for releases only."""


class _Kept(Folder):
    """The folder of all runs, whatever folder a test asks for."""

    def path(self) -> Path | None:
        return KEPT

    def _file(self, key: str) -> Path | None:
        return super()._file(f"{_MADE_BY} {key}")


class _Shared(_Kept):
    """The product's folder where a test asks for one, else that of all runs."""

    def path(self) -> Path | None:
        return OWN.path() or KEPT


KEPT_ONLY = _Kept(OWN.name, OWN.share)
SHARED = _Shared(OWN.name, OWN.share)


def share() -> None:
    """Have this process find objects of other tests, and keep its own for them."""
    kernel_cache.FOLDER = SHARED


def kept_object(text: str, target: Target) -> bytes:
    """The object of an LLVM text."""
    machine = llvm.Machine.of(target)
    image = kernel_cache.get(text, machine)
    if image is None:
        image = llvm.emit_object(text, machine)
        kernel_cache.put(text, machine, image)
    return image
