"""Programs for AArch64 on several emulated cores, with the code of the pool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import numpy as np
import pytest

from tessella.codegen import pool
from tessella.codegen.link import link
from tessella.dialects.graph import Graph
from tessella.driver import build
from tessella.driver.options import make_options
from tessella.runtime import program as runtime
from tessella.runtime.image import Image, Library
from tessella.runtime.pool import ENTER, GROW, LINE, POOL, TABLE, TEAM_BYTES, Team
from tessella.runtime.program import Program, ScanStep
from tessella.targets.table import TARGETS
from tests.codegen.aarch64 import Machine

NEON = TARGETS["neon"]


class Cores(Machine):
    """Cores with an image, in place of a library."""

    def __init__(self, image: Image, seed: int) -> None:
        super().__init__(image, seed)
        self._team = self.take(TEAM_BYTES)
        values = {name: self.functions.get(name, 0) for name in TABLE}
        values |= {"cores": 2, "cpus": self.take(LINE)}
        self.put(self._team, np.array([*values.values()], np.int64).tobytes())

    def address(self, name: str) -> int:
        """Where a function starts."""
        return self.functions[name]

    def team(self, threads: int, code: object) -> Team:
        """In place of ``POOL.team``."""
        self.call(self.functions[GROW], self._team, threads - 1)
        return Team(threads, self._team, self.function(self.functions[ENTER]))

    def function(self, address: int) -> Callable[..., None]:
        """What runs a function, in place of one of C."""
        return lambda *arguments: self.call(address, *arguments)


def compiled(graph: Graph, seed: int, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The program of a graph for AArch64, which runs on cores of its own."""
    program = build.build(graph, make_options(target="aarch64")).program
    assert program.code is not None
    cores = Cores(program.code.image, seed)
    monkeypatch.setattr(runtime, "_SEGMENT", cores.function)
    monkeypatch.setattr(POOL, "team", cores.team)
    program.code = cast(Library, cores)
    for body in (step.body for step in program.steps if isinstance(step, ScanStep)):
        body.code = program.code
    return program


def with_pool(objects: Mapping[str, bytes]) -> Image:
    """These objects and the pool's, linked."""
    return link({**objects, pool.NAME: pool.pool_object(NEON)})
