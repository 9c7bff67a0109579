"""The deadline of a compilation, which its steps check: a step that runs is not interrupted."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

from tessella.support.errors import CompileTimeoutError

_end: ContextVar[float | None] = ContextVar("end", default=None)
"""The deadline of this thread, by the monotonic clock; None without one."""


@contextmanager
def within(seconds: float | None) -> Generator[None]:
    """Let the block take so many seconds, and no more than a block around it has left."""
    around = _end.get()
    own = None if seconds is None else monotonic() + seconds
    ends = [end for end in (own, around) if end is not None]
    token = _end.set(min(ends, default=None))
    try:
        yield
    finally:
        _end.reset(token)


def current() -> float | None:
    """The deadline of this thread, which may be handed to another thread."""
    return _end.get()


def check(what: str) -> None:
    """Raise CompileTimeoutError, which says before what, if no time is left."""
    end = _end.get()
    if end is not None and monotonic() >= end:
        raise exceeded(f"before {what}")


def exceeded(where: str, found: str | None = None) -> CompileTimeoutError:
    """The error for a compilation that takes too long."""
    return CompileTimeoutError(
        "the compilation takes longer than it may",
        where=where,
        found=found,
        hint="give a longer `timeout`, or compile ahead and ship an artifact: `tessella compile "
        "MODEL -o FILE.tsl`",
    )
