"""LLVM in other processes: what comes back, what happens when they die, and that none is left."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tessella.codegen import objects, workers
from tessella.codegen.llvm import Machine, emit_object
from tessella.codegen.workers import Batch, Worker, WorkerPool
from tessella.support import deadline
from tessella.support.errors import CompileTimeoutError, InternalError, ResourceError
from tessella.targets import get, native
from tests.refusal import refuse_threads

pytestmark = pytest.mark.usefixtures("compiled_anew")

ROOT = Path(__file__).parents[2]
MACHINE = Machine.of(native())
SSE = Machine.of(get("sse"))

FATAL = """declare <16 x float> @llvm.x86.avx512.vfmadd.ps.512(
  <16 x float>, <16 x float>, <16 x float>, i32)
define void @k(ptr %p) {
  %x = load <16 x float>, ptr %p
  %y = call <16 x float> @llvm.x86.avx512.vfmadd.ps.512(
    <16 x float> %x, <16 x float> %x, <16 x float> %x, i32 4)
  store <16 x float> %y, ptr %p
  ret void
}
"""
"""LLVM ends its process for an instruction that the target does not have."""


def constant(number: int) -> str:
    return f"define i64 @v{number}() {{\n  ret i64 {number}\n}}\n"


def long(size: int = 4000) -> str:
    """A module that takes LLVM seconds."""
    lines = ["define i64 @v(ptr %p, i64 %x0) {"]
    for i in range(size):
        lines.append(f"  %a{i} = getelementptr i64, ptr %p, i64 %x{i}")
        lines.append(f"  %b{i} = load i64, ptr %a{i}")
        lines.append(f"  %c{i} = mul i64 %b{i}, %x{i // 2}")
        lines.append(f"  store i64 %c{i}, ptr %a{i}")
        lines.append(f"  %x{i + 1} = xor i64 %c{i}, %x{i}")
    return "\n".join([*lines, f"  ret i64 %x{size}", "}", ""])


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    one = WorkerPool(2)
    yield one
    one.close()


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch, pool: WorkerPool) -> WorkerPool:
    """The pool that all of the process use, for a test; nothing is compiled outside of it."""
    monkeypatch.setattr(workers._SHARED, "_pool", pool)
    monkeypatch.setattr(workers._SHARED, "_not_before", 0.0)
    monkeypatch.setattr(objects, "MODULES_HERE", 0)
    return pool


SLEEPS = "import time; time.sleep(600)"
READY = "import os; ready = b'tessella'; os.write(0, len(ready).to_bytes(8) + ready); "


def pids_of(monkeypatch: pytest.MonkeyPatch, script: str) -> list[int]:
    """Let workers run this script instead, for a test; their numbers are added to the list."""
    monkeypatch.setattr(workers, "_START", script)
    start, pids = workers._start, list[int]()

    def started(module: str) -> Any:
        connection, process = start(module)
        pids.append(process.pid)
        return connection, process

    monkeypatch.setattr(workers, "_start", started)
    return pids


def is_there(pid: int) -> bool:
    """Return whether the process is, and is no zombie."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def wait_until_gone(pid: int, seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while is_there(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_there(pid)


def wait_for_busy(pool: WorkerPool) -> Worker:
    while True:
        for one in list(pool._busy):
            if one.modules:
                return one
        time.sleep(0.01)


# ** what comes back **


def test_objects_are_those_of_this_process(shared: WorkerPool) -> None:
    texts = {f"k{i}": constant(i) for i in range(5)}
    made = objects.compile_modules(texts, native())
    assert made.files == {name: emit_object(text, MACHINE) for name, text in texts.items()}
    assert 1 <= len(shared._idle) <= 2


def test_every_module_is_told_when_it_is_ready(shared: WorkerPool) -> None:
    seen: list[str] = []
    objects.compile_modules({f"k{i}": constant(i) for i in range(5)}, native(), done=seen.append)
    assert sorted(seen) == [f"k{i}" for i in range(5)]


