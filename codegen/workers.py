"""LLVM in processes of its own, so that its leaks and crashes stay there.

A process (``worker``) is started when there is work, replaced after some modules, ends when it has
no work for a while, and ends with the process that started it. All threads share them.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from time import monotonic, perf_counter

from tessella.codegen import worker
from tessella.codegen.llvm import Machine
from tessella.support import deadline
from tessella.support.errors import CompileTimeoutError, InternalError, ResourceError
from tessella.support.knobs import KNOBS
from tessella.targets import threads

MODULES = 200
"""After so many a worker is replaced: llvmlite's pass manager leaks about 60 KB with each."""

ATTEMPTS = 3
"""How often a module is tried before the death of workers is its fault: one may have just ended for
lack of work, and one may have been killed by chance."""

MOST = 8
"""The default limit of workers: a model has no work for more."""

IDLE_SECONDS = 60.0
"""After so long without work a worker ends."""

START_SECONDS = 120.0
"""A worker that is not ready after so long never will be: LLVM loads in half a second."""

ANSWER_SECONDS = 600.0
"""A worker without an answer after so long hangs, where there is no deadline: modules take a few
seconds."""

AGAIN_SECONDS = 10.0
"""After so long starting workers is tried again, once the system has refused it."""

_START = (
    "import sys; sys.path[:] = sys.argv[3:]; from importlib import import_module; "
    "import_module(sys.argv[1]).main(float(sys.argv[2]))"
)
_OUT_OF_MEMORY = re.compile(r"bad_alloc|out of memory|Allocation failed", re.IGNORECASE)
_LARGEST = 1 << 32
"""Bytes of an answer, at most; a longer one is the work of a damaged worker."""
_SHOWN = 500
"""Characters of what a worker said before it died."""

_log = logging.getLogger(__name__)


class DiedError(Exception):
    """A worker has died over a module; the message says how."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"exit status {status}{': ' * bool(said)}{said}")
        self.no_memory = _OUT_OF_MEMORY.search(said) is not None
        """Whether it said so."""
        self.killed = status == -signal.SIGKILL
        """Whether it was killed: most likely by the system, for lack of memory."""


class SilentError(Exception):
    """A worker has given no answer in time, and was ended."""


class NoWorkersError(Exception):
    """The system refuses to start processes."""


class Worker:
    """A process that runs a module, as seen from this one. One thread uses it at a time."""

    def __init__(self, module: str) -> None:
        """Start it. Raises NoWorkersError."""
        self.modules = 0
        """How many it was given."""
        self._is_ready = False
        self._was_killed = False
        try:
            self._socket, self._process = _start(module)
        except (OSError, ValueError, MemoryError) as error:
            raise NoWorkersError(f"cannot start a process: {error}") from error

    @property
    def pid(self) -> int:
        """The system's number of the process."""
        return self._process.pid

    def ask(self, request: bytes, until: float) -> bytes:
        """The reply to a request, which has to come before this time of the monotonic clock. Raises
        DiedError, SilentError, and NoWorkersError if it never started."""
        try:
            self._wait(until)
            self.modules += 1
            self._send(request, until)
            reply = self._receive(until)
        except TimeoutError as error:
            self.kill()
            raise SilentError(
                f"the worker process {self.pid} gave no answer, and was ended"
            ) from error
        except OSError as error:
            died = self._bury()
            if self._is_ready:
                raise died from error
            raise NoWorkersError(f"a process ended before it could be used: {died}") from error
        except BaseException:  # nobody waits for the answer any more
            self.kill()
            raise
        if reply.startswith(worker.NO_MEMORY):
            self.kill()  # another one has not leaked any yet
        return reply

    def is_alive(self) -> bool:
        """Whether it can be asked, as far as one can know."""
        return not self._was_killed and self._process.poll() is None

    def kill(self) -> None:
        """End it, whatever it does. May be called by any thread, and again."""
        self._was_killed = True
        with contextlib.suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """End it, and wait for its end."""
        self.kill()
        self._process.wait()
        self.let_go()

    def let_go(self) -> None:
        """Close our ends, and leave the process alone: it may be another process's child."""
        self._socket.close()
        if self._process.stderr is not None:
            self._process.stderr.close()
        if self._process.returncode is None:
            self._process.returncode = 0  # or Popen complains that it still runs

    def _wait(self, until: float) -> None:
        if self._is_ready:
            return
        start = monotonic() + START_SECONDS
        try:
            if self._receive(min(start, until)) != worker.READY:
                raise ConnectionResetError("it is none of ours")
        except TimeoutError as error:
            if until < start:
                raise
            raise ConnectionResetError("it does not start") from error
        self._is_ready = True

    def _bury(self) -> DiedError:
        self.kill()
        status = self._process.wait()
        said = b""
        if self._process.stderr is not None and not self._process.stderr.closed:
            os.set_blocking(self._process.stderr.fileno(), False)
            said = self._process.stderr.read() or b""
        return DiedError(status, said.decode(errors="replace").strip()[-_SHOWN:])

    def _send(self, message: bytes, until: float) -> None:
        data = memoryview(len(message).to_bytes(worker.LENGTH) + message)
        while data:
            self._limit(until)
            # no signal where the other side is closed: it would end this process
            data = data[self._socket.send(data, socket.MSG_NOSIGNAL) :]

    def _receive(self, until: float) -> bytes:
        size = int.from_bytes(self._read(worker.LENGTH, until))
        if size > _LARGEST:
            raise ConnectionResetError("it is none of ours")
        return self._read(size, until)

    def _limit(self, until: float) -> None:
        """Let what the socket does next end before this time. Raises TimeoutError."""
        left = until - monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)

    def _read(self, size: int, until: float) -> bytes:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            self._limit(until)
            count = self._socket.recv_into(view)
            if count == 0:
                raise ConnectionResetError("it closed the socket")
            view = view[count:]
        return bytes(data)


