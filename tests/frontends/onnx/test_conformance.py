"""The official test cases of ONNX: each passes or is refused in plain words; none is wrong."""

from __future__ import annotations

from collections import Counter

import pytest
from onnx.backend.test.loader import load_model_tests

from tests.frontends.onnx.suite import node_cases, run_case
from tests.sampling import SLOW, sample

# The number of cases, and how many of them pass at least.
FLOORS = {
    "node": (1884, 1854),
    "pytorch-converted": (82, 82),
    "pytorch-operator": (35, 35),
    "simple": (23, 21),
}
LEAST = 0.06
"""The part of them that pass in a sample of a sixth, at least: of few cases a small one."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("kind", FLOORS)
def test_cases_of_onnx(kind: str, symbolic: bool) -> None:
    cases = node_cases() if kind == "node" else load_model_tests(kind=kind)
    count, floor = FLOORS[kind]
    assert len(cases) >= count, "the installed onnx has lost test cases"
    outcomes = [run_case(case, symbolic=symbolic) for case in sample(cases)]
    bad = [outcome for outcome in outcomes if outcome.status in ("wrong", "failed")]
    assert not bad, "\n".join(f"{o.name}: {o.status}: {o.reason}" for o in bad)
    passed = Counter(outcome.status for outcome in outcomes)["passed"]
    assert passed >= (floor if SLOW else LEAST * floor)
