"""Locations in the user's code."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType

from tessella.support.errors import ResourceError, TessellaError, UnsupportedError

_WIDTH = 80
"""The maximum number of characters of a source line that an error shows."""
_DEPENDENCIES = ("numpy", "xdsl", "immutabledict", "ordered_set", "typing_extensions", "llvmlite")
# without Python's package `test`, as the user's own tests may be in a package of that name
_LIBRARIES = {"tessella", *_DEPENDENCIES, *sys.stdlib_module_names} - {"test"}
_NAMED_TUPLE = "namedtuple_"
"""The beginning of the name of the module in which Python defines a method of a named tuple."""
_EXHAUSTED: Mapping[type[Exception], tuple[str, str | None]] = {
    MemoryError: ("there is not enough memory for an array", None),
    RecursionError: (
        "calls are nested too deeply",
        "a traced function that calls itself ends by the value of a static argument: name it in "
        "static_argnames; the values of arrays are not known while tracing",
    ),
}
"""The message and the hint for each error of an exhausted resource."""


@dataclass(frozen=True)
class Location:
    """A line of the user's source code."""

    path: str
    line: int

    @property
    def node(self) -> str:
        """The location as ops name it: ``model.py:12``."""
        return f"{Path(self.path).name}:{self.line}"

    def __str__(self) -> str:
        source = linecache.getline(self.path, self.line).strip()
        shown = source if len(source) <= _WIDTH else f"{source[:_WIDTH]}..."
        return f"{self.path}:{self.line}" + (f": {shown}" if shown else "")


def caller() -> Location | None:
    """Return the line of user code that is running, in the innermost frame; None if there is
    none."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and not _is_users(frame):
        frame = frame.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno) if frame else None


@contextmanager
def located() -> Generator[None]:
    """Add the line of user code as the location of errors that leave the block."""
    try:
        yield
    except (TessellaError, ValueError) as raised:
        # NumPy raises ValueError from the TessellaError of an array that it converts to a number
        error = raised.__cause__ if isinstance(raised.__cause__, TessellaError) else raised
        where = _innermost(raised.__traceback__) or caller()
        if isinstance(error, UnsupportedError | ValueError) or error.where or not where:
            raise
        raise error.at(str(where)).with_traceback(raised.__traceback__) from None
    except (MemoryError, RecursionError) as raised:
        # raised without its cause's traceback, which may have a thousand entries
        raise _exhausted(raised, _innermost(raised.__traceback__) or caller()) from None


def _exhausted(error: MemoryError | RecursionError, at: Location | None) -> ResourceError:
    what, hint = _EXHAUSTED[RecursionError if isinstance(error, RecursionError) else MemoryError]
    where = None if at is None else str(at)
    return ResourceError(what, where=where, found=str(error) or None, hint=hint)


def _innermost(traceback: TracebackType | None) -> Location | None:
    found: Location | None = None
    while traceback is not None:
        if _is_users(traceback.tb_frame):
            found = Location(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found


def is_users(module: str | None) -> bool:
    """Return whether a module (by name) is the user's, not tessella's, a dependency's or
    Python's.

    Code without a module is an annotation that Python evaluates, and not the user's.
    """
    package = (module or "").partition(".")[0]
    return bool(package) and package not in _LIBRARIES and not package.startswith(_NAMED_TUPLE)


def _is_users(frame: FrameType) -> bool:
    return is_users(frame.f_globals.get("__name__"))
