"""Programs on disk, by the model's bytes, the shapes of inputs, the options and all versions."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from tessella import targets
from tessella.driver import kept_weights
from tessella.driver.options import Options
from tessella.runtime.arena import aligned
from tessella.runtime.artifact import Artifact, Compiled, CompiledModel, dump
from tessella.runtime.program import Program
from tessella.runtime.records import NotStorableError
from tessella.runtime.rest import Interface, Rest
from tessella.runtime.signature import ValueInfo
from tessella.support import plugins
from tessella.support.disk import Folder
from tessella.support.knobs import KNOBS
from tessella.support.sizes import UndecidedSizeError
from tessella.targets import database

FOLDER = Folder("programs", 15 / 64)

SIGNATURES = Folder("signatures", 1 / 64)


@dataclass(frozen=True)
class Signature:
    """What is known of a model before it is read."""

    inputs: Sequence[ValueInfo]
    outputs: Sequence[ValueInfo]
    files: Sequence[str]
    """The other files that hold tensors of it, relative to its own."""
    by_value: Sequence[str] = ()
    """Inputs on whose values shapes are known to depend."""


def key(model: str | None, made_for: Hashable, options: Options) -> str | None:
    """Names the program of a model, which ``model`` names, by what it is made for; None where none
    is to be kept: what plugins and debug passes do can change at any time."""
    if model is None or not _can_be_kept():
        return None
    target = targets.resolve(options.target)
    measured = database.digest(options.database) if Path(options.database).is_file() else ""
    return json.dumps([model, repr(made_for), repr(options), repr(target), measured, _versions()])


def fetch(key: str | None) -> tuple[Program, Rest[Interface] | None] | None:
    """The program, if it is on disk, and what follows if it is cut."""
    data = None if key is None else FOLDER.read(key, lambda size: aligned(size).data)
    if data is None:
        return None
    try:
        found = Artifact(data, kept_weights.find)
    except kept_weights.MissingError:
        return None
    entry = found.manifest.programs[0]
    rest = None
    if entry.rest is not None:
        rest = found.rest(entry.rest, lambda record: record.interface)
    return found.program(entry), rest


def store(
    key: str | None, inputs: Sequence[ValueInfo], outputs: Sequence[ValueInfo], made: Compiled
) -> None:
    """Keep a program of a model with this signature for later, if it can be."""
    if key is None:
        return
    try:
        parts = dump(CompiledModel([*inputs], [*outputs], [made]), "", kept_weights.keep)
    except NotStorableError:
        return
    FOLDER.put(key, *parts)


def refuse(key: str | None, error: UndecidedSizeError) -> None:
    """Keep that what the key names cannot be compiled with symbols, and why."""
    if key is not None:
        why = str(error).partition("\n")[0]
        data = json.dumps([why, sorted(error.symbols), error.turn])
        SIGNATURES.put(f"{key} refused", data.encode())


def refusal(key: str | None) -> UndecidedSizeError | None:
    """Why what the key names cannot be compiled with symbols, if that is known."""
    data = None if key is None else SIGNATURES.get(f"{key} refused")
    return None if data is None else UndecidedSizeError(*json.loads(data))


def fetch_signature(model: str) -> Signature | None:
    """The signature of a model, if it was read before."""
    data = SIGNATURES.get(f"{model} {_versions()}") if _can_be_kept() else None
    if data is None:
        return None
    *values, files, by_value = json.loads(data)
    inputs, outputs = (
        [ValueInfo(name, dtype, tuple(shape)) for name, dtype, shape in infos] for infos in values
    )
    return Signature(inputs, outputs, files, by_value)


def store_signature(model: str, signature: Signature) -> None:
    """Keep the signature of a model for later."""
    if _can_be_kept():
        values = signature.inputs, signature.outputs
        listed = [[[i.name, i.dtype, i.shape] for i in infos] for infos in values]
        known = [list(signature.files), list(signature.by_value)]
        data = json.dumps([*listed, *known]).encode()
        SIGNATURES.put(f"{model} {_versions()}", data)


def _can_be_kept() -> bool:
    return FOLDER.path() is not None and not KNOBS.debug_passes and not _has_plugins()


def _has_plugins() -> bool:
    groups = (plugins.DIALECTS, plugins.HOST, plugins.KERNELS, plugins.PATTERNS, plugins.PASSES)
    return any(plugins.plugins(group) for group in groups)


@cache
def _versions() -> str:
    """Changes with the version of every package that makes programs, and with every file of
    tessella."""
    digest = hashlib.sha256(f"llvmlite {version('llvmlite')} xdsl {version('xdsl')}".encode())
    found = {**_sources(Path(__file__).absolute().parents[1]), **_llvm()}
    for path, status in sorted(found.items()):
        digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _llvm() -> Mapping[str, os.stat_result]:
    """The libraries of llvmlite, which take long to load."""
    spec = find_spec("llvmlite")
    folders = [] if spec is None else spec.submodule_search_locations or []
    found = (path for folder in folders for path in Path(folder, "binding").glob("*llvmlite.*"))
    return {str(path): path.stat() for path in found}


def _sources(root: Path) -> Mapping[str, os.stat_result]:
    found: dict[str, os.stat_result] = {}
    for folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        found |= {
            f"{folder}/{name}": os.stat(f"{folder}/{name}") for name in files if name[-3:] == ".py"
        }
    return found
