"""Worker processes that run LLVM, which confine its leaks and crashes.

A process (``worker``) is started when there is work and replaced after a number of modules. It ends
when it is idle for a while, and when its parent ends. All threads share the workers.
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
"""Modules after which a worker is replaced: llvmlite's pass manager leaks about 60 KB with each."""

ATTEMPTS = 3
"""Attempts to compile a module before it is blamed for the death of workers.

One worker may just have ended for lack of work, and another may have been killed by chance.
"""

MOST = 8
"""Default limit on the number of workers: a model has no work for more."""

IDLE_SECONDS = 60.0
"""Seconds without work after which a worker ends."""

START_SECONDS = 120.0
"""Seconds after which a worker that is not ready counts as hung: LLVM loads in half a second."""

ANSWER_SECONDS = 600.0
"""Seconds after which a worker without an answer counts as hung, if there is no deadline."""

AGAIN_SECONDS = 10.0
"""Seconds before workers are started again after the system has refused to start a process."""

_START = (
    "import sys; sys.path[:] = sys.argv[3:]; from importlib import import_module; "
    "import_module(sys.argv[1]).main(float(sys.argv[2]))"
)
_OUT_OF_MEMORY = re.compile(r"bad_alloc|out of memory|Allocation failed", re.IGNORECASE)
_LARGEST = 1 << 32
"""Upper bound on an answer in bytes; a longer one comes from a damaged worker."""
_SHOWN = 500
"""Characters of a dead worker's last output that an error shows."""

_log = logging.getLogger(__name__)


class DiedError(Exception):
    """A worker died while compiling a module; the message says how."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"exit status {status}{': ' * bool(said)}{said}")
        self.no_memory = _OUT_OF_MEMORY.search(said) is not None
        """True if the worker's output reports a lack of memory."""
        self.killed = status == -signal.SIGKILL
        """True if SIGKILL ended the worker, most likely sent by the system's out-of-memory
        killer."""


class SilentError(Exception):
    """A worker gave no answer in time, and was ended."""


class NoWorkersError(Exception):
    """The system refuses to start processes."""


class Worker:
    """The parent's side of a worker process. One thread uses it at a time."""

    def __init__(self, module: str) -> None:
        """Start the process, which runs the Python module ``module``. Raises NoWorkersError if the
        system refuses."""
        self.modules = 0
        """Modules sent to the worker so far."""
        self._is_ready = False
        self._was_killed = False
        try:
            self._socket, self._process = _start(module)
        except (OSError, ValueError, MemoryError) as error:
            raise NoWorkersError(f"cannot start a process: {error}") from error

    @property
    def pid(self) -> int:
        """The system's process ID."""
        return self._process.pid

    def ask(self, request: bytes, until: float) -> bytes:
        """Send a request to the process and return its reply, which must arrive before ``until`` on
        the monotonic clock.

        Raises DiedError if the process ends, SilentError if no reply arrives in time, and
        NoWorkersError if the process never started.
        """
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
        except BaseException:  # Nobody waits for the answer any more.
            self.kill()
            raise
        if reply.startswith(worker.NO_MEMORY):
            self.kill()  # A new worker replaces this one and has not leaked memory yet.
        return reply

    def is_alive(self) -> bool:
        """Return whether the process can take a request: it has not exited, and ``kill`` was not
        called."""
        return not self._was_killed and self._process.poll() is None

    def kill(self) -> None:
        """Kill the process. Any thread may call this, repeatedly."""
        self._was_killed = True
        with contextlib.suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """End the process, and wait for its end."""
        self.kill()
        self._process.wait()
        self.let_go()

    def let_go(self) -> None:
        """Close the pipes but leave the process alone: it may be another process's child."""
        self._socket.close()
        if self._process.stderr is not None:
            self._process.stderr.close()
        if self._process.returncode is None:
            self._process.returncode = 0  # prevents Popen's warning that the process still runs

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
            # a closed peer must not raise a signal, which would end this process
            data = data[self._socket.send(data, socket.MSG_NOSIGNAL) :]

    def _receive(self, until: float) -> bytes:
        size = int.from_bytes(self._read(worker.LENGTH, until))
        if size > _LARGEST:
            raise ConnectionResetError("it is none of ours")
        return self._read(size, until)

    def _limit(self, until: float) -> None:
        """Set the socket's timeout to the time that is left until ``until``. Raises TimeoutError if
        none is left."""
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
    """Return the module search path for a worker: this process's, without its working directory."""
    ours = str(Path(__file__).absolute().parents[2])
    return [ours, *(os.path.abspath(path) for path in sys.path if path)]


