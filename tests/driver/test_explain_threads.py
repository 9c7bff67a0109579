"""Explanations of threads: which kernels are divided, and where threads wait."""

from __future__ import annotations

import numpy as np
import pytest

import tessella
from tessella.driver.build.build import as_text
from tessella.driver.explain.explain import explain
from tests.models import load_model, lowered_for
from tests.native import Array


@pytest.mark.slow
def test_the_barriers_of_a_network() -> None:
    lowered = lowered_for(load_model("squeezenet"))
    found = explain(lowered.stages)
    assert found.threads is not None
    barriers = found.threads["barriers"]
    assert len(barriers) == as_text(lowered, "loops").count("rt.barrier") > 0
    assert all(barrier["before"] and barrier["nodes"] for barrier in barriers)
    calls, divided = found.threads["calls"], found.threads["divided"]
    assert f"threads divide {divided} of {calls} kernels, with {len(barriers)} barriers" in str(
        found
    )


def _row_wise(x: Array) -> Array:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    y = np.tanh(e / e.sum(axis=1, keepdims=True))
    z = y - y.mean(axis=1, keepdims=True)
    return np.sqrt(abs(z)) / (abs(z).max(axis=1, keepdims=True) + 1)


def test_a_chain_of_row_wise_layers_has_none() -> None:
    x = np.zeros((2048, 1024), np.float32)
    found = tessella.jit(_row_wise).lower(x).explain()
    assert found.threads is not None
    assert found.threads["divided"] == found.threads["calls"] > 0
    assert found.threads["barriers"] == []


def test_barriers_in_loops_are_met_in_each_step() -> None:
    found = explain(lowered_for(load_model("lstm_tagger")).stages)
    assert found.threads is not None
    times = [barrier["times"] for barrier in found.threads["barriers"]]
    # two directions of two layers
    assert times.count(128) == 2 * 4
    assert times.count(1) == len(times) - 8 > 0
    assert ", 128 times" in str(found)