def test_a_little_is_compiled_here(monkeypatch: pytest.MonkeyPatch, pool: WorkerPool) -> None:
    monkeypatch.setattr(workers._SHARED, "_pool", pool)
    monkeypatch.setattr(objects.Compilation, "_here", 0)
    monkeypatch.setattr(objects, "MODULES_HERE", 3)
    for i in range(3):
        objects.compile_modules({"k": constant(i)}, native())
    assert not pool._idle
    objects.compile_modules({"k": constant(3)}, native())
    assert len(pool._idle) == 1


def test_text_that_llvm_refuses(shared: WorkerPool) -> None:
    with pytest.raises(InternalError, match="does not accept") as caught:
        objects.compile_modules(
            {"a": constant(1), "b": "define void @b() {\n  nonsense\n}"}, native()
        )
    assert ">    2   nonsense" in str(caught.value)
    assert objects.compile_modules({"k": constant(2)}, native())


def test_threads_share_workers(shared: WorkerPool) -> None:
    made: list[objects.Objects] = []

    def work(i: int) -> None:
        texts = {f"k{i}{j}": constant(j) for j in range(4)}
        made.append(objects.compile_modules(texts, native()))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 6
    assert len(shared._idle) <= 2
    assert not shared._busy


def test_a_worker_is_replaced_after_some_modules(
    shared: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "MODULES", 3)
    batch = Batch(shared, MACHINE)
    pids: list[int] = []
    for i in range(7):
        batch.compile("k", constant(i))
        pids += [one.pid for one in shared._idle]
    assert len(set(pids)) == 3
    assert not is_there(pids[0])


# ** deaths **


def test_a_worker_that_was_killed_before(shared: WorkerPool) -> None:
    objects.compile_modules({"k": constant(1)}, native())
    os.kill(shared._idle[0].pid, signal.SIGKILL)
    assert objects.compile_modules({"k": constant(1)}, native())


def test_a_worker_that_is_killed_in_the_midst(shared: WorkerPool) -> None:
    made: list[objects.Objects] = []
    text = long(400)
    work = threading.Thread(
        target=lambda: made.append(objects.compile_modules({"k": text}, native()))
    )
    work.start()
    first = wait_for_busy(shared)
    first.kill()
    work.join()
    assert made[0].files["k"] == emit_object(text, MACHINE)
    assert not is_there(first.pid)


def test_a_kernel_of_which_llvm_dies(shared: WorkerPool) -> None:
    with pytest.raises(InternalError, match="LLVM crashed on a kernel") as caught:
        Batch(shared, SSE).compile("some_kernel", FATAL)
    assert "some_kernel" in str(caught.value)
    assert "how to split the result" in str(caught.value)
    assert not shared._busy
    assert not shared._idle


def test_workers_that_are_killed_again_and_again(shared: WorkerPool) -> None:
    """The system does so where memory is short."""
    stop = threading.Event()

    def kill() -> None:
        while not stop.wait(0.01):
            for one in list(shared._busy):
                if one.modules:
                    one.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with pytest.raises(ResourceError, match="out of memory"):
            objects.compile_modules({"k": long(400)}, native())
    finally:
        stop.set()
        killer.join()


def test_a_worker_without_memory(shared: WorkerPool) -> None:
    objects.compile_modules({"k": constant(1)}, native())
    pid = shared._idle[0].pid
    used = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
    resource.prlimit(pid, resource.RLIMIT_AS, (used + 2**20, used + 2**20))
    with pytest.raises(ResourceError, match="LLVM ran out of memory"):
        objects.compile_modules({"k": long(800)}, native())
    assert objects.compile_modules({"k": constant(1)}, native())


# ** workers that hang **


