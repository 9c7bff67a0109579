"""Programs on disk, keyed by the model's bytes, input shapes, options and all versions."""

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
from tessella.driver.cache import cached_weights
from tessella.driver.options import CheckedOptions
from tessella.runtime.arena import aligned
from tessella.runtime.artifact import Artifact, CompiledModel, CompiledProgram, dump
from tessella.runtime.devices import find_device
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
from tessella.support.sizes import Size, expression
from tessella.targets import database
from tessella.targets.device_facts import DeviceFacts

T = TypeVar("T")

FOLDER = Folder("programs", 15 / 64)

SIGNATURES = Folder("signatures", 1 / 64)


@dataclass(frozen=True)
class Signature:
    """Facts about a model that are cached, to know them without reading the model."""

    inputs: Sequence[ValueInfo]
    outputs: Sequence[ValueInfo]
    files: Sequence[str]
    """Other files with tensors of the model, relative to the model's file."""
    determining: Sequence[str]
    """The names of the shape-determining inputs."""


@dataclass(frozen=True)
class Refusal:
    """The stored form of an `UndecidedSizeError`: why a program cannot be compiled with symbols."""

    what: str
    symbols: Sequence[str]
    turn: int | None
    apart: Size

    @staticmethod
    def of(error: UndecidedSizeError) -> Refusal:
        """Return the stored form of an error."""
        what, apart = str(error).partition("\n")[0], expression(error.apart)
        return Refusal(what, sorted(error.symbols), error.turn, 0 if apart is None else apart)

    @property
    def error(self) -> UndecidedSizeError:
        """The stored error, recreated."""
        return UndecidedSizeError(self.what, self.symbols, self.turn, self.apart)


def key(model: str | None, made_for: Hashable, options: CheckedOptions) -> str | None:
    """Return the cache key of a program, given the key of its model, and ``made_for``, the shapes
    and values of inputs that the program is compiled for. None if it must not be cached: the model
    has no key, the cache is off, or code of the caller, plugins or debug passes take part, whose
    behaviour can change at any time."""
    if model is None or options.has_code or not _can_be_kept():
        return None
    target = targets.resolve(options.target)
    measured = database.digest(options.database) if Path(options.database).is_file() else ""
    made = repr(made_for), repr(options), repr(target), repr(_facts(options))
    return json.dumps([model, *made, measured, _versions()])


def _facts(options: CheckedOptions) -> Sequence[DeviceFacts]:
    """Return the rates and limits of the devices other than the CPU that the requested places name.
    The choice and the code of kernels depend on them, so they are part of the key."""
    named = dict.fromkeys(place.partition("/")[0] for place in options.places)
    found = filter(None, map(find_device, named))
    return [each.facts for each in found]


def fetch(
    key: str | None, is_wanted: Callable[[Manifest], bool]
) -> tuple[Program, Rest[Interface] | None] | None:
    """Return the cached program of a key and its continuation; None if it is not on disk, does not
    load, or has a manifest that is not wanted."""
    data = None if key is None else FOLDER.read(key, lambda size: aligned(size).data)
    if data is None:
        return None
    try:
        found = Artifact(data, cached_weights.find)
    except (InvalidModelError, cached_weights.MissingError) as error:
        info("compile", "a cached program does not load, and is recompiled: %s", error)
        return None
    return only_program(found, is_wanted)


def only_program(
    found: Artifact, is_wanted: Callable[[Manifest], bool]
) -> tuple[Program, Rest[Interface] | None] | None:
    """Return the only program of an artifact and its continuation; None if ``is_wanted`` rejects
    the artifact's manifest."""
    if not is_wanted(found.manifest):
        info("compile", "a program does not match its key, and is recompiled")
        return None
    [entry] = found.manifest.programs
    rest = None
    if entry.rest is not None:
        rest = found.rest(entry.rest, lambda record: record.interface)
    return found.program(entry), rest


