"""Whole models, compiled, against ONNX Runtime; with the same bits on any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tessella
from tests.lowering.test_threads import ORDERS, check_bits
from tests.models import (
    BEGINNINGS,
    FIXTURES,
    LIGHT_MODELS,
    load_model,
    random_inputs,
    run_onnxruntime,
)
from tests.sampling import sized

Array = npt.NDArray[Any]


NAMES = (*BEGINNINGS, *LIGHT_MODELS, *FIXTURES)


@pytest.mark.parametrize("name", sized(NAMES, BEGINNINGS))
def test_model_agrees_with_onnxruntime(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads have half of the orders. ``tests/conftest.py`` has each pass verified."""
    proto = load_model(name)
    feeds, other = random_inputs(proto, 0), random_inputs(proto, 1)
    expected = run_onnxruntime(proto, feeds)
    model = tessella.compile(proto)
    del proto
    assert [e["node"] for e in model.explain().ops if e["kernel"] == "host"] == []
    assert model.as_text("tile").count("rt.launch") == 1
    results = model.run(None, feeds)
    for y, wanted in zip(results, expected, strict=True):
        largest = float(np.abs(wanted).max())
        np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-3 * largest)
    changed = model.run(None, other)
    for y, z in zip(results, changed, strict=True):
        assert np.std(y - z) > 0.05 * np.std(y), "the output does not depend on the input"
    [program] = model._known_programs()
    assert any(getattr(step, "shared", False) for step in program.steps)
    arrays = [feeds[info.name] for info in model.inputs]
    check_bits(program, arrays, monkeypatch, ORDERS[NAMES.index(name) % 2 :: 2])
