"""The warning of a compiled model that names what NumPy runs."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.driver.compile import compile_source
from tessella.driver.in_calls import CompilesInCalls
from tessella.runtime.explain_native import Coverage, InNumpy
from tests.native import FixedSource, GraphBuilder
from tests.passes.harness import sample


def remainder(element: type[np.floating]) -> Graph:
    """An op that has no native code for f64."""
    g = GraphBuilder(x=sample(0, 64, 64).astype(element))
    x = g.inputs["x"]
    return g.graph(g.op(nn.FmodOp, [g.op(nn.ReluOp, [x]), x]))


@pytest.mark.parametrize(
    "element, places, told",
    [(np.float64, None, True), (np.float32, None, False), (np.float64, ["host"], False)],
)
def test_a_model_that_numpy_runs_is_told_of(
    element: type[np.floating],
    places: list[str] | None,
    told: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "tessella.compile"):
        compile_source(FixedSource(lambda: remainder(element)), places=places)
    texts = [text for text in caplog.messages if "NumPy takes" in text]
    assert len(texts) == told
    assert not told or "1 of 2 ops have no native code" in texts[0]
    assert not told or "nn.fmod (1, " in texts[0]


def test_it_is_told_once_and_not_of_little(caplog: pytest.LogCaptureFixture) -> None:
    little, much = (Coverage(2, [InNumpy("nn.erf", 1, each)], 1.0) for each in (0.1, 0.2))
    tells = CompilesInCalls(expected=0, tells_numpy=True)
    for coverage in (little, much, much):
        tells.tell_coverage(coverage)
    assert len(caplog.messages) == 1
    assert "20% of the estimated time: nn.erf (1, 200 ms)" in caplog.messages[0]