def store(
    key: str | None,
    inputs: Sequence[ValueInfo],
    outputs: Sequence[ValueInfo],
    made: CompiledProgram,
) -> None:
    """Store a program under a key if the disk allows. ``inputs`` and ``outputs`` are the signature
    of its model. Without a key, nothing is stored."""
    if key is None:
        return
    try:
        parts = dump(CompiledModel([*inputs], [*outputs], [made]), "", cached_weights.keep)
    except NotStorableError:
        return
    FOLDER.put(key, *parts)


def refuse(key: str | None, error: UndecidedSizeError | UnsupportedError) -> None:
    """Store that a key's program cannot be compiled with symbols, and why."""
    if key is not None:
        if isinstance(error, UnsupportedError):  # stored as an undecided size without symbols
            error = UndecidedSizeError(str(error).partition("\n")[0], ())
        _keep(f"{key} refused", Refusal.of(error))


def refusal(key: str | None) -> UndecidedSizeError | None:
    """Return the stored error that says why a key's program cannot be compiled with symbols; None
    if none is stored."""
    found = None if key is None else _kept(Refusal, f"{key} refused")
    return None if found is None else found.error


def fetch_signature(model: str) -> Signature | None:
    """Return the cached signature of the model with this key; None if it is not cached."""
    return _kept(Signature, f"{model} {_versions()}") if _can_be_kept() else None


def store_signature(model: str, signature: Signature) -> None:
    """Store the signature of the model with this key if it can be cached."""
    if _can_be_kept():
        _keep(f"{model} {_versions()}", signature)


def _keep(key: str, record: object) -> None:
    SIGNATURES.put(key, json.dumps(encoded(record)).encode())


def _kept(kind: type[T], key: str) -> T | None:
    """Return the record of type ``kind`` that is stored under a key; None if there is none, or if
    it does not decode."""
    data = SIGNATURES.get(key)
    try:
        return None if data is None else decoded(kind, json.loads(data))
    except (ValueError, RecursionError):
        return None


def is_repeatable() -> bool:
    """Return whether another process would compile the same programs.

    Plugins, kernels and converters of this process, and debug passes can change at any time.
    """
    return not (KNOBS.debug_passes or _has_plugins() or any(map(_has_added, _REGISTRIES)))


def _can_be_kept() -> bool:
    return FOLDER.path() is not None and is_repeatable()


def _has_plugins() -> bool:
    return any(plugins.plugins(group) for group in plugins.GROUPS)


_REGISTRIES = ("tessella.kernels.registry", "tessella.frontends.onnx.registry")
"""Modules with registries to which this process may have added entries."""


def _has_added(module: str) -> bool:
    """Return whether this process has added entries to the registry in a module; False if the
    module has not been imported."""
    registry: Any = sys.modules.get(module)
    return registry is not None and registry.has_added()


@cache
def _versions() -> str:
    """Return text that changes with the version of every package that takes part, and with every
    tessella file."""
    digest = hashlib.sha256(f"llvmlite {version('llvmlite')} xdsl {version('xdsl')}".encode())
    found = {**sources(), **_llvm()}
    for path, status in sorted(found.items()):
        digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _llvm() -> Mapping[str, os.stat_result]:
    """Return the status of each of llvmlite's libraries, by path. The libraries are not loaded."""
    spec = find_spec("llvmlite")
    folders = [] if spec is None else spec.submodule_search_locations or []
    found = (path for folder in folders for path in Path(folder, "binding").glob("*llvmlite.*"))
    return {str(path): path.stat() for path in found}


def sources() -> Mapping[str, os.stat_result]:
    """Return the status of each Python file of tessella, by path."""
    root = Path(__file__).absolute().parents[2]
    found: dict[str, os.stat_result] = {}
    for folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        found |= {
            f"{folder}/{name}": os.stat(f"{folder}/{name}") for name in files if name[-3:] == ".py"
        }
    return found
