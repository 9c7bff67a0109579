"""The thread pool of a process: threads that run programs together with their callers.

The code of the pool is native (``codegen.pool``), and a part of each program that threads can
share. The threads of the pool, the helpers, never touch Python. They, their code and the memory
that they wait in live as long as the process, as the interpreter may end during a run.

A run of a segment consists of phases, which barriers separate. A share is the work of one thread in
a phase. A run is narrowed if it has fewer shares than the caller has requested threads. A team is
one block of zeroed memory in lines of 128 bytes, so that no two threads write into a pair of cache
lines that is fetched together:

| lines | content |
|---|---|
| 0, 1 | the table: system functions, attributes of new threads, and counts (``TABLE``) |
| 2, 3 | the number of runs that have arrived, and the number of runs that have left |
| 4 | the narrowing of runs, and the end of the last short launch (``ELASTIC``) |
| 5 to 68 | the futex words of queued runs |
| one for each helper | its futex word: the slot that it serves, or 0 |
| records, one for each concurrent run | a line for the run, and a slot for each share |

Beside each futex word is a flag that a thread sleeps on the word. The futex word of a slot is four
times the number of a phase, plus the state of a share of the phase (``OFFERED``, ``TAKEN``,
``DONE``).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tessella.support import fork, libc
from tessella.support.knobs import KNOBS
from tessella.targets import machine, threads

LINE = 128
"""Bytes between data of different threads: two cache lines, as x86 fetches lines in pairs."""
MOST = 1024
"""The most threads of a run."""
MOST_PLACES = 64
"""The most concurrent runs."""

TABLE = (
    *("syscall", "clock_gettime"),
    *("sched_getcpu", "sched_getaffinity", "sched_setaffinity"),
    *("pthread_create", "pthread_sigmask", "pthread_setname_np", "snprintf"),
    *("open", "read", "close", "sscanf"),
    *("attributes", "signals", "cores", "online", "places", "elastic", "size"),
)
"""The 8-byte entries of the first two lines of a team's memory.

The first ones are addresses of system functions. ``attributes`` and ``signals`` serve the start of
threads, ``cores`` is the number of threads that can run at once, ``online`` the system's number of
cores, ``places`` the most concurrent runs, ``elastic`` whether runs are narrowed, that is, get
fewer threads than requested if some would have to wait for cores, and ``size`` the number of
helpers.
"""
CONTEXT = (
    *("status", "launch", "watch", "team", "record", "shares"),
    *("clock_gettime", "clock_id", "counts", "event", "events_end"),
    "sizes",
)
"""The entries of a context, 8 bytes each. A run has a context for each share, the part of its work
that one thread does.

``launch`` is the address of the code that runs a phase on threads, or 0; ``watch`` is the address
of the state by which loops find out whether they must end, or 0 (``runtime.watch``). ``shares`` is
the number of contexts. The five entries from ``clock_gettime`` on serve profiled segments
(``runtime.events``). ``sizes`` is the address of the values of the program's symbols, 64 bits each.
"""
CONTEXT_SLOTS = LINE // 8
RECORD = (
    *("taken", "shares", "phase"),
    *("threads", "level", "crowd", "began", "waited", "own", "all"),
    *("core", "alone", "backoff"),
)
"""The entries of the line of a record, which describe a run and its current phase.

``taken`` says whether a run owns the record. ``shares`` is the number of shares of the current
phase, and ``phase`` is four times the number of the phase. The other entries belong to the run:
``threads``, the requested threads; ``level``, how far the run is narrowed; ``crowd``, the least
number of runs that divide the cores; ``began``, the start; ``waited``, the nanoseconds that the
caller waited for helpers; ``own`` and ``all``, the shares that the caller computed and all shares;
``core``, the caller's core; ``alone``, the time until which the run is narrowed because a helper
was on that core; and ``backoff``, how long the run is narrowed when that happens again.
"""
ARGUMENTS = ("contexts", "inputs", "outputs", "weights", "arena", "privates", "stride")
"""The arguments of a segment and of its phases, 8 bytes each.

They are the context of share 0, three arrays of pointers, the arena, the private memory of share 0,
and the distance in bytes from the private memory of one share to that of the next.
"""
SLOT = ("state", "asleep", "server", "last", "function", "shares", *ARGUMENTS)
"""The entries of a slot.

They are a futex word and whether a thread sleeps on it; whether a helper serves the slot, and the
helper that served it last; the function of the phase, the number of shares, and the arguments. A
helper reads all entries from the line that it waits on, which comes from the caller's core.
"""
ELASTIC = ("level", "until", "pause", "left", "crowd", "crowded")
"""The entries of line 4 of a team, which narrows runs.

