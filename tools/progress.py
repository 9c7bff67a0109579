"""Progress of a compilation at a terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from time import monotonic
from typing import Any

from tessella.driver.build.compiling import Progress, quiet

DELAY = 0.5
"""Seconds before anything is shown, and between two lines."""

_STEPS = re.compile(r"code (\d+)/(\d+): ")


@contextmanager
def shown(*, wanted: bool = True) -> Generator[Progress]:
    """Yield a progress callback that prints to stderr if that is a terminal, by `rich` if
    installed."""
    if not wanted or not sys.stderr.isatty():
        yield quiet
        return
    display = _Bar() if find_spec("rich") is not None else _ProgressLines()
    try:
        yield display.tell
    finally:
        display.stop()


class _ProgressLines:
    """Progress as occasional lines of text."""

    def __init__(self) -> None:
        self._next = monotonic() + DELAY

    def tell(self, text: str) -> None:
        """Show the current activity, unless a line was shown recently."""
        if monotonic() >= self._next:
            self._next = monotonic() + DELAY
            print(f"compiling: {text}", file=sys.stderr, flush=True)

    def stop(self) -> None:
        """Do nothing: lines stay at the terminal."""


class _Bar:
    """Progress as one line that changes, and disappears at the end."""

    def __init__(self) -> None:
        self._start = monotonic() + DELAY
        self._progress: Any = None
        self._task: Any = None

    def tell(self, text: str) -> None:
        """Show the current activity if the compilation has taken ``DELAY`` seconds."""
        if self._progress is None:
            if monotonic() < self._start:
                return
            self._progress = _rich_progress()
            self._progress.start()
            self._task = self._progress.add_task("compiling", total=None)
        steps = _STEPS.match(text)
        done = {"completed": int(steps[1]), "total": int(steps[2])} if steps else {}
        self._progress.update(self._task, description=f"compiling: {text:.60}", **done)

    def stop(self) -> None:
        """Remove the line."""
        if self._progress is not None:
            self._progress.stop()


def _rich_progress() -> Any:
    from rich.console import Console  # imported here, as the import is slow
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
