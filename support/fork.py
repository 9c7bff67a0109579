"""Forking while other threads compile: the data that the child finds is consistent, and no lock
stays held for ever.

Only the thread that forks exists in the child. Without precautions, a lock that another thread held
would stay held, and data that the thread was changing would stay inconsistent.

| another thread may | precaution |
|---|---|
| hold a ``Lock`` | the child has a new lock |
| compute a ``functools.cached_property`` | likewise: Python 3.11 has a lock in each |
| use a library that has its own lock | the fork waits: ``wait_for`` |
| import a module of tessella | the fork waits: Python would wait for ever |
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import AbstractContextManager
from functools import cached_property
from types import ModuleType, TracebackType
from typing import Any
from weakref import WeakSet

_PACKAGE = __name__.partition(".")[0]
_LONGEST_IMPORT = 30.0
"""Seconds that a fork waits at most for imports in progress."""


class Lock:
    """A reentrant lock. In a forked child, only the thread that forked can still hold it.

    Another thread may fork between any two bytecodes, so the protected data must be consistent
    between any two.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Replace the inner lock by a new one if another thread holds it."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = threading.RLock()


_locks: WeakSet[Lock] = WeakSet()


def wait_for(lock: AbstractContextManager[Any]) -> None:
    """Acquire a lock before every fork, so that no other thread is in the code that it protects.

    A thread that holds one of these locks may acquire another only if that one was registered
    earlier: a fork acquires them in reverse order of registration.
    """

    def release() -> None:
        lock.__exit__(None, None, None)

    os.register_at_fork(before=lock.__enter__, after_in_parent=release, after_in_child=release)


def _wait_for_imports() -> None:
    end = time.monotonic() + _LONGEST_IMPORT
    while any(map(_is_initializing, _modules())) and time.monotonic() < end:
        time.sleep(0.001)


def _modules() -> list[ModuleType]:
    """Return the modules of the package, including those whose import is in progress."""
    return [
        module
        for name, module in list(sys.modules.items())
        if name == _PACKAGE or name.startswith(f"{_PACKAGE}.")
    ]


def _is_initializing(module: ModuleType) -> bool:
    return bool(getattr(module.__spec__, "_initializing", False))


def _renew_locks() -> None:
    for lock in list(_locks):
        lock.renew()
    if sys.version_info < (3, 12):
        for module in _modules():
            _renew_properties(module)


def _renew_properties(module: ModuleType) -> None:
    classes = [value for value in list(vars(module).values()) if isinstance(value, type)]
    for found in (value for kind in classes for value in list(vars(kind).values())):
        if isinstance(found, cached_property):
            found.lock = threading.RLock()  # pyright: ignore[reportAttributeAccessIssue]


# the function that is registered first runs last before a fork
os.register_at_fork(before=_wait_for_imports, after_in_child=_renew_locks)
