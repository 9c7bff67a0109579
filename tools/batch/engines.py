"""Engines that run blocks: processes of this machine, or actors of a Ray cluster.

An engine takes a block as the bytes of an Arrow stream, and returns a future of the result.
"""

from __future__ import annotations

import multiprocessing
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from importlib import import_module
from itertools import cycle
from typing import Any

import pyarrow as pa

from tessella.runtime.loaded import LoadedModel, load
from tessella.support.errors import OptionError, ResourceError, TessellaError
from tessella.tools.batch.columns import predicted


class BlockWorker:
    """A worker, which maps the artifact once and runs blocks."""

    def __init__(self, path: str, threads: int) -> None:
        self._model: LoadedModel = load(path, threads=threads)

    def run(self, block: bytes) -> bytes | str:
        """Return the outputs of a block, or the text of an error that another attempt would have
        too. Raises ResourceError, after which another attempt may succeed."""
        try:
            return stream_of(predicted(self._model, batch_of(block)))
        except ResourceError:
            raise
        except TessellaError as error:
            return str(error)


def stream_of(batch: Any) -> bytes:
    """Return a record batch as the bytes of an Arrow stream."""
    sink: Any = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def batch_of(stream: bytes) -> Any:
    """Return the record batch in the bytes of an Arrow stream."""
    return pa.ipc.open_stream(stream).read_next_batch()


class Engine(ABC):
    """Workers that run blocks."""

    lost: tuple[type[BaseException], ...]
    """The exceptions of a future whose worker has died."""

    @abstractmethod
    def submit(self, block: bytes) -> Future[bytes | str]:
        """Start a block, and return the future of its result."""

    @abstractmethod
    def renew(self) -> None:
        """Replace workers that have died."""

    @abstractmethod
    def close(self) -> None:
        """Stop the workers."""


class Processes(Engine):
    """Processes of this machine."""

    lost = (BrokenExecutor,)

    def __init__(self, path: str, workers: int, threads: int) -> None:
        self._settings = (path, workers, threads)
        self._pool = self._started()

    def _started(self) -> ProcessPoolExecutor:
        path, workers, threads = self._settings
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(workers, context, _begin, (path, threads))
        # Start all processes now: Python 3.11 leaks a process that starts while another is found
        # dead.
        for _ in range(workers):
            pool.submit(int)
        return pool

    def submit(self, block: bytes) -> Future[bytes | str]:
        """Start a block in one of the processes."""
        return self._pool.submit(_run, block)

    def renew(self) -> None:
        """Start new processes. All blocks of the old processes are done or lost."""
        self._pool.shutdown(wait=True)  # a cancelled block would never finish
        self._pool = self._started()

    def close(self) -> None:
        """Stop the processes."""
        self._pool.shutdown(wait=True, cancel_futures=True)


_worker: list[BlockWorker] = []
"""The worker of this process."""


def _begin(path: str, threads: int) -> None:
    _worker.append(BlockWorker(path, threads))


def _run(block: bytes) -> bytes | str:
    return _worker[0].run(block)


class RayActors(Engine):
    """Actors of the Ray cluster that `ray.init` finds. Ray restarts actors that die."""

    def __init__(self, path: str, workers: int, threads: int) -> None:
        ray = _ray()
        self._ray = ray
        self.lost = (ray.exceptions.RayActorError, ray.exceptions.WorkerCrashedError)
        self._began = not ray.is_initialized()
        if self._began:
            ray.init(include_dashboard=False, log_to_driver=False)
        actor = ray.remote(num_cpus=threads, max_restarts=-1)(BlockWorker)
        self._actors: Sequence[Any] = [actor.remote(path, threads) for _ in range(workers)]
        self._turns = cycle(self._actors)

    def submit(self, block: bytes) -> Future[bytes | str]:
        """Start a block on the next actor."""
        return next(self._turns).run.remote(block).future()

    def renew(self) -> None:
        """Do nothing: Ray restarts actors."""

    def close(self) -> None:
        """Stop the actors, and Ray if this engine started it."""
        for actor in self._actors:
            self._ray.kill(actor)
        if self._began:
            self._ray.shutdown()


def _ray() -> Any:
    try:
        return import_module("ray")
    except ImportError as error:
        raise OptionError(
            "the engine 'ray' needs the package ray", hint="pip install 'tessella[ray]'"
        ) from error


ENGINES: dict[str, Callable[[str, int, int], Engine]] = {
    "processes": Processes,
    "ray": RayActors,
}
"""The engines by name. Arguments: the artifact, the number of workers, and threads per worker."""
