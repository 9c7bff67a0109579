"""A function on many items at the same time."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

X = TypeVar("X")
Y = TypeVar("Y")


def map_on_threads(function: Callable[[X], Y], items: Sequence[X], threads: int) -> list[Y]:
    """The results of a function for items, in their order. The caller is one of the threads; the
    others are fewer where the system refuses to start them. Raises what the function raises."""
    left = deque(enumerate(items))
    results: dict[int, Y] = {}
    errors: list[BaseException] = []

    def run() -> None:
        try:
            for number, item in _taken(left):
                results[number] = function(item)
        except BaseException as error:  # the caller raises it
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
    """What nobody else takes."""
    while left:
        try:
            yield left.popleft()
        except IndexError:  # another thread took the last one
            return
