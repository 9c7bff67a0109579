"""The process that compiles programs for another process: see ``driver.worker.client``.

The first byte of a request is its kind. The content follows:

- COMPILE: a `ProgramRequest` as JSON.
- SEND: a bundle of weights.
- FETCH: the SHA-256 of weights of the last program, as JSON.

The first byte of an answer is its kind, too:

- PROGRAM: the timings as a line of JSON, then the program as an artifact.
- MISSING: the SHA-256 of weights that must be sent before the request is repeated, as JSON.
- WEIGHTS: a bundle of weights after FETCH, nothing after SEND.
- UNDECIDED: a `Refusal` as JSON.
- LATE: the step at which time ran out, as text.
- FAILED: the error as text.

`worker.NO_MEMORY` is an answer without content.
"""

from __future__ import annotations

import contextlib
import json
import os
from contextlib import nullcontext
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NoReturn

from tessella.codegen.worker import NO_MEMORY, serve
from tessella.dialects.graph import Graph, main_function, signature
from tessella.dialects.nn.core import shape_of
from tessella.driver.build.compile_graph import compile_graph
from tessella.driver.build.compiling import memory_to_compile
from tessella.driver.cache.program_cache import Refusal
from tessella.driver.cache.stored import compiled
from tessella.driver.stages.stage_file import parsed
from tessella.driver.worker import client
from tessella.driver.worker.client import ProgramRequest
from tessella.runtime.artifact import Array, CompiledModel, dump
from tessella.runtime.records import NotStorableError, decoded, encoded
from tessella.runtime.weights import WeightStore
from tessella.support import deadline, disk
from tessella.support.conditions import UndecidedSizeError
from tessella.support.errors import CompileTimeoutError, TessellaError

NICE = 10
"""The niceness of the process: calls in other processes have priority."""


def main(idle_seconds: float) -> NoReturn:
    """Answer requests of the parent process until none has come for ``idle_seconds``."""
    with contextlib.suppress(OSError):
        os.nice(NICE)
    serve(Compiler().answer, idle_seconds, lambda: None)


@dataclass
class Compiler:
    """The state of the process between requests."""

    given: dict[str, Array] = field(default_factory=dict[str, Array])
    """The weights of the last graph, by SHA-256."""
    made: dict[str, Array] = field(default_factory=dict[str, Array])
    """The large weights of the last program, by SHA-256."""

    def answer(self, request: bytes) -> bytes:
        """Return the answer to a request."""
        kind, content = request[:1], request[1:]
        if kind == client.SEND:
            self.given |= client.unbundled(content)
            return client.WEIGHTS
        if kind == client.FETCH:
            return client.WEIGHTS + client.bundle({x: self.made[x] for x in json.loads(content)})
        try:
            return self._compiled(decoded(ProgramRequest, json.loads(content)))
        except UndecidedSizeError as error:
            refusal = Refusal.of(error)
            return client.UNDECIDED + json.dumps(encoded(refusal)).encode()
        except CompileTimeoutError as error:
            return client.LATE + (error.where or "").encode()
        except MemoryError:
            return NO_MEMORY
        except (TessellaError, NotStorableError, OSError, ValueError) as error:
            # the requesting process compiles the graph itself, and raises the full error
            return client.FAILED + f"{type(error).__name__}: {error}".partition("\n")[0].encode()

    def _compiled(self, wanted: ProgramRequest) -> bytes:
        needed = {weight.sha256 for weight in wanted.weights.values()}
        self.given = {name: flat for name, flat in self.given.items() if name in needed}
        self.made = {}
        if missing := sorted(needed - self.given.keys()):
            return client.MISSING + json.dumps(missing).encode()
        if wanted.cache is not None:
            os.environ["TESSELLA_CACHE"] = wanted.cache
        cached = nullcontext() if wanted.cache is not None else disk.off()
        with cached, deadline.within(wanted.seconds), memory_to_compile():
            graph = self._graph(wanted)
            inputs, outputs = signature(graph.module)
            shapes = [*map(shape_of, main_function(graph.module).body.block.args)]
            built = compile_graph(graph, wanted.options)
        program = compiled(shapes, {}, built.program, wanted.options)
        parts = dump(CompiledModel(inputs, outputs, [program]), "", self._keep)
        timings = json.dumps(built.lowered.timings).encode()
        return b"".join([client.PROGRAM, timings, b"\n", *parts])

    def _graph(self, wanted: ProgramRequest) -> Graph:
        weights = WeightStore()
        for symbol, weight in wanted.weights.items():
            flat = self.given[weight.sha256].view(weight.spec.dtype)
            weights.add(symbol, flat.reshape(weight.spec.numbers))
        return parsed(wanted.stage, wanted.text, weights, "a graph of another process")

    def _keep(self, array: Array) -> str:
        name = sha256(array.data).hexdigest()
        self.made[name] = array
        return name