Runs have ``threads >> level`` shares until the time ``until``; ``pause`` is the distance in
nanoseconds from that time to the next attempt to widen; ``left`` is the end of the last short
launch; ``crowd`` is the number of concurrent runs at the time ``crowded``, when there last were
several.
"""

OFFERED, TAKEN, DONE = 1, 2, 3

RING = 64
"""The number of futex words for queued runs. If more runs are queued, several share a word."""
ENTERED, LEFT, ELASTIC_AT, TURNS = 2 * LINE, 3 * LINE, 4 * LINE, 5 * LINE
HELPERS = TURNS + RING * LINE
RECORDS = HELPERS + MOST * LINE
RECORD_BYTES = MOST * LINE
"""Bytes of a record: one line for each slot. The line of slot 0 is the record's own line, as the
caller computes share 0."""

GROW, ENTER = "tessella.pool.grow", "tessella.pool.run"
"""The names of the functions in the pool's native code: start helpers; run a segment with
helpers."""

_STACK = 512 * 1024
"""Bytes of a helper's stack."""
_FAULTS = ("SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGSYS")
"""Signals that a thread raises by its own fault. Helpers block all other signals, which belong to
Python's threads."""
_DETACHED = 1
"""``PTHREAD_CREATE_DETACHED`` of glibc and musl."""

_CALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
_GROW = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
_ENTER = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_int64)


class Code(Protocol):
    """Linked code with the functions of the pool."""

    def address(self, name: str) -> int:
        """Return the address of a function."""
        ...


@dataclass(frozen=True, eq=False)
class Team:
    """A caller's thread and helpers of the pool: ``threads`` in all, or fewer if the system refuses
    to start them."""

    threads: int
    address: int
    run: Callable[..., None]
    """A function: ``run(team, segment, arguments, threads, brief)`` runs a segment on the team.

    ``arguments`` is the address of the segment's ``ARGUMENTS``, whose contexts have 128 bytes for
    each thread, with status 0. After the run, the first status is
    the smallest nonzero status of all threads. If more callers compute than there are cores, the
    others queue, unless their launches are short.
    """


class ThreadPool:
    """The thread pool of this process. The child of a fork starts another pool."""

    def __init__(self) -> None:
        self._lock = fork.Lock()
        self._code: Code | None = None
        self._teams: dict[int, Team] = {}
        self._address = 0
        self._kept: list[ctypes.Array[ctypes.c_char]] = []

    def team(self, count: int, code: Code) -> Team | None:
        """Return a team of ``count`` threads; None if this system cannot have a pool.

        The first call for a ``count`` starts the missing helpers. All helpers run the pool's code
        in the first program that requested a team.
        """
        return self._teams.get(count) or self._made(count, code)

    def forget(self) -> None:
        """Forget the pool and its helpers, which do not exist in the child of a fork."""
        self._teams, self._address, self._kept = {}, 0, []

    def _made(self, count: int, code: Code) -> Team | None:
        if not _is_supported():
            return None
        with self._lock:
            if self._code is None:
                self._code = _immortal(code)
            if not self._address:
                self._address = self._new_address()
            # one native call starts all helpers, as an interrupt may come between two calls
            _GROW(self._code.address(GROW))(self._address, count - 1)
            team = Team(count, self._address, _ENTER(self._code.address(ENTER)))
            return self._teams.setdefault(count, team)

    def _new_address(self) -> int:
        """Allocate the memory of a team, fill in its table, and return its address. Raises
        MemoryError if it cannot be allocated."""
        attributes, signals = ctypes.create_string_buffer(256), _signals()
        libc.function("pthread_attr_init")(attributes)
        libc.function("pthread_attr_setstacksize")(attributes, ctypes.c_size_t(_STACK))
        libc.function("pthread_attr_setdetachstate")(attributes, _DETACHED)
        self._kept = [attributes, signals]
        cores = threads.available()
        # One more than cores: a run that ends leaves no core idle until the next one is awake.
        places = min(cores + 1, MOST_PLACES)
        values = {
            "attributes": ctypes.addressof(attributes),
            "signals": ctypes.addressof(signals),
            "cores": cores,
            "online": os.cpu_count() or cores,
            "places": places,
            "elastic": KNOBS.elastic,
            "size": 0,
        }
        block = _CALLOC(libc.address("calloc"))(1, team_bytes(places) + LINE)
        if not block:
            raise MemoryError("no memory for a pool of threads")
        address: int = block + -block % LINE
        table = (ctypes.c_int64 * len(TABLE)).from_address(address)
        for i, name in enumerate(TABLE):
            table[i] = values[name] if name in values else libc.address(name)
        return address


def team_bytes(places: int) -> int:
    """Return the size of a team with this many concurrent runs, in bytes."""
    return RECORDS + places * RECORD_BYTES


def _signals() -> ctypes.Array[ctypes.c_char]:
    """Return the set of signals that the pool's threads block."""
    bits = (1 << 1024) - 1
    for name in _FAULTS:
        bits &= ~(1 << (getattr(signal, name) - 1))
    return ctypes.create_string_buffer(bits.to_bytes(LINE, "little"), LINE)


def _immortal(code: Code) -> Code:
    """Keep code mapped for ever: threads may run it when the interpreter ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    return code


def _is_supported() -> bool:
    return sys.platform == "linux" and machine.family() is not None


POOL = ThreadPool()
os.register_at_fork(after_in_child=POOL.forget)
