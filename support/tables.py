"""Tables of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_of_compilations: list[tuple[dict[Any, Any], int]] = []
"""The tables of compilations, each with the number of values that it keeps between them."""


def of_compilations(latest: int) -> dict[Any, Any]:
    """Return a new table for values that the passes of a compilation request repeatedly, and later
    compilations may request too.

    The table keeps its ``latest`` values when a compilation has ended. Each module creates one
    table, as tables are never freed.
    """
    table: dict[Any, Any] = {}
    _of_compilations.append((table, latest))
    return table


def shrink() -> None:
    """Drop the older values of the tables of compilations. Threads that are still compiling
    recompute the values that they miss."""
    for table, latest in _of_compilations:
        for key in [*table][: max(0, len(table) - latest)]:
            table.pop(key, None)


def forget() -> None:
    """Drop all values of tables of compilations."""
    for table, _ in _of_compilations:
        table.clear()


def remembered(table: dict[K, V], key: K, most: int, make: Callable[[], V]) -> V:
    """Return the value of a key, computing it if it is absent. A table that has ``most`` values is
    cleared first: its values are cheap to recompute."""
    found = table.get(key)
    if found is None:
        found = make()
        if len(table) >= most:
            table.clear()
        table[key] = found
    return found
