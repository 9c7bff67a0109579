"""A few cases of each fuzzer, and with ``--slow`` many."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tessella.frontends.onnx import ops
from tessella.frontends.onnx.table import function_ops
from tests.fuzz import rounding
from tests.fuzz.fuzzer import Fuzzer
from tests.fuzz.fuzzers import FUZZERS
from tests.fuzz.graphs import Case
from tests.fuzz.rounding import Noise
from tests.fuzz.rows import LEFT_OUT, ROWS
from tests.fuzz.runner import Runner

UNCHECKED = ("undecided", "too large")
"""Outcomes of cases that were not compared with anything."""


def few(fuzzer: Fuzzer) -> int:
    """The number of cases that take less than a second."""
    return max(fuzzer.sample // 6, 2)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUZZERS)
def test_some_cases(name: str) -> None:
    """No case is wrong, and some are checked against something."""
    fuzzer = FUZZERS[name]
    outcomes = Counter(fuzzer.check(fuzzer.case(seed)) for seed in range(few(fuzzer)))
    assert unchecked(outcomes) < outcomes.total(), outcomes


@pytest.mark.slow
@pytest.mark.parametrize("name", FUZZERS)
def test_many_cases(name: str, tmp_path: Path) -> None:
    """The ones after the few, in their own processes; most are checked. Their number, and not a
    time, says how many run, so that a slow machine and a fast one find the same."""
    runner, first = Runner(FUZZERS[name], tmp_path), few(FUZZERS[name])
    cases = FUZZERS[name].sample
    found = [f"{finding.seed}: {finding.text}" for finding in runner.run(first, None, cases)]
    assert not found, "\n".join(found)
    assert runner.report.cases == cases
    outcomes = runner.report.outcomes
    assert unchecked(outcomes) <= outcomes.total() // 2, outcomes


def unchecked(outcomes: Counter[str]) -> int:
    return sum(outcomes[name] for name in UNCHECKED)


def test_every_op_has_a_row_or_a_reason() -> None:
    rows = [row.op for row in ROWS]
    assert len(rows) == len(set(rows)), "an op has two rows"
    known = {*ops.entries(), *function_ops()}
    assert {*rows, *LEFT_OUT} == known
    assert not set(rows) & set(LEFT_OUT)


@pytest.mark.filterwarnings("ignore")
def test_a_case_is_that_of_its_seed() -> None:
    first, second = (FUZZERS["onnx"].case(3) for _ in range(2))
    assert first.options == second.options
    assert first.case.model() == second.case.model()
    for name, array in first.case.feeds.items():
        assert array.tobytes() == second.case.feeds[name].tobytes()


@pytest.mark.filterwarnings("ignore")
def test_a_wrong_element_is_seen() -> None:
    """Every other expected number is changed, except where the result depends on rounding. One
    result may have far more elements than all others."""
    seen: list[float] = []
    for seed in range(12):
        case: Case = FUZZERS["onnx"].case(seed).case
        codes = [code for _, code in case.results]
        for right in rounding.expected(case.run, codes):
            assert not right.wrong(right.array).any()
            other = ~right.array if right.array.dtype.kind == "b" else right.array + 1
            seen += [float(right.wrong(other).mean())] if other.size else []
    assert np.mean(seen) > 0.8


def test_errors_grow_as_arithmetic_has_them_grow() -> None:
    """The tolerance is large where numbers cancel, and small where they do not."""
    x = np.array([1.0, 1e6])

    def run(noise: Noise) -> list[np.ndarray]:
        moved = noise(x, 2.0**-23)
        return [moved * 2, (moved + 1e6) - 1e6, np.floor(moved)]

    double, cancelled, whole = rounding.expected(run, [1, 1, 1], samples=8)
    assert double.tolerance[0] < 2e-5
    assert 1e-7 < cancelled.tolerance[0] < 1e-4
    assert not whole.known[0] or whole.tolerance[0] >= 1