class WorkerPool:
    """A bounded number of workers, for all threads of this process."""

    def __init__(self, size: int, module: str = worker.__name__) -> None:
        self.size = size
        self._module = module
        self._free = threading.Semaphore(size)
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()
        self._is_closed = False

    def has_idle(self) -> bool:
        """Return whether a worker is idle, or was started and has no work yet."""
        return bool(self._idle)

    def prepare(self, count: int) -> None:
        """Start workers, until there are ``count``, without waiting for them. Raises NoWorkersError
        if the system refuses to start processes."""
        with self._lock:
            for _ in range(min(count, self.size) - len(self._idle) - len(self._busy)):
                self._idle.append(Worker(self._module))

    @contextlib.contextmanager
    def worker(self, until: float) -> Generator[Worker]:
        """A context manager that lends a worker to this thread, once one is free.

        Raises NoWorkersError if no process can be started, and SilentError if no worker is free
        before ``until`` on the monotonic clock.
        """
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
        """End idle workers now and the others after their current work; start no further ones."""
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
        """Drop the workers in the child of a fork: they belong to the parent."""
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
    """The modules that one thread has compiled by workers, in any order. The thread may cancel the
    compilations at any time."""

    def __init__(self, pool: WorkerPool, machine: Machine) -> None:
        self._pool = pool
        self._machine = machine
        self._end = deadline.current()
        self._at_work: set[Worker] = set()
        self._is_given_up = False
        self.seconds: list[float] = []
        """Seconds that each compiled module took in a worker."""

    @property
    def size(self) -> int:
        """The number of modules that can be compiled at once; 0 without workers."""
        return self._pool.size

    @property
    def is_ready(self) -> bool:
        """True if a worker is idle."""
        return self._pool.has_idle()

    def give_up(self) -> None:
        """End the workers that compile the batch's modules; ``compile`` raises CancelledError."""
        self._is_given_up = True
        for one in list(self._at_work):
            one.kill()

    def compile(self, name: str, text: str) -> bytes:
        """Return the object of a module. Several threads may call this at once.

        Raises InternalError if LLVM rejects the text or crashes, ResourceError if it runs out of
        memory, CompileTimeoutError after the batch's deadline and for a hung worker, and
        NoWorkersError.
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
        """Stop using workers for a while, as they could not be started."""
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
        """Return the time, on the monotonic clock, by which a request that is sent now must be
        answered."""
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
    """The pool of this process for one kind of worker."""

    def __init__(self, module: str, most: int | None = None) -> None:
        """Limit the number of workers to ``most``, if given, and to ``TESSELLA_WORKERS`` or, if
        that is not set, to the number of cores and to ``MOST``."""
        self._most = most
        self._module = module
        self._lock = threading.Lock()
        self._pool: WorkerPool | None = None
        self._not_before = 0.0
        """The earliest time to start workers again, on the monotonic clock."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def get(self) -> WorkerPool:
        """Return the pool; its size is 0 if no workers can be started now."""
        with self._lock:
            if self._pool is None:
                if monotonic() < self._not_before:
                    return WorkerPool(0)
                self._pool = WorkerPool(_size(self._most), self._module)
                atexit.register(self.close)
            return self._pool

    def refuse(self, pool: WorkerPool, error: NoWorkersError) -> None:
        """Start no workers for a while, because those of ``pool`` could not be started."""
        _log.info("no processes of %s are started for now: %s", self._module, error)
        with self._lock:
            if self._pool is not pool:  # another thread has replaced the pool already
                return
            self._pool, self._not_before = None, monotonic() + AGAIN_SECONDS
        pool.retire()

    def close(self) -> None:
        """End all workers, and start none from now on."""
        atexit.unregister(self.close)
        with self._lock:
            old, self._pool = self._pool, WorkerPool(0)
        if old is not None:
            old.close()

    def _after_fork(self) -> None:
        """Reset the pool in the child of a fork: workers belong to the parent, and its locks are
        unusable."""
        old = self._pool
        self._lock, self._pool, self._not_before = threading.Lock(), None, 0.0
        if old is not None:
            old.let_go()


def _size(most: int | None) -> int:
    # In a frozen application, sys.executable would start the whole application again.
    if os.name != "posix" or not sys.executable or getattr(sys, "frozen", False):
        return 0
    count = min(threads.available(), MOST) if KNOBS.workers is None else KNOBS.workers
    return count if most is None else min(count, most)


_SHARED = SharedPool(worker.__name__)


def pool() -> WorkerPool:
    """Return the workers of this process; the pool's size is 0 if workers are disabled."""
    return _SHARED.get()


def refuse(pool: WorkerPool, error: NoWorkersError) -> None:
    """Start no workers for a while, because those of ``pool`` could not be started."""
    _SHARED.refuse(pool, error)
