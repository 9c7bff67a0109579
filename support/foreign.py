"""Recognition of exceptions that a function did not cause itself: signal handlers have raised them
while it ran."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from inspect import CO_VARARGS
from itertools import pairwise
from types import FrameType, TracebackType

_OWN = {"tessella", "numpy", "xdsl", "llvmlite", "onnx", "google", *sys.stdlib_module_names}
"""The packages of the exception classes that tessella's code may raise."""


def is_foreign(error: BaseException) -> bool:
    """Return whether an exception comes neither from tessella nor from the packages that it calls:
    a signal handler raised it, or its class is defined elsewhere. It must propagate to code that
    knows it."""
    return is_of_handler(error) or type(error).__module__.partition(".")[0] not in _OWN


def is_of_handler(error: BaseException) -> bool:
    """Return whether a signal handler raised an exception, which may be of any class and may occur
    anywhere. A handler is recognised as a function that is called with the frame that it
    interrupts."""
    frames = pairwise(_frames(error.__traceback__))
    return any(argument is outer for outer, inner in frames for argument in _arguments(inner))


def _frames(trace: TracebackType | None) -> Iterator[FrameType]:
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _arguments(frame: FrameType) -> Iterator[object]:
    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    yield from (values.get(name) for name in code.co_varnames[:count])
    if code.co_flags & CO_VARARGS:
        yield from values.get(code.co_varnames[count], ())
