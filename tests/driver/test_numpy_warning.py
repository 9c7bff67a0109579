"""The warning of a compiled model that names what NumPy runs."""

from __future__ import annotations

import logging

import pytest

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.driver.compile import compile_source
from tessella.driver.model.in_calls import CompilesInCalls
from tessella.runtime.explain_native import Coverage, InNumpy
from tests.native import FixedSource, GraphBuilder
from tests.passes.harness import sample


def padded(border: int) -> Graph:
    """An op that has no native code where a border repeats the operand."""
    g = GraphBuilder(x=sample(0, 64, 64))
    x = g.op(nn.ReluOp, [g.inputs["x"]])
    return g.graph(g.op(nn.PadOp, [x], low=(0, border), high=(0, 0), mode="reflect", value=0.0))


@pytest.mark.parametrize(
    "border, places, told", [(300, None, True), (3, None, False), (300, ["host"], False)]
)
def test_a_model_that_numpy_runs_is_told_of(
    border: int,
    places: list[str] | None,
    told: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "tessella.compile"):
        compile_source(FixedSource(lambda: padded(border)), places=places)
    texts = [text for text in caplog.messages if "NumPy takes" in text]
    assert len(texts) == told
    assert not told or "1 of 2 ops have no native code" in texts[0]
    assert not told or "nn.pad (1, " in texts[0]


def test_it_is_told_once_and_not_of_little(caplog: pytest.LogCaptureFixture) -> None:
    little, much = (Coverage(2, [InNumpy("nn.erf", 1, each)], 1.0) for each in (0.1, 0.2))
    tells = CompilesInCalls(expected=0, tells_numpy=True)
    for coverage in (little, much, much):
        tells.tell_coverage(coverage)
    assert len(caplog.messages) == 1
    assert "20% of the estimated time: nn.erf (1, 200 ms)" in caplog.messages[0]
