"""The pool and the process: forks, new programs, signals, the end of the interpreter, quotas."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sampling import sampled

ROOT = Path(__file__).parents[2]
GROUPS = Path("/sys/fs/cgroup/cpu")

COMMON = """
import multiprocessing, os, signal, subprocess, sys, threading, time
from pathlib import Path
import numpy as np
from tests.runtime.pooled import COUNT, compiled, program, summed, sums

library = compiled({"few": sums(4), "long": sums(40_000)})
few, long = program(library, "few"), program(library, "long")
X = np.arange(COUNT)
WANT = summed(X, 4)

def check(threads=3):
    (y,) = few.run([X], threads)
    np.testing.assert_array_equal(y, WANT)

def pool():
    "The names of the threads of the pool."
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    return sorted(name for name in names if name.startswith("tessella-"))

def in_child(work):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(2)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

def in_background(work):
    def again():
        while True:
            work()
    threading.Thread(target=again, daemon=True).start()
"""

FORK = """
def child():
    assert pool() == []
    check(2)
    assert pool() == ["tessella-1"]
    check(4)
    in_child(lambda: check(3))

check(1)
assert pool() == []
check(3)
in_child(child)
in_background(lambda: long.run([X], 2))
for _ in range(4):
    time.sleep(0.005)
    in_child(child)
check(2)
assert pool() == ["tessella-1", "tessella-2"]
os._exit(0)
"""

EXEC = """
in_background(check)
for _ in range(5):
    done = subprocess.run([sys.executable, "-S", "-c", "print(5)"], capture_output=True, timeout=60)
    assert done.stdout == b"5\\n"
    pid = os.posix_spawn("/bin/true", ["/bin/true"], {})
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
check()
os._exit(0)
"""

SPAWN = """
if __name__ == "__main__":
    check()
    for method in ("spawn", "forkserver", "fork"):
        process = multiprocessing.get_context(method).Process(target=check)
        process.start()
        process.join(60)
        assert process.exitcode == 0, (method, process.exitcode)
    check()
"""

ALARMS = """
rung = []
signal.signal(signal.SIGALRM, lambda number, frame: rung.append(number))
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
while len(rung) < 100:
    check(2)
signal.setitimer(signal.ITIMER_REAL, 0)
"""

INTERRUPT = """
# shells let what they start in the background ignore interrupts
signal.signal(signal.SIGINT, signal.default_int_handler)
check(2)
ends = []
began = time.monotonic()
long.run([X], 1)
takes = time.monotonic() - began
for _ in range(3):
    timer = threading.Timer(takes / 10, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    interrupted = False
    try:
        # on a busy machine, the timer may be late
        while time.monotonic() < began + 60:
            long.run([X], 2)
            ends.append(time.monotonic())
    except KeyboardInterrupt:
        interrupted = True
    assert interrupted
    timer.join()
    check(2)
"""

EXIT = """
in_background(lambda: long.run([X], 2))
in_background(lambda: check(3))
time.sleep(float(sys.argv[1]))
"""

AT_EXIT = """
import atexit
atexit.register(check)
check(2)
"""

ONE_CORE = """
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
for threads in (2, 3, 8):
    check(threads)
    program(library, *["few"] * 20).run([X], threads)
"""

QUOTA = """
Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
from tessella.targets import threads
threads.quota.cache_clear()
assert threads.quota() == 1, threads.quota()
for _ in range(30):
    check(2)
    check(3)
"""

FORKS = """
def size():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

def forks(count):
    for _ in range(count):
        in_child(lambda: check(4))
        check(2)

forks(5)
before, files = size(), len(os.listdir("/proc/self/fd"))
forks(int(sys.argv[1]))
assert size() - before < 4e6, (before, size())
assert len(os.listdir("/proc/self/fd")) == files
"""

REFUSED = """
import resource

check(2)
used = int(Path("/proc/self/statm").read_text().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (16 << 20), resource.RLIM_INFINITY))
check(200)
check(300)
assert 1 <= len(pool()) < 100, len(pool())
"""

SIZES = """
def size():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

check(300)
before = size()
for threads in range(2, 300, 3):
    check(threads)
assert size() - before < 30e6, (before, size())
assert len(pool()) == 299
"""

CASES = {
    "fork": FORK,
    "exec": EXEC,
    "spawn": SPAWN,
    "alarms": ALARMS,
    "interrupt": INTERRUPT,
    "at exit": AT_EXIT,
    "one core": ONE_CORE,
    "many sizes": SIZES,
    "threads refused": REFUSED,
}


def run(folder: Path, text: str, *arguments: str) -> None:
    """Run a script, which has to end in time, without a word."""
    script = folder / "script.py"
    script.write_text(COMMON + text)
    done = subprocess.run(
        [sys.executable, script, *arguments],
        # newer Pythons warn of any fork where there are threads
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore::DeprecationWarning"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.sweep
@pytest.mark.parametrize("name", CASES)
def test_a_process(name: str, tmp_path: Path) -> None:
    run(tmp_path, CASES[name])


def test_many_forks(tmp_path: Path) -> None:
    run(tmp_path, FORKS, str(sampled(200)))


@pytest.mark.parametrize("seconds", ["0", "0.003", "0.1"])
def test_the_interpreter_ends_while_calls_run(seconds: str, tmp_path: Path) -> None:
    run(tmp_path, EXIT, seconds)


@pytest.fixture
def half_a_core() -> Iterator[Path]:
    """A control group that gets half a core."""
    group = GROUPS / f"tessella-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text("20000")
        (group / "cpu.cfs_quota_us").write_text("10000")
    except OSError:
        pytest.skip("control groups cannot be made here")
    yield group
    for _ in range(100):
        try:
            group.rmdir()
            break
        except OSError:
            time.sleep(0.05)


def test_a_quota_of_half_a_core(half_a_core: Path, tmp_path: Path) -> None:
    run(tmp_path, QUOTA, str(half_a_core))