def _start(module: str) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    ours, theirs = socket.socketpair()
    with theirs, contextlib.ExitStack() as failed:
        failed.callback(ours.close)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _START, module, str(IDLE_SECONDS), *_paths()],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        failed.pop_all()
        return ours, process


def _paths() -> Sequence[str]:
    """Where a worker finds modules: where this process does, without the folder it runs in."""
    ours = str(Path(__file__).absolute().parents[2])
    return [ours, *(os.path.abspath(path) for path in sys.path if path)]


class Pool:
    """At most so many workers, for all threads of this process."""

    def __init__(self, size: int, module: str = worker.__name__) -> None:
        self.size = size
        self._module = module
        self._free = threading.Semaphore(size)
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()
        self._is_closed = False

    def has_idle(self) -> bool:
        """Whether a worker waits for work, or will soon."""
        return bool(self._idle)

    def prepare(self, count: int) -> None:
        """Start workers without waiting for them, so that so many are there. Raises
        NoWorkersError."""
        with self._lock:
            for _ in range(min(count, self.size) - len(self._idle) - len(self._busy)):
                self._idle.append(Worker(self._module))

    @contextlib.contextmanager
    def worker(self, until: float) -> Generator[Worker]:
        """A worker for this thread, which waits until one is free. Raises NoWorkersError, and
        SilentError if none is before this time of the monotonic clock."""
        if not self._free.acquire(timeout=max(0.0, until - monotonic())):
            raise SilentError("all worker processes are busy")
        try:
            taken = self._take()
            try:
                yield taken
            finally:
                self._give_back(taken)
        finally:
            self._free.release()

    def retire(self) -> None:
        """End the workers that have no work, and the others once they are done; start none."""
        with self._lock:
            idle, self._idle, self._is_closed = self._idle, [], True
        for one in idle:
            one.close()

    def close(self) -> None:
        """End all workers. Their current work fails, and none are started again."""
        with self._lock:
            idle, busy = self._idle, list(self._busy)
            self._idle, self._is_closed = [], True
        for one in busy:
            one.kill()
        for one in idle:
            one.close()

    def let_go(self) -> None:
        """Let go of the workers in the child of a fork: they belong to the parent."""
        for one in (*self._idle, *self._busy):
            one.let_go()

    def _take(self) -> Worker:
        with self._lock:
            while self._idle:
                one = self._idle.pop()
                if one.is_alive():
                    break
                one.close()
            else:
                if self._is_closed:
                    raise NoWorkersError("there are to be no more")
                one = Worker(self._module)
            self._busy.add(one)
            return one

    def _give_back(self, one: Worker) -> None:
        with self._lock:
            self._busy.discard(one)
            if one.is_alive() and one.modules < MODULES and not self._is_closed:
                self._idle.append(one)
                return
        one.close()


