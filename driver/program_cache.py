"""Programs on disk, by the model's bytes, the shapes of inputs, the options and all versions."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from tessella import targets
from tessella.driver import kept_weights
from tessella.driver.options import CheckedOptions
from tessella.runtime.arena import aligned
from tessella.runtime.artifact import Artifact, Compiled, CompiledModel, dump
from tessella.runtime.manifest import Manifest
from tessella.runtime.program import Program
from tessella.runtime.records import NotStorableError, decoded, encoded
from tessella.runtime.rest import Interface, Rest
from tessella.runtime.signature import ValueInfo
from tessella.support import plugins
from tessella.support.conditions import UndecidedSizeError
from tessella.support.disk import Folder
from tessella.support.errors import InvalidModelError, UnsupportedError
from tessella.support.knobs import KNOBS
from tessella.support.logs import info
from tessella.targets import database

T = TypeVar("T")

FOLDER = Folder("programs", 15 / 64)

SIGNATURES = Folder("signatures", 1 / 64)


@dataclass(frozen=True)
class Signature:
    """What is known of a model before it is read."""

    inputs: Sequence[ValueInfo]
    outputs: Sequence[ValueInfo]
    files: Sequence[str]
    """The other files that hold tensors of it, relative to its own."""
    nodes: int = 0
    """As many as the model has; 0 for a subprogram."""
    by_value: Sequence[str] = ()
    """Inputs on whose values shapes are known to depend."""


@dataclass(frozen=True)
class Refusal:
    """An `UndecidedSizeError`."""

    what: str
    symbols: Sequence[str]
    turn: int | None

    @staticmethod
    def of(error: UndecidedSizeError) -> Refusal:
        """What is kept of an error."""
        return Refusal(str(error).partition("\n")[0], sorted(error.symbols), error.turn)

    @property
    def error(self) -> UndecidedSizeError:
        """The error."""
        return UndecidedSizeError(self.what, self.symbols, self.turn)


def key(model: str | None, made_for: Hashable, options: CheckedOptions) -> str | None:
    """Names the program of a model, which ``model`` names, by what it is made for; None where none
    is to be kept: what plugins and debug passes do can change at any time."""
    if model is None or not _can_be_kept():
        return None
    target = targets.resolve(options.target)
    measured = database.digest(options.database) if Path(options.database).is_file() else ""
    return json.dumps([model, repr(made_for), repr(options), repr(target), measured, _versions()])


def fetch(
    key: str | None, is_wanted: Callable[[Manifest], bool]
) -> tuple[Program, Rest[Interface] | None] | None:
    """The program, and what follows if it is cut; None if it is not on disk, or does not load."""
    data = None if key is None else FOLDER.read(key, lambda size: aligned(size).data)
    if data is None:
        return None
    try:
        found = Artifact(data, kept_weights.find)
    except (InvalidModelError, kept_weights.MissingError) as error:
        info("compile", "a program on disk does not load, and is compiled anew: %s", error)
        return None
    return only_program(found, is_wanted)


def only_program(
    found: Artifact, is_wanted: Callable[[Manifest], bool]
) -> tuple[Program, Rest[Interface] | None] | None:
    """The one program of an artifact, and what follows if it is cut; None for another than is
    wanted."""
    if not is_wanted(found.manifest):
        info("compile", "a program is another than its key says, and is compiled anew")
        return None
    [entry] = found.manifest.programs
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


def refuse(key: str | None, error: UndecidedSizeError | UnsupportedError) -> None:
    """Keep that what the key names cannot be compiled with symbols, and why."""
    if key is not None:
        if isinstance(error, UnsupportedError):  # for any number
            error = UndecidedSizeError(str(error).partition("\n")[0], ())
        _keep(f"{key} refused", Refusal.of(error))


def refusal(key: str | None) -> UndecidedSizeError | None:
    """Why what the key names cannot be compiled with symbols, if that is known."""
    found = None if key is None else _kept(Refusal, f"{key} refused")
    return None if found is None else found.error


def fetch_signature(model: str) -> Signature | None:
    """The signature of a model, if it was read before."""
    return _kept(Signature, f"{model} {_versions()}") if _can_be_kept() else None


def store_signature(model: str, signature: Signature) -> None:
    """Keep the signature of a model for later."""
    if _can_be_kept():
        _keep(f"{model} {_versions()}", signature)


def _keep(key: str, record: object) -> None:
    SIGNATURES.put(key, json.dumps(encoded(record)).encode())


def _kept(kind: type[T], key: str) -> T | None:
    """A record on disk; None if there is none, or it is none of this kind."""
    data = SIGNATURES.get(key)
    try:
        return None if data is None else decoded(kind, json.loads(data))
    except (ValueError, RecursionError):
        return None


def is_repeatable() -> bool:
    """Whether another process makes the same programs: what plugins, kernels of this process and
    debug passes do can change at any time."""
    return not (KNOBS.debug_passes or _has_plugins() or _has_kernels())


def _can_be_kept() -> bool:
    return FOLDER.path() is not None and is_repeatable()


def _has_plugins() -> bool:
    groups = (plugins.DIALECTS, plugins.HOST, plugins.KERNELS, plugins.PATTERNS, plugins.PASSES)
    return any(plugins.plugins(group) for group in groups)


def _has_kernels() -> bool:
    """Whether this process has declared kernels; none, if nothing has imported the registry."""
    registry: Any = sys.modules.get("tessella.kernels.registry")
    return registry is not None and registry.has_added()


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
