"""Compiled objects on disk, keyed by their LLVM text and machine."""

from __future__ import annotations

import hashlib
import json
from functools import cache

from tessella.codegen import llvm
from tessella.codegen.llvm import Machine
from tessella.support.disk import Folder

FOLDER = Folder("kernels", 1 / 16)

VERSION = 3
"""The version of ``llvm.emit_object``'s output. Objects of other versions are ignored."""


def key(text: str, machine: Machine) -> str:
    """Return the cache key of an LLVM module compiled for a machine."""
    return f"{_made_by()} {json.dumps(machine)} {hashlib.sha256(text.encode()).hexdigest()}"


def get(text: str, machine: Machine) -> bytes | None:
    """Return the object that an LLVM module was compiled to from the disk cache; None if it is not
    there."""
    return FOLDER.get(key(text, machine))


def put(text: str, machine: Machine, image: bytes) -> None:
    """Store the object that an LLVM module was compiled to in the disk cache."""
    FOLDER.put(key(text, machine), image)


@cache
def _made_by() -> str:
    return f"{VERSION} {llvm.version()}"
