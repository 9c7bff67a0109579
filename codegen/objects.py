"""From LLVM IR text to objects: read from disk, or compiled here or in workers."""

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
"""Function that is called with the name of each module that is ready."""

LITTLE = 24_000
"""Characters of text up to which compiling in this process is faster than starting a worker."""

MODULES_HERE = 32
"""The maximum number of modules that this process compiles in its lifetime while it can have
workers: each compilation leaks memory."""


def prepare() -> None:
    """Start workers ahead of a large compilation. Returns at once."""
    pool = workers.pool()
    try:
        pool.prepare(pool.size)
    except NoWorkersError as error:
        workers.refuse(pool, error)


@dataclass(frozen=True)
class Objects:
    """Compiled modules, which may call each other."""

    files: Mapping[str, bytes]
    """Object files by module name; equal modules share one."""
    symbols: Mapping[str, str]
    """The symbol under which the function of each module is linked."""


def compile_modules(
    texts: Mapping[str, str], target: Target, *, level: int = 3, done: Done = lambda _: None
) -> Objects:
    """Compile LLVM modules, keyed by the function that each defines. The modules may call each
    other.

    Raises the errors of ``Compilation``.
    """
    with Compilation(target, level) as compilation:
        compilation.add_all(texts)
        return compilation.objects(done)


class Compilation:
    """A compilation of modules while others are still being written. Equal modules are compiled
    once.

    Raises InternalError for text that LLVM rejects, ResourceError if memory is short, and
    CompileTimeoutError after its deadline. Leaving the block cancels unfinished modules.
    """

    _here = 0
    """Modules that this process has compiled."""

    def __init__(self, target: Target, level: int = 3) -> None:
        self._machine = Machine.of(target, level)
        self._symbols: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        """LLVM modules by name."""
        self._names: dict[str, list[str]] = {}
        """Module names by text."""
        self._images: dict[str, bytes] = {}
        """Finished objects by text."""
        self._missing: dict[str, str] = {}
        """A module name for each text that is not on disk."""
        self._size = 0
        self._seconds: list[float] = []
        """Compile times of the modules that this process compiled."""
        self._batch = Batch(workers.pool(), self._machine)
        self._executor: ThreadPoolExecutor | None = None
        self._futures: dict[str, Future[bytes]] = {}
        """Pending objects by text."""

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
        """The names of all modules so far."""
        return self._texts.keys()

    def add(self, name: str, text: str) -> None:
        """Add a module that calls no other module, keyed by the function that it defines.

        Workers start to compile once enough work has accumulated.
        """
        self._add(name, nameless(name, text))

    def add_all(self, texts: Mapping[str, str]) -> None:
        """Add the last modules, keyed by the function that each defines.

        These modules may call each other and the modules added before.
        """
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
        """Seconds of LLVM work in all processes together."""
        return sum((*self._batch.seconds, *self._seconds))

    def objects(self, done: Done = lambda _: None) -> Objects:
        """Return the objects of all modules."""
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
