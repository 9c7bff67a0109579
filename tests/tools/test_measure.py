"""Turns, medians, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tessella.tools import measure
from tessella.tools.measure import CallTimes, geometric_mean, interleave, relative_error


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_LONGEST", 0.0)


class Clock:
    """Time that passes only where a contestant lets it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[str] = []

    def contestant(self, name: str, seconds: float):
        def call() -> None:
            self.log.append(name)
            self.now += seconds

        return call


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(measure.time, "perf_counter", lambda: clock.now)
    return clock


def test_turns_alternate_and_are_untimed_first(clock: Clock) -> None:
    contestants = {"a": clock.contestant("a", 2.0), "b": clock.contestant("b", 3.0)}
    timings = interleave(contestants, repeat=2, warmup=1)
    assert clock.log == ["a", "a", "b", "b"] * 3
    assert timings == {"a": CallTimes((2.0, 2.0)), "b": CallTimes((3.0, 3.0))}


def test_short_calls_are_timed_together(clock: Clock) -> None:
    contestants = {"short": clock.contestant("s", 0.25), "long": clock.contestant("l", 8.0)}
    timings = interleave(contestants, repeat=1, warmup=0, turn=1.0)
    calibration = ["s"] * 3 + ["l"] * 3
    assert clock.log == calibration + ["s"] * 4 + ["s"] * 4 + ["l"] * 2
    assert timings["short"].median == 0.25
    assert timings["long"].median == 8.0


def test_cold_calls_are_timed_alone_after_eviction(clock: Clock) -> None:
    contestants = {"a": clock.contestant("a", 1.0), "b": clock.contestant("b", 1.0)}
    evict = clock.contestant("evict", 100.0)
    timings = interleave(contestants, repeat=2, warmup=0, turn=50.0, evict=evict)
    assert clock.log == ["evict", "a", "evict", "b"] * 2
    assert timings["a"].seconds == (1.0, 1.0)


def test_the_error_is_relative_to_the_largest_value() -> None:
    expected = [np.array([1.0, -4.0]), np.array([[2.0]])]
    assert relative_error(expected, expected) == 0.0
    assert relative_error([np.array([1.0, -3.0]), expected[1]], expected) == 0.25
    assert relative_error([expected[0], np.array([[3.0]])], expected) == 0.5
    assert relative_error([expected[0]], expected) == math.inf
    assert relative_error([expected[0], np.array([2.0])], expected) == math.inf


def test_the_geometric_mean() -> None:
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)


@pytest.mark.parametrize("work, waited", [(0.0, 0.005), (0.05, 0.055), (9.0, 1.0)])
def test_a_turn_waits_for_threads_that_look_for_work(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, work: float, waited: float
) -> None:
    """A thread of the process works for a while; what never ends is not waited for."""

    def sleep(seconds: float) -> None:
        clock.now += seconds

    monkeypatch.setattr(measure, "_LONGEST", 1.0)
    monkeypatch.setattr(measure.time, "process_time", lambda: min(clock.now, work))
    monkeypatch.setattr(measure.time, "sleep", sleep)
    measure.settle()
    assert clock.now == pytest.approx(waited, abs=0.006)
