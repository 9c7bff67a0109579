"""From LLVM IR text to objects: from the disk, or made, little of it here, the rest in workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tessella.codegen import kernel_cache, workers
from tessella.codegen.llvm import Machine, emit_object
from tessella.codegen.symbols import linked_names, named, nameless
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


@dataclass(frozen=True)
class Objects:
    """Compiled modules, which call one another."""

    images: Mapping[str, bytes]
    """By the name of the module."""
    symbols: Mapping[str, str]
    """Under which the function of each module is linked."""


def compile_modules(
    texts: Mapping[str, str], target: Target, *, level: int = 3, done: Done = lambda _: None
) -> Objects:
    """LLVM modules by the name of the function that each defines, which may call the others'.

    For the errors see ``Compilation``.
    """
    symbols = linked_names(texts)
    with Compilation(Machine.of(target, level)) as compilation:
        for name, text in texts.items():
            compilation.add(name, nameless(name, text, symbols))
        images = compilation.objects(done)
    return Objects({name: named(image, symbols[name]) for name, image in images.items()}, symbols)


class Compilation:
    """Modules that are compiled while others are still being written; equal ones once.

    It raises InternalError for text that LLVM does not accept, and ResourceError where memory is
    short. Leaving the block gives up what is not ready.
    """

    _here = 0
    """Modules that this process has compiled."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._names: dict[str, list[str]] = {}
        """By text, in the order in which they came."""
        self._ready: dict[str, bytes] = {}
        """By text."""
        self._missing: list[str] = []
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
        known = text in self._names
        self._names.setdefault(text, []).append(name)
        if known:
            return
        image = kernel_cache.get(text, self._machine)
        if image is not None:
            self._ready[text] = image
        else:
            self._begin(text)

    def objects(self, done: Done = lambda _: None) -> dict[str, bytes]:
        """The objects of all modules, by name."""
        for text in self._ready:
            self._tell(text, done)
        try:
            for future in as_completed(self._futures):
                self._keep(self._futures[future], future.result(), done)
        except NoWorkersError as error:
            workers.refuse(error)
        for text in self._missing:
            if text not in self._ready:
                self._keep(text, self._compile_here(text), done)
        return {name: self._ready[text] for text, names in self._names.items() for name in names}

    def _begin(self, text: str) -> None:
        self._missing.append(text)
        self._size += len(text)
        if self._executor is not None:
            self._submit(text)
        elif not self._can_stay():
            self._executor = ThreadPoolExecutor(self._batch.size, "tessella-llvm")
            for other in self._missing:
                self._submit(other)

    def _can_stay(self) -> bool:
        if self._batch.size == 0:
            return True
        few = Compilation._here + len(self._missing) <= MODULES_HERE
        return few and self._size <= LITTLE and not self._batch.is_ready

    def _submit(self, text: str) -> None:
        assert self._executor is not None
        name = self._names[text][0]
        self._futures[self._executor.submit(self._batch.compile, name, text)] = text

    def _compile_here(self, text: str) -> bytes:
        Compilation._here += 1
        return emit_object(text, self._machine)

    def _keep(self, text: str, image: bytes, done: Done) -> None:
        self._ready[text] = image
        kernel_cache.put(text, self._machine, image)
        self._tell(text, done)

    def _tell(self, text: str, done: Done) -> None:
        for name in self._names[text]:
            done(name)
