"""Compilation in another process, while the threads of this process go on: passes hold the
interpreter's lock.

The other process (``driver.worker.server``) gets the graph as the text of its stage, with the
weights that it does not have from the previous request. It compiles the graph, and returns the
program as an artifact without its large weights. It then sends those large weights that no program
of this process has. It runs at a low priority, and ends when it has no work for a while.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tessella.codegen.worker import NO_MEMORY
from tessella.codegen.workers import DiedError, NoWorkersError, SharedPool, SilentError, Worker
from tessella.dialects.printing import to_text
from tessella.driver.cache.program_cache import Refusal
from tessella.driver.options import CheckedOptions
from tessella.driver.stages.stage_file import weight_symbols
from tessella.runtime import sharing
from tessella.runtime.arena import aligned
from tessella.runtime.artifact import Artifact
from tessella.runtime.elements import bytes_of
from tessella.runtime.program import Program
from tessella.runtime.records import decoded, encoded
from tessella.runtime.specs import TensorSpec
from tessella.support import deadline, disk
from tessella.support.errors import CompileTimeoutError, ResourceError
from tessella.support.logs import info

if TYPE_CHECKING:
    from tessella.dialects.graph import Graph

Array = npt.NDArray[Any]

MODULE = "tessella.driver.worker.server"
"""The module that a compiling process runs. This process does not import it."""

MOST = 2
"""The largest number of compiling processes: each may hold the weights of a model."""

SECONDS = 3600.0
"""Seconds after which a process without an answer counts as hung, if there is no deadline."""

ATTEMPTS = 2
"""The number of attempts to send a request: a process may just have ended because it was idle."""

PROGRAM, UNDECIDED, LATE, FAILED, MISSING, WEIGHTS = b"p", b"u", b"t", b"f", b"?", b"w"
"""The kinds of answers, which are their first bytes; `worker.NO_MEMORY` is another kind. MISSING
lists weights that must be sent before the request is repeated."""
COMPILE, SEND, FETCH = b"c", b"s", b"w"
"""The kinds of requests, which are their first bytes."""

BUNDLE = 64 << 20
"""The most bytes of weights in one message. A larger weight has its own message."""

COMPILERS = SharedPool(MODULE, MOST)


@dataclass(frozen=True)
class Weight:
    """A weight of a graph; its bytes are sent separately."""

    sha256: str
    spec: TensorSpec


@dataclass(frozen=True)
class ProgramRequest:
    """A request for the program of a graph."""

    stage: str
    text: str
    weights: Mapping[str, Weight]
    """The weights by symbol."""
    options: CheckedOptions
    seconds: float | None
    """Seconds until the deadline; None if there is no deadline."""
    cache: str | None
    """The folder of all caches; None if caching is off."""


@dataclass(frozen=True)
class Answer:
    """A program, and the seconds that the parts of its compilation took."""

    program: Program
    timings: Mapping[str, float]


def compiled(graph: Graph, options: CheckedOptions) -> Answer | Refusal | None:
    """Return the program of a graph, compiled in another process, or a Refusal: the reason why the
    graph cannot be compiled with symbols.

    None means that this process has to compile the graph, as there are no other processes or they
    fail. The graph is not changed. Raises CompileTimeoutError, and ResourceError if memory is
    short.
    """
    pool = COMPILERS.get()
    if pool.size == 0:
        return None
    end = deadline.current()
    until = monotonic() + SECONDS if end is None else end
    flats = {
        symbol: bytes_of(graph.weights[symbol]) for symbol in sorted(weight_symbols(graph.module))
    }
    names = {symbol: sha256(flat.data).hexdigest() for symbol, flat in flats.items()}
    request = _request(graph, names, options, end)
    weights = {names[symbol]: flat for symbol, flat in flats.items()}
    for _ in range(ATTEMPTS):
        try:
            with pool.worker(until) as one:
                return _answer(one, request, weights, until)
        except NoWorkersError as error:
            COMPILERS.refuse(pool, error)
            return None
        except SilentError as silent:
            raise _late(end, silent) from silent
        except DiedError as death:
            if death.no_memory or death.killed:
                raise ResourceError(
                    "there is not enough memory to compile the program", found=str(death)
                ) from death
            info("compile", "the process that compiles has died: %s", death)
    return None


def bundle(weights: Mapping[str, Array]) -> bytes:
    """Return one message with arrays of bytes: a line of JSON with names and sizes, then bytes."""
    sizes = {name: flat.size for name, flat in weights.items()}
    return b"".join([json.dumps(sizes).encode(), b"\n", *(flat.data for flat in weights.values())])


def unbundled(message: bytes) -> dict[str, Array]:
    """Return the arrays of a message of ``bundle``, each aligned to ``ALIGNMENT``."""
    line, _, _ = message.partition(b"\n")
    weights, at = dict[str, Array](), len(line) + 1
    for name, size in json.loads(line).items():
        weights[name] = aligned(size)
        weights[name][:] = np.frombuffer(message, np.uint8, size, at)
        at += size
    return weights


def _request(
    graph: Graph, names: Mapping[str, str], options: CheckedOptions, end: float | None
) -> bytes:
    home = disk.home()
    arrays = {symbol: graph.weights[symbol] for symbol in names}
    wanted = ProgramRequest(
        graph.stage,
        to_text(graph.module, wrap=False),
        {s: Weight(names[s], TensorSpec(a.shape, a.dtype)) for s, a in arrays.items()},
        options,
        None if end is None else max(0.0, end - monotonic()),
        None if home is None else str(home),
    )
    return COMPILE + json.dumps(encoded(wanted)).encode()


def _answer(
    one: Worker, request: bytes, weights: Mapping[str, Array], until: float
) -> Answer | Refusal | None:
    answer = one.ask(request, until)
    if answer[:1] == MISSING:
        for group in _groups({name: weights[name].size for name in json.loads(answer[1:])}):
            one.ask(SEND + bundle({name: weights[name] for name in group}), until)
        answer = one.ask(request, until)
    kind, content = answer[:1], answer[1:]
    if kind == PROGRAM:
        timings, _, artifact = content.partition(b"\n")
        return Answer(_program(artifact, one, until), json.loads(timings))
    if kind == UNDECIDED:
        return decoded(Refusal, json.loads(content))
    if kind == LATE:
        raise deadline.exceeded(content.decode())
    if kind == NO_MEMORY:
        raise ResourceError("there is not enough memory to compile the program")
    info("compile", "a program is compiled in this process: %s", content.decode())
    return None


def _program(artifact: bytes, one: Worker, until: float) -> Program:
    room = aligned(len(artifact))
    room[:] = np.frombuffer(artifact, np.uint8)
    found = Artifact(room.data, lambda wanted: _weights(one, wanted, until))
    [entry] = found.manifest.programs
    return found.program(entry)


def _weights(one: Worker, wanted: Sequence[tuple[str, int]], until: float) -> list[Array]:
    """Return the weights with the SHA-256 and the sizes in ``wanted``: from programs of this
    process, otherwise from the compiling process."""
    found = {name: sharing.named.get(name) for name, _ in wanted}
    for group in _groups({name: size for name, size in wanted if found[name] is None}):
        found |= unbundled(one.ask(FETCH + json.dumps(group).encode(), until)[1:])
    arrays = sharing.packed([array for name, _ in wanted if (array := found[name]) is not None])
    for (name, _), array in zip(wanted, arrays, strict=True):
        sharing.named[name] = array
    return arrays


def _groups(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Divide weights, given by name and size, into messages: yield the names of the weights in each
    message."""
    group, total = list[str](), 0
    for name, size in sizes.items():
        if group and total + size > BUNDLE:
            yield group
            group, total = [], 0
        group.append(name)
        total += size
    if group:
        yield group


def _late(end: float | None, silent: SilentError) -> CompileTimeoutError:
    if end is not None and monotonic() >= end:
        return deadline.exceeded("in a process that compiles", str(silent))
    return CompileTimeoutError(
        f"a process has not compiled a program after {SECONDS:.0f} s",
        found=str(silent),
        hint="report it; TESSELLA_WORKERS=0 compiles in the process that calls",
    )
