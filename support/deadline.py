"""The deadline of a compilation. It is checked between the steps of the compilation; no step is
interrupted."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

from tessella.support.errors import CompileTimeoutError

_end: ContextVar[float | None] = ContextVar("end", default=None)
"""The deadline of this thread on the monotonic clock; None without one."""


@contextmanager
def within(seconds: float | None) -> Generator[None]:
    """Limit a block to ``seconds``, within the limit of any enclosing block; None adds no limit."""
    around = _end.get()
    own = None if seconds is None else monotonic() + seconds
    ends = [end for end in (own, around) if end is not None]
    token = _end.set(min(ends, default=None))
    try:
        yield
    finally:
        _end.reset(token)


def current() -> float | None:
    """Return the deadline of this thread, to hand it to another thread."""
    return _end.get()


def check(what: str) -> None:
    """Raise CompileTimeoutError if the deadline of this thread has passed. ``what`` names the step
    that would come next."""
    end = _end.get()
    if end is not None and monotonic() >= end:
        raise exceeded(f"before {what}")


def exceeded(where: str, found: str | None = None) -> CompileTimeoutError:
    """Return the error for a compilation that exceeds its deadline."""
    return CompileTimeoutError(
        "the compilation takes longer than it may",
        where=where,
        found=found,
        hint="give a longer `timeout`, or compile ahead and ship an artifact: `tessella compile "
        "MODEL -o FILE.tsl`",
    )
