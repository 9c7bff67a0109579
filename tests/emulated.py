"""Programs for AArch64 on several emulated cores, with the code of the pool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from weakref import WeakKeyDictionary

import numpy as np
import pytest

from tessella import targets
from tessella.codegen import pool
from tessella.codegen.link import link
from tessella.dialects.graph import Graph
from tessella.driver.build import build
from tessella.driver.options import make_options
from tessella.runtime import native_steps, watch
from tessella.runtime.image import Image, Library
from tessella.runtime.pool import ENTER, GROW, POOL, TABLE, Team, team_bytes
from tessella.runtime.program import Program
from tessella.targets.table import TARGETS
from tests.codegen.aarch64 import Machine

NEON = TARGETS["neon"]


class Cores(Machine):
    """Cores with an image."""

    def __init__(self, image: Image, seed: int) -> None:
        super().__init__(image, seed)
        self._team = self.take(team_bytes(3))
        values = {name: self.functions.get(name, 0) for name in TABLE}
        values |= {"cores": 2, "online": 2, "places": 3, "elastic": 1}
        self.put(self._team, np.array([*values.values()], np.int64).tobytes())

    def team(self, threads: int) -> Team:
        """A team of so many threads."""
        self.call(self.functions[GROW], self._team, threads - 1)
        return Team(threads, self._team, self.function(self.functions[ENTER]))

    def function(self, address: int) -> Callable[..., None]:
        """Return a callable that runs the emulated function, as ctypes would run one of C."""
        return lambda *arguments: self.call(address, *arguments)


class _Address(int):
    """The address of a function on emulated cores."""

    cores: Cores


class Emulator:
    """Runs images on their own cores, in place of this machine."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._cores: WeakKeyDictionary[Library, Cores] = WeakKeyDictionary()

    def cores(self, library: Library) -> Cores:
        """The cores that have a library's image."""
        if library not in self._cores:
            self._cores[library] = Cores(library.image, self._seed)
        return self._cores[library]

    def address(self, library: Library, name: str) -> int:
        """A replacement for ``Library.address``."""
        cores = self.cores(library)
        found = _Address(cores.functions[name])
        found.cores = cores
        return found

    def segment(self, address: _Address) -> Callable[..., None]:
        """A replacement for the ctypes function type of segments."""
        return address.cores.function(address)

    def team(self, threads: int, code: Library) -> Team:
        """A replacement for ``POOL.team``."""
        return self.cores(code).team(threads)


def emulate(monkeypatch: pytest.MonkeyPatch, seed: int = 0) -> None:
    """Have all native code run by an emulator, and all targets able to run. Code must be for
    AArch64."""
    emulator = Emulator(seed)
    monkeypatch.setattr(Library, "address", lambda self, name: emulator.address(self, name))
    monkeypatch.setattr(native_steps, "SEGMENT", emulator.segment)
    monkeypatch.setattr(POOL, "team", emulator.team)
    monkeypatch.setattr(targets, "can_run", lambda target: True)
    # the functions that loops would call are those of this machine
    monkeypatch.setattr(watch, "_clock", lambda: 0)


def compiled(graph: Graph, seed: int, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The program of a graph for AArch64, which runs on cores of its own."""
    emulate(monkeypatch, seed)
    return build.build(graph, make_options(target="aarch64")).program


def with_pool(objects: Mapping[str, bytes]) -> Image:
    """These objects and the pool's, linked."""
    return link({**objects, pool.NAME: pool.pool_object(NEON)})
