"""Tables of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def remembered(table: dict[K, V], key: K, most: int, make: Callable[[], V]) -> V:
    """The value of a key, which is made where there is none. A table with so many values is
    emptied: they are cheap to make again."""
    found = table.get(key)
    if found is None:
        found = make()
        if len(table) >= most:
            table.clear()
        table[key] = found
    return found
