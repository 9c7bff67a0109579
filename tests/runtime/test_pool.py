"""The pool of threads: programs that several threads run together."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tessella.runtime.image import Library
from tessella.support.errors import ExecutionError
from tests.runtime.pooled import CHECK, COUNT, compiled, program, summed, sums

X = np.arange(COUNT)


@pytest.fixture(scope="module")
def library() -> Library:
    return compiled({"few": sums(4), "many": sums(200), "check": CHECK})


@pytest.mark.parametrize("threads", [1, 2, 3, 5, 8])
def test_any_number_of_threads(library: Library, threads: int) -> None:
    """There are many phases, in which each reads what its neighbour has written."""
    several = program(library, "few", "many", "few")
    for _ in range(5):
        (y,) = several.run([X], threads)
        np.testing.assert_array_equal(y, summed(X, 208))


def test_steps_that_are_not_shared_run_on_the_caller(library: Library) -> None:
    for shared, want in ((False, [1]), (True, [4] * 4)):
        (y,) = program(library, "check", shared=shared).run([np.zeros(COUNT, np.int64)], 4)
        assert y[: len(want)].tolist() == want


def test_more_threads_than_cores(library: Library) -> None:
    (y,) = program(library, "few").run([X], 200)
    np.testing.assert_array_equal(y, summed(X, 4))


@pytest.mark.parametrize(
    "codes, node",
    [([0, 5, 0], "four"), ([7, 0, 0], "six"), ([0, 7, 5], "four"), ([7, 5, 5], "four")],
)
def test_a_failed_check_of_one_thread(library: Library, codes: list[int], node: str) -> None:
    """The one with the smallest code is reported, whichever share it is in; the next call is not
    affected."""
    checks, x = program(library, "check"), np.zeros(COUNT, np.int64)
    x[:3] = codes
    for _ in range(3):
        with pytest.raises(ExecutionError, match=node):
            checks.run([x], 3)
        (y,) = checks.run([np.zeros(COUNT, np.int64)], 3)
        assert y[:3].tolist() == [3, 3, 3]


def test_callers_that_come_at_once(library: Library, request: pytest.FixtureRequest) -> None:
    """Eight threads call two programs, more than can compute at once: all are right."""
    seconds = 10 if request.config.getoption("--slow") else 1
    programs = [program(library, "many", "few"), program(library, "few", "few", "few")]
    wants = [summed(X, 204), summed(X, 12)]
    wrong: list[int] = []
    end = time.monotonic() + seconds

    def work(number: int) -> None:
        while time.monotonic() < end and not wrong:
            (y,) = programs[number % 2].run([X], 2 + number % 3)
            if not np.array_equal(y, wants[number % 2]):
                wrong.append(number)

    callers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(seconds + 60)
    assert not any(caller.is_alive() for caller in callers)
    assert not wrong


def test_a_brief_step_leaves_those_that_sleep_asleep(library: Library) -> None:
    """It runs alone after a pause, and with the others where one follows another at once."""
    brief, zeros = program(library, "check", brief=True), np.zeros(COUNT, np.int64)
    program(library, "check").run([zeros], 4)
    # a busy machine may keep the caller from following at once
    for _ in range(200):
        time.sleep(0.01)
        first, *_, last = [brief.run([zeros], 4)[0][0] for _ in range(5)]
        if (first, last) == (1, 4):
            return
    pytest.fail("not once alone and then together")


def test_a_step_that_is_not_brief_wakes_the_others(library: Library) -> None:
    long, zeros = program(library, "check"), np.zeros(COUNT, np.int64)
    for _ in range(5):
        time.sleep(0.01)
        assert long.run([zeros], 4)[0][0] == 4


def test_the_threads_have_names(library: Library) -> None:
    program(library, "few").run([X], 3)
    names = {(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()}
    assert {"tessella-1", "tessella-2"} <= names


def test_threads_take_no_signals_but_faults(library: Library) -> None:
    program(library, "few").run([X], 2)
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().strip() == "tessella-1":
            lines = (line.split() for line in (task / "status").read_text().splitlines())
            (blocked,) = (int(line[1], 16) for line in lines if line[0] == "SigBlk:")
            assert blocked & 1 << 1  # SIGINT
            assert blocked & 1 << 14 - 1  # SIGALRM
            assert not blocked & 1 << 11 - 1  # SIGSEGV


def ticks() -> int:
    """Time that the pool's threads have used, in ticks of 10 ms."""
    tasks = [*Path("/proc/self/task").iterdir()]
    pool = [task for task in tasks if (task / "comm").read_text().startswith("tessella-")]
    assert pool
    # utime and stime; what comes before the parenthesis may have spaces
    fields = [(task / "stat").read_text().rpartition(")")[2].split() for task in pool]
    return sum(int(each[11]) + int(each[12]) for each in fields)


def test_an_idle_pool_uses_no_time(library: Library) -> None:
    """Threads that spun would use a hundred ticks each."""
    program(library, "few").run([X], 4)
    time.sleep(0.05)
    began = ticks()
    time.sleep(1)
    assert ticks() - began < 5
