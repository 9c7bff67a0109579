"""From LLVM IR text to objects: little of it in this process, the rest in workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from types import TracebackType
from typing import Self

from tessella.codegen import workers
from tessella.codegen.llvm import Machine, emit_object
from tessella.codegen.workers import Batch, NoWorkersError
from tessella.targets import Target

Done = Callable[[str], None]
"""Called with the name of each module that is ready."""

LITTLE = 24_000
"""Characters that are compiled in this process, in less time than a worker takes to start."""

MODULES_HERE = 32
"""Modules that this process compiles in all its life where it can have workers: each leaks some
memory."""


def prepare() -> None:
    """Much will have to be compiled soon: let workers be ready by then. Returns at once."""
    pool = workers.pool()
    try:
        pool.prepare(pool.size)
    except NoWorkersError as error:
        workers.refuse(error)


def compile_modules(
    texts: Mapping[str, str], target: Target, *, level: int = 3, done: Done = lambda _: None
) -> dict[str, bytes]:
    """The objects of LLVM modules, by name. For the errors see ``Compilation``."""
    with Compilation(Machine.of(target, level)) as compilation:
        for name, text in texts.items():
            compilation.add(name, text)
        return compilation.objects(done)


class Compilation:
    """Modules that are compiled while others are still being written.

    It raises InternalError for text that LLVM does not accept, and ResourceError where memory is
    short. Leaving the block gives up what is not ready.
    """

    _here = 0
    """Modules that this process has compiled."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._texts: dict[str, str] = {}
        self._size = 0
        self._batch = Batch(workers.pool(), machine)
        self._executor: ThreadPoolExecutor | None = None
        self._futures: dict[Future[bytes], str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._batch.give_up()

    def add(self, name: str, text: str) -> None:
        """One more module; workers begin with it as soon as there is more than a little."""
        self._texts[name] = text
        self._size += len(text)
        if self._executor is not None:
            self._submit(name)
        elif not self._can_stay():
            self._executor = ThreadPoolExecutor(self._batch.size, "tessella-llvm")
            for known in self._texts:
                self._submit(known)

    def objects(self, done: Done = lambda _: None) -> dict[str, bytes]:
        """The objects of all modules, by name, in the order in which these were added."""
        ready: dict[str, bytes] = {}
        try:
            for future in as_completed(self._futures):
                ready[self._futures[future]] = future.result()
                done(self._futures[future])
        except NoWorkersError as error:
            workers.refuse(error)
        for name in self._texts.keys() - ready.keys():
            ready[name] = self._compile_here(name)
            done(name)
        return {name: ready[name] for name in self._texts}

    def _can_stay(self) -> bool:
        if self._batch.size == 0:
            return True
        few = Compilation._here + len(self._texts) <= MODULES_HERE
        return few and self._size <= LITTLE and not self._batch.is_ready

    def _submit(self, name: str) -> None:
        assert self._executor is not None
        future = self._executor.submit(self._batch.compile, name, self._texts[name])
        self._futures[future] = name

    def _compile_here(self, name: str) -> bytes:
        Compilation._here += 1
        return emit_object(self._texts[name], self._machine)
