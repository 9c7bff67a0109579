"""What goes on around a compilation."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from tessella.support.collector import no_collection
from tessella.support.errors import ResourceError

Progress = Callable[[str], None]
"""Called with what is being done."""


def quiet(_: str) -> None:
    """Report no progress."""


@contextmanager
def memory_to_compile() -> Generator[None]:
    """A compilation that runs out of memory inside raises ResourceError. No cycles are collected
    meanwhile."""
    try:
        with no_collection():
            yield
    except MemoryError as error:
        raise ResourceError(
            "there is not enough memory to compile the program", found=str(error) or None
        ) from error
