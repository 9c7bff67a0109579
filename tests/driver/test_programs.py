"""The table of programs: one program for each key, whatever threads and processes ask."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tessella.driver.specialise.programs import ProgramTable

LONG = 20.0  # seconds, after which a wait has failed


def test_threads_that_ask_for_one_key_make_it_once() -> None:
    table: ProgramTable[int] = ProgramTable(4)
    made: list[int] = []
    begun, go_on = threading.Event(), threading.Event()

    def make() -> int:
        begun.set()
        assert go_on.wait(LONG)
        made.append(0)
        return 7

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(table.get, "a", make)
        assert begun.wait(LONG)
        rest = [pool.submit(table.get, "a", make) for _ in range(3)]
        go_on.set()
        assert [f.result(LONG) for f in (first, *rest)] == [7] * 4
    assert made == [0]


def test_programs_of_different_keys_are_made_at_the_same_time() -> None:
    table: ProgramTable[str] = ProgramTable(4)
    both = threading.Barrier(2, timeout=LONG)

    def make(name: str) -> Callable[[], str]:
        def made() -> str:
            both.wait()  # which only ends when the other is being made too
            return name

        return made

    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(table.get, name, make(name)) for name in "ab"]
        assert [f.result(LONG) for f in found] == ["a", "b"]


def test_what_fails_is_made_again() -> None:
    table: ProgramTable[int] = ProgramTable(1)
    with pytest.raises(ZeroDivisionError):
        table.get("a", lambda: 1 // 0)
    assert table.latest() is None
    assert table.get("a", lambda: 3) == 3
    assert table.latest() == 3


def test_a_thread_that_waits_for_one_that_fails_makes_it_itself() -> None:
    table: ProgramTable[int] = ProgramTable(4)
    begun, fail = threading.Event(), threading.Event()

    def failing() -> int:
        begun.set()
        assert fail.wait(LONG)
        raise ValueError("no")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(table.get, "a", failing)
        assert begun.wait(LONG)
        second = pool.submit(table.get, "a", lambda: 5)
        fail.set()
        assert second.result(LONG) == 5
        with pytest.raises(ValueError, match="no"):
            first.result(LONG)
    assert table.get("a", lambda: 6) == 5


def test_the_one_used_longest_ago_is_dropped() -> None:
    table: ProgramTable[str] = ProgramTable(3)
    made: list[str] = []

    def get(key: str) -> None:
        assert table.get(key, lambda: made.append(key) or key) == key

    for key in "abacadb":
        get(key)
    assert made == ["a", "b", "c", "d", "b"]
    assert table.latest() == "b"


def test_what_is_found_is_used_and_nothing_is_made_for_it() -> None:
    table: ProgramTable[str] = ProgramTable(2)
    assert table.find("a") is None
    for key in "ab":
        table.get(key, lambda key=key: key)
    assert table.find("a") == "a"
    assert table.latest() == "a"
    table.get("c", lambda: "c")
    assert (table.find("a"), table.find("b")) == ("a", None)


def test_a_program_in_the_making_is_not_dropped() -> None:
    table: ProgramTable[str] = ProgramTable(1)
    begun, go_on = threading.Event(), threading.Event()

    def make() -> str:
        begun.set()
        assert go_on.wait(LONG)
        return "slow"

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(table.get, "slow", make)
        assert begun.wait(LONG)
        assert table.get("b", lambda: "b") == "b"
        second = pool.submit(table.get, "slow", lambda: "another")
        go_on.set()
        assert first.result(LONG) == second.result(LONG) == "slow"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork")
def test_a_fork_while_another_thread_makes_a_program() -> None:
    """The child has neither that thread nor its program, and makes its own."""
    table: ProgramTable[str] = ProgramTable(2)
    begun, go_on = threading.Event(), threading.Event()

    def make() -> str:
        begun.set()
        assert go_on.wait(LONG)
        return "parent"

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(table.get, "a", make)
        assert begun.wait(LONG)
        child = os.fork()
        if child == 0:
            threading.Timer(LONG / 2, os._exit, [3]).start()
            os._exit(0 if table.get("a", lambda: "child") == "child" else 2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        go_on.set()
        assert first.result(LONG) == "parent"
