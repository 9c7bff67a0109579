"""A table of programs, which are compiled when they are needed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tessella.support import fork

V = TypeVar("V")


@dataclass
class _Entry(Generic[V]):
    """A program of the table, or a place for it while a thread makes it."""

    lock: fork.Lock = field(default_factory=fork.Lock)
    value: V | None = None


class ProgramTable(Generic[V]):
    """A bounded table of programs. The least recently used one is dropped.

    Threads that ask for one key get one program, which the first of them makes; programs of
    different keys are made at the same time. If making one fails, the next call tries again. The
    child of a fork makes what another thread was making.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = fork.Lock()
        self._entries: OrderedDict[Hashable, _Entry[V]] = OrderedDict()
        self._last: tuple[Hashable, V] | None = None
        """The last program that was asked for: most calls ask for it again."""

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The program of a key. Raises what ``make`` raises."""
        last = self._last
        if last is not None and last[0] == key:
            return last[1]
        entry = self._entry(key)
        if entry.value is None:
            with entry.lock:
                if entry.value is None:
                    try:
                        entry.value = make()
                    finally:
                        self._settle(key, entry)
        self._last = key, entry.value
        return entry.value

    def latest(self) -> V | None:
        """The last program that was asked for and is made."""
        made = self.made()
        return made[-1] if made else None

    def made(self) -> list[V]:
        """All programs that are made, those last that were asked for last."""
        with self._lock:
            values = [entry.value for entry in self._entries.values()]
        return [value for value in values if value is not None]

    def _entry(self, key: Hashable) -> _Entry[V]:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                entry = self._entries[key] = _Entry()
                self._shrink()
            else:
                self._entries.move_to_end(key)
            return entry

    def _shrink(self) -> None:
        """Drop the oldest programs; those that are being made stay, as others may wait for them."""
        made = [key for key, entry in self._entries.items() if entry.value is not None]
        for key in made[: max(0, len(self._entries) - self.most)]:
            del self._entries[key]

    def _settle(self, key: Hashable, entry: _Entry[V]) -> None:
        """Keep an entry whose program was made; no entry stays for one that failed."""
        with self._lock:
            if entry.value is not None:
                self._entries[key] = entry
                self._shrink()
            elif self._entries.get(key) is entry:
                del self._entries[key]
