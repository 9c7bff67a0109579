"""The surroundings of a compilation: progress, timings, memory."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from time import perf_counter

from tessella.support import memory, tables
from tessella.support.collector import no_collection
from tessella.support.errors import ResourceError
from tessella.support.foreign import is_foreign

Progress = Callable[[str], None]
"""A function that is called with the name of each step of a compilation."""


def quiet(_: str) -> None:
    """Report no progress."""


class Timings(dict[str, float]):
    """Seconds of each compilation step, by name."""

    @contextmanager
    def of(self, name: str) -> Generator[None]:
        """Add the seconds that the block takes to the time of the step ``name``."""
        began = perf_counter()
        try:
            yield
        finally:
            self[name] = self.get(name, 0.0) + perf_counter() - began


LLVM_WORK = "llvm work"
"""The name of the timing of LLVM's work. This work mostly runs in other processes in parallel, and
is not part of the total."""


def total(timings: Mapping[str, float]) -> float:
    """Return the seconds of a whole compilation: the sum of all timings except ``LLVM_WORK``."""
    return sum(seconds for name, seconds in timings.items() if name != LLVM_WORK)


ROOM = 32 << 20
"""Bytes of memory that must be free before a compilation and before each pass.

CPython aborts if memory runs out while it handles an exception.
"""


@contextmanager
def memory_to_compile() -> Generator[None]:
    """Run the block, which compiles, without collecting reference cycles. Raises ResourceError if
    memory runs out, or if less than ``ROOM`` bytes are available."""
    try:
        memory.require(ROOM)
        with no_collection():
            yield
    except MemoryError as error:
        if is_foreign(error):
            raise
        raise ResourceError(
            "there is not enough memory to compile the program", found=str(error) or None
        ) from error
    finally:
        tables.shrink()
