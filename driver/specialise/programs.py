"""A table of programs, compiled on demand."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

from tessella.support import fork

V = TypeVar("V")


@dataclass
class _Entry(Generic[V]):
    """A program of the table, or its placeholder while a thread compiles it."""

    lock: fork.Lock = field(default_factory=fork.Lock)
    value: V | None = None
    used: int = 0
    """The time of the last request, as a count of requests to the table."""


class ProgramTable(Generic[V]):
    """A bounded table of programs. The least recently used one is dropped.

    Threads that request the same key get the same program, which the first of them compiles;
    programs with different keys are compiled at the same time. If a compilation fails, the next
    request tries again. The child of a fork compiles what another thread was compiling.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = fork.Lock()
        self._entries: dict[Hashable, _Entry[V]] = {}
        self._clock = count(1)
        self.last: tuple[Hashable, V] | None = None
        """The last requested program and its key: most calls request it again."""

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return the program of a key, compiling it if needed. Raises what ``make`` raises."""
        found = self.find(key)
        if found is not None:
            return found
        entry = self._entry(key)
        with entry.lock:
            if entry.value is None:
                try:
                    entry.value = make()
                finally:
                    self._settle(key, entry)
            self.last = key, entry.value
            return entry.value

    def find(self, key: Hashable) -> V | None:
        """Return the program of a key; None if it is not compiled."""
        last = self.last
        if last is not None and last[0] == key:
            return last[1]
        entry = self._entries.get(key)
        if entry is None or entry.value is None:
            return None
        entry.used = next(self._clock)
        self.last = key, entry.value
        return entry.value

    def latest(self) -> V | None:
        """Return the most recently requested compiled program."""
        made = self.made()
        return made[-1] if made else None

    def made(self) -> list[V]:
        """Return all compiled programs, the most recently requested last."""
        with self._lock:
            return [entry.value for _, entry in self._made() if entry.value is not None]

    def _made(self) -> list[tuple[Hashable, _Entry[V]]]:
        entries = [item for item in self._entries.items() if item[1].value is not None]
        return sorted(entries, key=lambda item: item[1].used)

    def _entry(self, key: Hashable) -> _Entry[V]:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                entry = self._entries[key] = _Entry()
                self._shrink()
            entry.used = next(self._clock)
            return entry

    def _shrink(self) -> None:
        """Drop the least recently requested programs beyond ``most``. Unfinished ones stay, as
        threads may wait for them."""
        for key, _ in self._made()[: max(0, len(self._entries) - self.most)]:
            del self._entries[key]

    def _settle(self, key: Hashable, entry: _Entry[V]) -> None:
        """Finish an entry: drop it if its compilation failed."""
        with self._lock:
            if entry.value is not None:
                self._entries[key] = entry
                self._shrink()
            elif self._entries.get(key) is entry:
                del self._entries[key]
