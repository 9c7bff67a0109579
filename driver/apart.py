"""Programs that are compiled in another process, while the threads of this one continue: passes
hold the interpreter's lock.

The process (``frontends.apart``) opens the model itself, compiles, and sends the program as an
artifact without its large weights. It sends those that no program of this process has. It runs at a
low priority, and ends when it is idle for a while.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tessella.codegen.worker import NO_MEMORY
from tessella.codegen.workers import DiedError, NoWorkersError, SharedPool, SilentError, Worker
from tessella.driver.by_value import Sizes, Value
from tessella.driver.options import CheckedOptions
from tessella.driver.program_cache import Refusal
from tessella.runtime import sharing
from tessella.runtime.arena import aligned
from tessella.runtime.artifact import Artifact
from tessella.runtime.records import decoded, encoded
from tessella.support import deadline, disk
from tessella.support.errors import CompileTimeoutError, ResourceError
from tessella.support.logs import info
from tessella.support.sizes import Size

if TYPE_CHECKING:
    from tessella.driver.key import Key

Array = npt.NDArray[Any]

MODULE = "tessella.frontends.apart"
"""The module that the process runs. Nothing here imports it."""

MOST = 2
"""The most processes: each may hold a model."""

SECONDS = 3600.0
"""Seconds after which a process without an answer counts as hung, if there is no deadline."""

ATTEMPTS = 2
"""Attempts to ask a process: one may just have ended for lack of work."""

PROGRAM, UNDECIDED, LATE, FAILED, UNKNOWN, WEIGHT = b"p", b"u", b"t", b"f", b"?", b"w"
"""Answers; `worker.NO_MEMORY` is another one. A model is unknown until its bytes are sent."""
COMPILE, FETCH = b"c", b"w"
"""Requests."""

COMPILERS = SharedPool(MODULE, MOST)


@dataclass(frozen=True)
class StoredArray:
    """An array as text."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    data: str

    @staticmethod
    def of(given: npt.ArrayLike) -> StoredArray:
        """Encode an array of numbers."""
        array = np.ascontiguousarray(given)
        return StoredArray(array.dtype, np.shape(given), array.tobytes().hex())

    @property
    def array(self) -> Array:
        """Return the array, which must not be modified."""
        return np.frombuffer(bytes.fromhex(self.data), self.dtype).reshape(self.shape)


@dataclass(frozen=True)
class Origin:
    """How another process opens a model."""

    name: str
    """Unique among the models of this process."""
    fingerprint: str | None
    """The fingerprint of the model with its files (``Source``)."""
    path: str | None
    """None for a model that is given as bytes."""
    state: str
    """The state of the file at the path (``disk.file_state``), as text: records limit numbers."""
    constants: Mapping[str, StoredArray]
    max_bytes: int | None


@dataclass(frozen=True)
class StoredValue:
    """A `Value` as text."""

    index: int
    name: str
    array: StoredArray

    @staticmethod
    def of(value: Value) -> StoredValue:
        """Encode a value."""
        return StoredValue(value.index, value.name, StoredArray.of(value.array))

    @property
    def value(self) -> Value:
        """Decode the value."""
        stored = self.array
        data = bytes.fromhex(stored.data)
        return Value(self.index, self.name, stored.dtype, stored.shape, data)


@dataclass(frozen=True)
class Request:
    """A request for a program."""

    origin: Origin
    made: tuple[tuple[Size, ...], ...]
    values: tuple[StoredValue, ...]
    sizes: tuple[Sizes, ...]
    options: CheckedOptions
    seconds: float | None
    """Seconds until the deadline."""
    cache: str | None
    """The folder of all caches."""


@dataclass(frozen=True)
class Answer:
    """A program, and the seconds that the parts of its compilation took."""

    artifact: Artifact
    timings: Mapping[str, float] = field(default_factory=dict[str, float])


def compiled(
    origin: Origin, data: Callable[[], bytes], key: Key, options: CheckedOptions
) -> Answer | Refusal | None:
    """Return the program for a key, or the reason why it cannot be compiled with symbols.

    None means that this process has to compile it, as there are no other processes or they fail.
    ``data`` returns the bytes of a model without a path. Raises CompileTimeoutError, and
    ResourceError if memory is short.
    """
    pool = COMPILERS.get()
    if pool.size == 0:
        return None
    end = deadline.current()
    until = monotonic() + SECONDS if end is None else end
    request = _request(origin, key, options, end)
    for _ in range(ATTEMPTS):
        try:
            with pool.worker(until) as one:
                return _answer(one, request, data, until)
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


def _request(origin: Origin, key: Key, options: CheckedOptions, end: float | None) -> bytes:
    home = disk.home()
    wanted = Request(
        origin,
        tuple(map(tuple, key.made)),
        tuple(map(StoredValue.of, key.values)),
        tuple(key.sizes),
        options,
        None if end is None else max(0.0, end - monotonic()),
        None if home is None else str(home),
    )
    return json.dumps(encoded(wanted)).encode() + b"\n"


def _answer(
    one: Worker, request: bytes, data: Callable[[], bytes], until: float
) -> Answer | Refusal | None:
    answer = one.ask(COMPILE + request, until)
    if answer[:1] == UNKNOWN:
        answer = one.ask(COMPILE + request + data(), until)
    kind, content = answer[:1], answer[1:]
    if kind == PROGRAM:
        timings, _, artifact = content.partition(b"\n")
        room = aligned(len(artifact))
        room[:] = np.frombuffer(artifact, np.uint8)
        found = Artifact(room.data, lambda wanted: _weights(one, wanted, until))
        return Answer(found, json.loads(timings))
    if kind == UNDECIDED:
        return decoded(Refusal, json.loads(content))
    if kind == LATE:
        raise deadline.exceeded(content.decode())
    if kind == NO_MEMORY:
        raise ResourceError("there is not enough memory to compile the program")
    info("compile", "a program is compiled in this process: %s", content.decode())
    return None


def _weights(one: Worker, wanted: Sequence[tuple[str, int]], until: float) -> list[Array]:
    """Return the arrays with these SHA-256: from programs of this process, otherwise from the
    compiling process."""

    def fetched(name: str) -> Array:
        return np.frombuffer(one.ask(FETCH + name.encode(), until), np.uint8, offset=1)

    found = [sharing.named.get(name) for name, _ in wanted]
    pairs = zip(wanted, found, strict=True)
    arrays = sharing.packed([fetched(n) if array is None else array for (n, _), array in pairs])
    for (name, _), array in zip(wanted, arrays, strict=True):
        sharing.named[name] = array
    return arrays


def _late(end: float | None, silent: SilentError) -> CompileTimeoutError:
    if end is not None and monotonic() >= end:
        return deadline.exceeded("in a process that compiles", str(silent))
    return CompileTimeoutError(
        f"a process has not compiled a program after {SECONDS:.0f} s",
        found=str(silent),
        hint="report it; TESSELLA_WORKERS=0 compiles in the process that calls",
    )
