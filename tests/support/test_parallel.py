"""Items that threads take."""

from __future__ import annotations

import threading

import pytest

from tessella.support.parallel import map_on_threads
from tests.refusal import refuse_threads


def test_results_are_in_order() -> None:
    assert map_on_threads(lambda x: x * x, range(100), 4) == [x * x for x in range(100)]
    assert map_on_threads(str, [], 4) == []


def test_they_run_at_the_same_time() -> None:
    met = threading.Barrier(3, timeout=10)
    assert sorted(map_on_threads(lambda _: met.wait(), range(3), 3)) == [0, 1, 2]


@pytest.mark.parametrize("wrong", [0, 7, 19])
def test_an_error_is_raised(wrong: int) -> None:
    def divide(x: int) -> float:
        return 1 / (x - wrong)

    with pytest.raises(ZeroDivisionError):
        map_on_threads(divide, range(20), 3)


@pytest.mark.parametrize("started", [0, 1])
def test_a_system_without_threads(monkeypatch: pytest.MonkeyPatch, started: int) -> None:
    refuse_threads(monkeypatch, after=started)
    assert map_on_threads(lambda x: x + 1, range(50), 4) == list(range(1, 51))
