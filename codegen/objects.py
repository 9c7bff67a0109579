"""From LLVM IR text to objects, which are on disk already, or are compiled: a little in this
process, the rest in workers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from time import perf_counter
from types import TracebackType
from typing import Self

from tessella.codegen import kernel_cache, workers
from tessella.codegen.llvm import Machine, emit_object
from tessella.codegen.symbols import linked_names, nameless
from tessella.codegen.workers import Batch, NoWorkersError
from tessella.support import deadline
from tessella.targets import Target

Done = Callable[[str], None]
"""Called with the name of each module that is ready."""

LITTLE = 24_000
"""Characters of text that this process compiles itself, in less time than a worker takes to
start."""

MODULES_HERE = 32
"""Modules that this process compiles in its lifetime, if it can have workers: each leaks some
memory."""


def prepare() -> None:
    """Start workers, as much will have to be compiled soon. Returns at once."""
    pool = workers.pool()
    try:
        pool.prepare(pool.size)
    except NoWorkersError as error:
        workers.refuse(pool, error)


@dataclass(frozen=True)
class Objects:
    """Compiled modules, which call one another."""

    files: Mapping[str, bytes]
    """By the name of the module; equal ones are one."""
    symbols: Mapping[str, str]
    """Under which the function of each module is linked."""


def compile_modules(
    texts: Mapping[str, str], target: Target, *, level: int = 3, done: Done = lambda _: None
) -> Objects:
    """LLVM modules by the name of the function that each defines, which may call the others'.

    For the errors see ``Compilation``.
    """
    with Compilation(target, level) as compilation:
        compilation.add_all(texts)
        return compilation.objects(done)


class Compilation:
    """Modules that are compiled while others are still being written. Equal ones are compiled once.

    It raises InternalError for text that LLVM does not accept, ResourceError if memory is short,
    and CompileTimeoutError after the deadline that it was made with. Leaving the block gives up
    what is not ready.
    """

    _here = 0
    """Modules that this process has compiled."""

    def __init__(self, target: Target, level: int = 3) -> None:
        self._machine = Machine.of(target, level)
        self._symbols: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        """By the module's name."""
        self._names: dict[str, list[str]] = {}
        """By text."""
        self._images: dict[str, bytes] = {}
        """What is ready, by text."""
        self._missing: dict[str, str] = {}
        """The name of a module with a text that is not on disk, by text."""
        self._size = 0
        self._seconds: list[float] = []
        """Of the modules that were compiled in this process."""
        self._batch = Batch(workers.pool(), self._machine)
        self._executor: ThreadPoolExecutor | None = None
        self._futures: dict[str, Future[bytes]] = {}
        """By text."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._give_up()

    @property
    def names(self) -> Collection[str]:
        """Of all modules so far."""
        return self._texts.keys()

    def add(self, name: str, text: str) -> None:
        """A module that calls no others, by the name of the function that it defines. Workers begin
        with it as soon as there is more than a little."""
        self._add(name, nameless(name, text))

    def add_all(self, texts: Mapping[str, str]) -> None:
        """The last modules, by the name of the function that each defines; these may call others,
        and those that are there already."""
        self._symbols = linked_names([*self._texts, *texts])
        for name, text in texts.items():
            self._add(name, nameless(name, text, self._symbols))

    def _add(self, name: str, text: str) -> None:
        deadline.check(f"kernel {name}")
        self._texts[name] = text
        self._names.setdefault(text, []).append(name)
        if text in self._images or text in self._missing:
            return
        image = kernel_cache.get(text, self._machine)
        if image is not None:
            self._images[text] = image
            return
        self._missing[text] = name
        self._size += len(text)
        if self._executor is not None:
            self._submit([text])
        elif not self._can_stay():
            self._executor = ThreadPoolExecutor(self._batch.size, "tessella-llvm")
            self._submit(self._missing)

    @property
    def work(self) -> float:
        """Seconds that LLVM has worked, in all processes together."""
        return sum((*self._batch.seconds, *self._seconds))

    def objects(self, done: Done = lambda _: None) -> Objects:
        """The objects of all modules."""
        for text in self._images:
            self._tell(text, done)
        by_future = {future: text for text, future in self._futures.items()}
        try:
            for future in as_completed(by_future):
                self._keep(by_future[future], future.result(), done)
        except NoWorkersError as error:
            self._batch.refuse(error)
        for text in self._missing:
            if text not in self._images:
                self._keep(text, self._compile_here(text), done)
        files = {name: self._images[text] for name, text in self._texts.items()}
        return Objects(files, self._symbols)

    def _can_stay(self) -> bool:
        if self._batch.size == 0:
            return True
        few = Compilation._here + len(self._missing) <= MODULES_HERE
        return few and self._size <= LITTLE and not self._batch.is_ready

    def _submit(self, texts: Iterable[str]) -> None:
        assert self._executor is not None
        try:
            for text in texts:
                submitted = self._executor.submit(self._batch.compile, self._missing[text], text)
                self._futures[text] = submitted
        except RuntimeError as error:  # the system refuses to start threads
            self._batch.refuse(NoWorkersError(str(error)))
            self._give_up()
            self._executor, self._futures = None, {}
            self._batch = Batch(workers.pool(), self._machine)

    def _give_up(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._batch.give_up()

    def _compile_here(self, text: str) -> bytes:
        deadline.check(f"kernel {self._missing[text]}")
        Compilation._here += 1
        began = perf_counter()
        image = emit_object(text, self._machine)
        self._seconds.append(perf_counter() - began)
        return image

    def _keep(self, text: str, image: bytes, done: Done) -> None:
        self._images[text] = image
        kernel_cache.put(text, self._machine, image)
        self._tell(text, done)

    def _tell(self, text: str, done: Done) -> None:
        for name in self._names[text]:
            done(name)
