"""Crashes of passes as errors that name the pass and the files that reproduce it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from xdsl.passes import ModulePass

from tessella.dialects.graph import Graph
from tessella.driver.build.plugged import blamed
from tessella.support.errors import InternalError, PluginError, TessellaError
from tessella.support.foreign import is_foreign


@contextmanager
def reproduced(
    step: ModulePass, given: Sequence[object], before: Callable[[], Graph]
) -> Generator[bool]:
    """Yield whether a pass comes from outside tessella, and turn a crash in the block into an
    error.

    The error, an InternalError or PluginError, names the files that reproduce the crash from the
    program ``before`` the pass. There are no files for ``given``, the caller's passes, which only
    this process has. Errors that a pass raises on purpose propagate unchanged, and so do exceptions
    of signal handlers and of foreign packages.
    """
    try:
        with blamed(step, given) as is_foreign_pass:
            yield is_foreign_pass
    except Exception as error:
        if not _is_crash(error):
            raise
        from tessella.driver.debug import reproducer  # imported here, as it is seldom needed

        folder = reproducer.write(step, before, error)
        repeat = "" if folder is None else f"{reproducer.command(step, folder)} repeats it"
        raise _explained(step, error, repeat, folder) from (error.__cause__ or error)


def _is_crash(error: Exception) -> bool:
    if isinstance(error, TessellaError):
        return isinstance(error, InternalError | PluginError)
    return not isinstance(error, MemoryError) and not is_foreign(error)


def _explained(
    step: ModulePass, error: Exception, repeat: str, folder: Path | None
) -> TessellaError:
    """Return the error to raise for a crash. The error names the pass. Its hint has ``repeat``, a
    text on the command that reproduces the crash, and ``folder``, which has the files for the
    command."""
    if isinstance(error, PluginError):
        hint = "; ".join(filter(None, [error.hint, repeat]))
        return PluginError(error.what, where=error.where, found=error.found, hint=hint)
    own = isinstance(error, InternalError)
    what = error.what if own else f"{type(error).__name__}: {error}"
    return InternalError(
        f"the pass {step.name!r} crashed: {what}",
        where=error.where if own else None,
        hint=f"{repeat}; report it, with the files in {folder}" if folder else None,
    )