class Batch:
    """Modules that a thread hands to workers, in any order. It may give up at any time."""

    def __init__(self, pool: Pool, machine: Machine) -> None:
        self._pool = pool
        self._machine = machine
        self._end = deadline.current()
        self._at_work: set[Worker] = set()
        self._is_given_up = False
        self.seconds: list[float] = []
        """Of each module that a worker was at."""

    @property
    def size(self) -> int:
        """How many modules can be compiled at once; 0 where there are no workers."""
        return self._pool.size

    @property
    def is_ready(self) -> bool:
        """Whether a worker waits for work."""
        return self._pool.has_idle()

    def give_up(self) -> None:
        """End the workers that are at modules of it; ``compile`` raises CancelledError."""
        self._is_given_up = True
        for one in list(self._at_work):
            one.kill()

    def compile(self, name: str, text: str) -> bytes:
        """The object of a module. Several threads may call this at once.

        Raises InternalError if LLVM refuses the text or crashes, ResourceError if it runs out of
        memory, CompileTimeoutError after the deadline that the batch was made with and for a worker
        that hangs, and NoWorkersError.
        """
        request = json.dumps(self._machine).encode() + b"\n" + text.encode()
        deaths: list[DiedError] = []
        while len(deaths) < ATTEMPTS and not any(death.no_memory for death in deaths):
            try:
                return _object(self._ask(request), name)
            except DiedError as death:
                deaths.append(death)
            except SilentError as silent:
                raise self._late(name, silent) from silent
        raise _failure(name, deaths[-1])

    def refuse(self, error: NoWorkersError) -> None:
        """Have no workers for a while."""
        refuse(self._pool, error)

    def _late(self, name: str, silent: SilentError) -> CompileTimeoutError:
        where = f"kernel {name}"
        if self._end is not None and monotonic() >= self._end:
            return deadline.exceeded(where, str(silent))
        return CompileTimeoutError(
            f"LLVM is not done with a kernel after {ANSWER_SECONDS:.0f} s",
            where=where,
            found=str(silent),
            hint="report it, with the kernel's text: as_text('llvm')",
        )

    def _ask(self, request: bytes) -> bytes:
        if self._is_given_up:
            raise CancelledError
        with self._pool.worker(self._until()) as one:
            self._at_work.add(one)
            try:
                if self._is_given_up:
                    raise CancelledError
                began = perf_counter()
                answer = one.ask(request, self._until())
                self.seconds.append(perf_counter() - began)
                return answer
            finally:
                self._at_work.discard(one)

    def _until(self) -> float:
        """When a worker that is asked now must have answered."""
        limit = monotonic() + ANSWER_SECONDS
        return limit if self._end is None else min(limit, self._end)


def _object(reply: bytes, name: str) -> bytes:
    outcome, content = reply[:1], reply[1:]
    if outcome == worker.OBJECT:
        return content
    if outcome == worker.NO_MEMORY:
        raise ResourceError("LLVM ran out of memory", where=f"kernel {name}")
    what, where = json.loads(content)
    raise InternalError(what, where=where)


def _failure(name: str, death: DiedError) -> InternalError | ResourceError:
    if death.no_memory or death.killed:
        return ResourceError("LLVM ran out of memory", where=f"kernel {name}", found=str(death))
    return InternalError(
        "LLVM crashed on a kernel",
        where=f"kernel {name}",
        found=str(death),
        hint="report it, with the kernel's text: as_text('llvm')",
    )


class SharedPool:
    """The pool of this process for one kind of workers."""

    def __init__(self, module: str, most: int | None = None) -> None:
        """``most`` bounds their number further than ``TESSELLA_WORKERS`` and the cores do."""
        self._most = most
        self._module = module
        self._lock = threading.Lock()
        self._pool: Pool | None = None
        self._not_before = 0.0
        """When workers may be started again, by the monotonic clock."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def get(self) -> Pool:
        """The pool; one of size 0 where there can be no workers now."""
        with self._lock:
            if self._pool is None:
                if monotonic() < self._not_before:
                    return Pool(0)
                self._pool = Pool(_size(self._most), self._module)
                atexit.register(self.close)
            return self._pool

    def refuse(self, pool: Pool, error: NoWorkersError) -> None:
        """Start no workers for a while, as those of this pool cannot be started."""
        _log.info("no processes of %s are started for now: %s", self._module, error)
        with self._lock:
            if self._pool is not pool:  # another thread was told before
                return
            self._pool, self._not_before = None, monotonic() + AGAIN_SECONDS
        pool.retire()

    def close(self) -> None:
        """End all workers; there are none from now on."""
        atexit.unregister(self.close)
        with self._lock:
            old, self._pool = self._pool, Pool(0)
        if old is not None:
            old.close()

    def _after_fork(self) -> None:
        """In the child of a fork: the workers belong to the parent, and its locks are of no use."""
        old = self._pool
        self._lock, self._pool, self._not_before = threading.Lock(), None, 0.0
        if old is not None:
            old.let_go()


def _size(most: int | None) -> int:
    # an application that is one file with Python inside would be started again as a whole
    if os.name != "posix" or not sys.executable or getattr(sys, "frozen", False):
        return 0
    count = min(threads.available(), MOST) if KNOBS.workers is None else KNOBS.workers
    return count if most is None else min(count, most)


_SHARED = SharedPool(worker.__name__)


def pool() -> Pool:
    """The workers of this process; of size 0 where there are to be none."""
    return _SHARED.get()


def refuse(pool: Pool, error: NoWorkersError) -> None:
    """Have no workers for a while, as those of this pool cannot be started."""
    _SHARED.refuse(pool, error)
