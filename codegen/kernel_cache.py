"""Compiled objects on disk, by the text and the machine that they were made from."""

from __future__ import annotations

import hashlib
import json
from functools import cache

from tessella.codegen import llvm
from tessella.codegen.llvm import Machine
from tessella.support.disk import Folder

FOLDER = Folder("kernels", 1 / 16)

VERSION = 3
"""The version of what ``llvm.emit_object`` makes of a text. Objects of other versions are not
used."""


def key(text: str, machine: Machine) -> str:
    """Names the object of a text for a machine."""
    return f"{_made_by()} {json.dumps(machine)} {hashlib.sha256(text.encode()).hexdigest()}"


def get(text: str, machine: Machine) -> bytes | None:
    """The object, if it is on disk."""
    return FOLDER.get(key(text, machine))


def put(text: str, machine: Machine, image: bytes) -> None:
    """Keep an object for later."""
    FOLDER.put(key(text, machine), image)


@cache
def _made_by() -> str:
    return f"{VERSION} {llvm.version()}"
