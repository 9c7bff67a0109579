"""The process that compiles programs for another one: see ``driver.apart``.

A request is one byte for its kind. COMPILE is followed by a line of JSON, a `Request`, and by the
bytes of a model without a path; FETCH by the SHA-256 of a weight of the last program. An answer is
one byte for its kind; PROGRAM is followed by a line of JSON, the timings, and by an artifact.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import NoReturn

from tessella.codegen.worker import NO_MEMORY, serve
from tessella.driver import apart
from tessella.driver.apart import Origin, Request
from tessella.driver.compiling import quiet
from tessella.driver.executable import compiled_rest
from tessella.driver.kept_source import KeptSource
from tessella.driver.key import Key
from tessella.driver.making import Making, stored
from tessella.driver.model import part_of_model
from tessella.driver.program_cache import Refusal
from tessella.frontends.compile import open_onnx
from tessella.frontends.onnx import OnnxSource
from tessella.runtime.artifact import Array, CompiledModel, dump
from tessella.runtime.records import NotStorableError, decoded, encoded
from tessella.support import deadline, disk
from tessella.support.conditions import UndecidedSizeError
from tessella.support.disk import file_state
from tessella.support.errors import CompileTimeoutError, TessellaError

NICE = 10
"""The niceness of the process, as calls of other processes go on meanwhile."""


def main(idle_seconds: float) -> NoReturn:
    """Serve requests until none has arrived for ``idle_seconds``."""
    with contextlib.suppress(OSError):
        os.nice(NICE)
    serve(Compiler().answer, idle_seconds, lambda: None)


@dataclass
class Compiler:
    """The state of the process between requests."""

    origin: Origin | None = None
    source: KeptSource[OnnxSource] | None = None
    """The model of the last request."""
    weights: dict[str, Array] = field(default_factory=dict[str, Array])
    """The large weights of the last program, by SHA-256."""

    def answer(self, request: bytes) -> bytes:
        """Return the answer to a request."""
        kind, content = request[:1], request[1:]
        if kind == apart.FETCH:
            return apart.WEIGHT + self.weights[content.decode()].tobytes()
        line, _, data = content.partition(b"\n")
        try:
            return self._compiled(decoded(Request, json.loads(line)), data)
        except UndecidedSizeError as error:
            refusal = Refusal.of(error)
            return apart.UNDECIDED + json.dumps(encoded(refusal)).encode()
        except CompileTimeoutError as error:
            return apart.LATE + (error.where or "").encode()
        except MemoryError:
            return NO_MEMORY
        except (TessellaError, NotStorableError, OSError, ValueError) as error:
            # the requesting process finds the error itself, with all details
            return apart.FAILED + f"{type(error).__name__}: {error}".partition("\n")[0].encode()

    def _compiled(self, wanted: Request, data: bytes) -> bytes:
        if wanted.cache is not None:
            os.environ["TESSELLA_CACHE"] = wanted.cache
        self.weights = {}
        cached = nullcontext() if wanted.cache is not None else disk.off()
        with cached, deadline.within(wanted.seconds):
            source = self._opened(wanted.origin, data)
            if source is None:
                return apart.UNKNOWN
            values = tuple(each.value for each in wanted.values)
            key = Key(wanted.made, values, wanted.sizes)
            types = source, source.inputs, source.outputs
            made = Making(*types, key, wanted.options, part_of_model, forgets=True).run(quiet)
        rest = None if made.rest is None else compiled_rest(made.rest)
        program = stored(source.inputs, key, made.program, wanted.options, rest=rest)
        parts = dump(CompiledModel([*source.inputs], [*source.outputs], [program]), "", self._keep)
        timings = json.dumps(dict(made.timings)).encode()
        return b"".join([apart.PROGRAM, timings, b"\n", *parts])

    def _keep(self, array: Array) -> str:
        name = hashlib.sha256(array.data).hexdigest()
        self.weights[name] = array
        return name

    def _opened(self, origin: Origin, data: bytes) -> KeptSource[OnnxSource] | None:
        """Return the model; None if its bytes have to be sent."""
        if self.origin == origin and self.source is not None:
            return self.source
        if origin.path is None and not data:
            return None
        self.origin = self.source = None
        if origin.path is not None and str(file_state(os.stat(origin.path))) != origin.state:
            raise OSError("the model's file has changed")
        constants = {name: each.array for name, each in origin.constants.items()}
        source = open_onnx(
            data if origin.path is None else origin.path,
            values=constants,
            max_bytes=origin.max_bytes,
        )
        if origin.fingerprint not in (None, source.fingerprint):
            raise OSError("the model has changed")
        self.origin, self.source = origin, source
        return source
