"""The threads that run programs with their callers: one pool in a process, for all of them.

Its code is native (``codegen.pool``), and a part of each program that threads can share. Its
threads never touch Python. They wait for a run, take part in it, and wait again: for a while in a
loop, then asleep. They live as long as the process, and so do their code and the memory that they
wait in: the interpreter may end during a run.

A team is one block of zeroed memory in lines of 128 bytes, so that no two threads write into a pair
of cache lines that is fetched together:

| line | holds |
|---|---|
| 0 | the table: functions of the system, what threads are made with, how many there are |
| 1 | whether a run goes on, and when the last one was over that left threads asleep |
| 2 | the run: the segment, its arguments, the number of threads |
| 3.. | the boxes of each thread: start, done, and one for each round of a barrier |

A box is a number that one thread raises and one waits for.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from tessella.support import fork
from tessella.targets import threads

LINE = 128
MOST = 1024
"""Threads of a run."""

TABLE = (
    *("syscall", "sched_yield", "sched_getcpu", "sched_setaffinity", "clock_gettime"),
    *("pthread_create", "pthread_sigmask", "pthread_setname_np", "snprintf"),
    *("attributes", "signals", "cpus", "cores", "size"),
)
"""The entries of a team's first line, 8 bytes each. The first ones are functions of the system;
``cpus`` are the cores of the process, ``cores`` is how many threads can run at once, ``size`` how
many the pool has."""
RUN = ("segment", "inputs", "outputs", "weights", "arena", "contexts")
RUN_NUMBERS = ("threads", "spin", "number", "phase")
"""Of the run: how many threads run it; for how many nanoseconds they look before they sleep; its
number; and how many barriers there were before it."""
CONTEXT = (
    *("status", "barrier", "watch", "team", "thread", "threads", "phase"),
    *("clock_gettime", "clock_id", "counts", "event", "events_end"),
    "sizes",
)
"""The slots of a context that are in use. ``watch`` is the address of what loops ask whether they
have to end, or 0 (``runtime.watch``). The five from ``clock_gettime`` on are for segments that are
profiled (``runtime.events``). ``sizes`` is the address of the values of the program's symbols, 64
bits each."""
CONTEXT_SLOTS = LINE // 8

TAKEN, LEFT, JOB, BOXES = LINE, LINE + 8, 2 * LINE, 3 * LINE
START, DONE, ROUNDS = 0, 1, 2
BOXES_OF_A_THREAD = ROUNDS + (MOST - 1).bit_length()
TEAM_BYTES = BOXES + MOST * BOXES_OF_A_THREAD * LINE

GROW, ENTER = "tessella.pool.grow", "tessella.pool.run"
"""The functions of the code."""

_STACK = 512 * 1024
_FAULTS = ("SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGSYS")
"""Signals that a thread causes itself. All others are for the threads of Python."""
_DETACHED = 1

_GROW = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
_ENTER = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 7, ctypes.c_int64, ctypes.c_int64)


class Code(Protocol):
    """Linked code."""

    def address(self, name: str) -> int:
        """Where a function starts."""
        ...


@dataclass(frozen=True, eq=False)
class Team:
    """So many threads of the pool, as far as the system has them, and their caller."""

    threads: int
    address: int
    run: Callable[..., None]
    """``run(team, segment, contexts, inputs, outputs, weights, arena, threads, brief)`` runs a
    segment on the threads, or on its caller alone where others use them, or where they sleep and it
    is brief. ``contexts`` has 128 bytes for each thread. Their statuses are 0: a thread may read
    that of another one which has not begun. The first status becomes the smallest that is not
    0."""


class Pool:
    """The pool of this process. The child of a fork starts another one."""

    def __init__(self) -> None:
        self._lock = fork.Lock()
        self._code: Code | None = None
        self._teams: dict[int, Team] = {}
        self._address = 0
        self._kept: list[ctypes.Array[ctypes.c_char]] = []

    def team(self, count: int, code: Code) -> Team | None:
        """A team of so many threads; its first call starts those that are missing, in the code of
        the first program that asks. None where this system can have no pool."""
        return self._teams.get(count) or self._made(count, code)

    def forget(self) -> None:
        """Have no threads, as in the child of a fork."""
        self._teams, self._address, self._kept = {}, 0, []

    def _made(self, count: int, code: Code) -> Team | None:
        if not _is_supported():
            return None
        with self._lock:
            if self._code is None:
                self._code = _immortal(code)
            if not self._address:
                self._address = self._new_address()
            # one call, as an interrupt may come between any two
            _GROW(self._code.address(GROW))(self._address, count - 1)
            team = Team(count, self._address, _ENTER(self._code.address(ENTER)))
            return self._teams.setdefault(count, team)

    def _new_address(self) -> int:
        """Memory for a team, its table filled in."""
        libc = ctypes.CDLL(None)
        attributes, signals = ctypes.create_string_buffer(256), _signals()
        libc.pthread_attr_init(attributes)
        libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(_STACK))
        libc.pthread_attr_setdetachstate(attributes, _DETACHED)
        cpus = _set_of(os.sched_getaffinity(0))
        self._kept = [attributes, signals, cpus]
        values = {
            "attributes": ctypes.addressof(attributes),
            "signals": ctypes.addressof(signals),
            "cpus": ctypes.addressof(cpus),
            "cores": min(threads.cores(), threads.quota()),
            "size": 0,
        }
        libc.calloc.restype, libc.calloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t] * 2
        block = libc.calloc(1, TEAM_BYTES + LINE)
        if not block:
            raise MemoryError("no memory for a pool of threads")
        address: int = block + -block % LINE
        table = (ctypes.c_int64 * len(TABLE)).from_address(address)
        for i, name in enumerate(TABLE):
            table[i] = values[name] if name in values else _function(libc, name)
        return address


def _function(libc: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(getattr(libc, name), ctypes.c_void_p).value or 0


def _signals() -> ctypes.Array[ctypes.c_char]:
    """The set of signals that threads of the pool do not take."""
    bits = (1 << 1024) - 1
    for name in _FAULTS:
        bits &= ~(1 << (getattr(signal, name) - 1))
    return ctypes.create_string_buffer(bits.to_bytes(LINE, "little"), LINE)


def _set_of(cpus: Iterable[int]) -> ctypes.Array[ctypes.c_char]:
    """A set of cores as the system takes it; those beyond the first 1024 are left out."""
    bits = sum(1 << cpu for cpu in cpus if cpu < 8 * LINE)
    return ctypes.create_string_buffer(bits.to_bytes(LINE, sys.byteorder), LINE)


def _immortal(code: Code) -> Code:
    """The code, which is never unmapped: threads are in it when the interpreter ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    return code


def _is_supported() -> bool:
    return sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")


POOL = Pool()
os.register_at_fork(after_in_child=POOL.forget)