def test_a_worker_without_an_answer_is_ended(
    shared: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = pids_of(monkeypatch, READY + SLEEPS)
    monkeypatch.setattr(workers, "ANSWER_SECONDS", 1.0)
    with pytest.raises(CompileTimeoutError, match="LLVM is not done with a kernel") as caught:
        Batch(shared, MACHINE).compile("some_kernel", constant(1))
    assert caught.value.where == "kernel some_kernel"
    assert f"the worker process {pids[0]} gave no answer" in str(caught.value.found)
    assert not any(map(is_there, pids))
    assert not shared._busy
    assert not shared._idle


def test_a_deadline_ends_a_worker(shared: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = pids_of(monkeypatch, READY + SLEEPS)
    texts = {f"k{i}": constant(i) for i in range(5)}
    with pytest.raises(CompileTimeoutError) as caught, deadline.within(2):
        objects.compile_modules(texts, native())
    assert "takes longer than it may" in str(caught.value)
    assert str(caught.value.where).startswith("kernel k")
    assert "gave no answer, and was ended" in str(caught.value.found)
    shared.close()
    assert all(wait_until_gone(pid) for pid in pids)


def test_a_worker_that_never_starts(shared: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is as if the system refused it."""
    pids = pids_of(monkeypatch, SLEEPS)
    monkeypatch.setattr(workers, "START_SECONDS", 0.5)
    made = objects.compile_modules({f"k{i}": constant(i) for i in range(3)}, native())
    assert made.files["k1"] == emit_object(constant(1), MACHINE)
    assert all(wait_until_gone(pid) for pid in pids)


def test_modules_without_workers_keep_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers._SHARED, "_pool", WorkerPool(0))
    with pytest.raises(CompileTimeoutError, match="before kernel k"), deadline.within(0):
        objects.compile_modules({"k": constant(1)}, native())


def test_a_question_that_is_interrupted(
    shared: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody takes the answer to it for that to the next one."""

    def interrupted(worker: Worker, until: float) -> bytes:
        raise KeyboardInterrupt

    with shared.worker(time.monotonic() + 60) as one, monkeypatch.context() as patched:
        one._wait(time.monotonic() + 60)
        patched.setattr(Worker, "_receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            one.ask(b"x", time.monotonic() + 60)
    assert not is_there(one.pid)
    assert not shared._idle


# ** where there can be no workers **


def test_starting_workers_is_tried_again(
    shared: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal does not move LLVM into this process for good."""
    monkeypatch.setattr(workers, "AGAIN_SECONDS", 0.0)
    texts = {f"k{i}": constant(i) for i in range(3)}
    with monkeypatch.context() as refused:
        refused.setattr(sys, "executable", "/nowhere/python")
        assert set(objects.compile_modules(texts, native()).files) == set(texts)
    again = workers.pool()
    assert again is not shared
    assert again.size
    assert objects.compile_modules({"k": constant(9)}, native())
    assert again._idle
    again.close()


def test_a_refusal_leaves_workers_at_work(shared: WorkerPool) -> None:
    """Another thread's module is compiled all the same."""
    made: list[objects.Objects] = []
    text = long(400)
    work = threading.Thread(
        target=lambda: made.append(objects.compile_modules({"k": text}, native()))
    )
    work.start()
    one = wait_for_busy(shared)
    workers.refuse(shared, workers.NoWorkersError("refused"))
    work.join()
    assert made[0].files["k"] == emit_object(text, MACHINE)
    assert not is_there(one.pid)


@pytest.mark.parametrize("program", ["/nowhere/python", "/bin/true", "/bin/cat", "/dev/null"])
def test_what_cannot_be_started(
    shared: WorkerPool, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    made = objects.compile_modules({f"k{i}": constant(i) for i in range(3)}, native())
    assert made.files["k1"] == emit_object(constant(1), MACHINE)
    assert workers.pool().size == 0


@pytest.mark.parametrize("started", [0, 1])
def test_no_threads_can_be_started(
    shared: WorkerPool, monkeypatch: pytest.MonkeyPatch, started: int
) -> None:
    """The process limit of the container, which counts threads, is reached."""
    refuse_threads(monkeypatch, after=started)
    texts = {"k": long(500), "l": long(400), "m": constant(1)}
    made = objects.compile_modules(texts, native())
    assert made.files["m"] == emit_object(constant(1), MACHINE)
    assert workers.pool().size == 0


def test_none_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers.KNOBS, "workers", 0)
    monkeypatch.setattr(workers._SHARED, "_pool", None)
    texts = {"k": long(500), "l": constant(1)}
    assert set(objects.compile_modules(texts, native()).files) == {"k", "l"}
    assert workers.pool().size == 0


# ** none is left behind **

START = """
import os, signal, sys, threading, time
from tessella.codegen import objects, workers
from tessella.targets import native
objects.prepare()
texts = {f"k{i}": f"define i64 @k() {{\\n ret i64 {i}\\n}}\\n" for i in range(40)}
objects.compile_modules(texts, native())
print(*(one.pid for one in workers.pool()._idle), flush=True)
"""


def run(program: str) -> tuple[list[int], int, str]:
    """The workers that a program had, its status, and what it said."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "TESSELLA_WORKERS": "2"}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", START + program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    first, _, rest = ran.stdout.partition("\n")
    return [int(word) for word in first.split()], ran.returncode, rest + ran.stderr


@pytest.mark.sweep
@pytest.mark.parametrize(
    "program, status",
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("os._exit(4)", 4),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("signal.signal(signal.SIGINT, signal.SIG_DFL); os.kill(os.getpid(), 2)", -signal.SIGINT),
    ],
    ids=["end", "exit", "_exit", "killed", "interrupted"],
)
def test_the_end_of_the_process(program: str, status: int) -> None:
    pids, code, said = run(program)
    assert (len(pids), code, said) == (2, status, "")
    assert all(wait_until_gone(pid) for pid in pids)


def test_the_end_of_the_process_in_the_midst_of_work() -> None:
    program = """
from tests.codegen.test_workers import long
threading.Thread(target=objects.compile_modules, args=({"k": long(1500)}, native())).start()
while len(workers.pool()._idle) == 2:
    time.sleep(0.01)
os._exit(0)
"""
    pids, _, said = run(program)
    assert said == ""
    assert all(wait_until_gone(pid, 3) for pid in pids)


def test_a_child_of_a_fork_has_workers_of_its_own() -> None:
    """And those of the parent go on, and end with it, whether the child lives or not."""
    program = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
pid = os.fork()
before = {one.pid for one in workers.pool()._idle}
objects.compile_modules(texts, native())
after = {one.pid for one in workers.pool()._idle}
if pid == 0:
    assert not before and after
    time.sleep(60)
    os._exit(1)
assert before == after, (before, after)
os.kill(pid, signal.SIGKILL)
assert os.waitpid(pid, 0)[1] == signal.SIGKILL
"""
    pids, code, said = run(program)
    assert (code, said) == (0, "")
    assert all(wait_until_gone(pid) for pid in pids)


def test_a_child_that_outlives_its_parent_keeps_no_workers() -> None:
    program = "if os.fork() == 0: os.close(1); os.close(2); time.sleep(20)\n"
    pids, code, said = run(program)
    assert (code, said) == (0, "")
    assert all(wait_until_gone(pid, 5) for pid in pids)


def test_an_interrupted_compilation_leaves_workers_that_are_free(shared: WorkerPool) -> None:
    class StopError(BaseException):
        pass

    def stop(_: str) -> None:
        raise StopError

    texts = {"a": constant(1), **{f"k{i}": long(400) for i in range(3)}}
    began = time.monotonic()
    with pytest.raises(StopError):
        objects.compile_modules(texts, native(), done=stop)
    while shared._busy and time.monotonic() < began + 30:
        time.sleep(0.01)
    assert not shared._busy
    assert objects.compile_modules({"k": constant(1)}, native())


def test_a_worker_without_work_ends(monkeypatch: pytest.MonkeyPatch, pool: WorkerPool) -> None:
    monkeypatch.setattr(workers, "IDLE_SECONDS", 0.2)
    batch = Batch(pool, MACHINE)
    batch.compile("k", constant(1))
    pid = pool._idle[0].pid
    assert wait_until_gone(pid)
    batch.compile("k", constant(1))
    assert pool._idle[0].pid != pid


def test_a_program_whose_signals_end_it() -> None:
    """A closed socket would, where the program does not ignore SIGPIPE as Python does."""
    program = """
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
for one in list(workers.pool()._idle):
    one._process.kill()
    one._process.wait()
    one._process.returncode = None
    try:
        one.ask(b"x" * 100, time.monotonic() + 60)
    except workers.DiedError:
        print("alive")
"""
    _, code, said = run(program)
    assert (code, said) == (0, "alive\nalive\n")
