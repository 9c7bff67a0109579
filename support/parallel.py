"""A parallel map over items."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

X = TypeVar("X")
Y = TypeVar("Y")


def map_on_threads(function: Callable[[X], Y], items: Sequence[X], threads: int) -> list[Y]:
    """Return the results of a function for items, in their order, computed on up to ``threads``
    threads.

    The caller is one of the threads. If the system refuses to start threads, fewer run. Raises what
    the function raises.
    """
    left = deque(enumerate(items))
    results: dict[int, Y] = {}
    errors: list[BaseException] = []

    def run() -> None:
        try:
            for number, item in _taken(left):
                results[number] = function(item)
        except BaseException as error:  # the thread of the caller raises it again
            left.clear()
            errors.append(error)

    with contextlib.ExitStack() as started:
        with contextlib.suppress(RuntimeError):
            for _ in range(min(threads, len(items)) - 1):
                thread = threading.Thread(target=run)
                thread.start()
                started.callback(thread.join)
        run()
    for error in errors:
        raise error
    return [results[number] for number in range(len(items))]


def _taken(left: deque[tuple[int, X]]) -> Iterator[tuple[int, X]]:
    """Yield items of ``left``, with their numbers, until none is left. Each item goes to one
    thread."""
    while left:
        try:
            yield left.popleft()
        except IndexError:  # another thread took the last item
            return
