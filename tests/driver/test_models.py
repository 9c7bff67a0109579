"""Whole models, compiled, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tessella
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


@pytest.mark.parametrize("name", sized((*BEGINNINGS, *LIGHT_MODELS, *FIXTURES), BEGINNINGS))
def test_model_agrees_with_onnxruntime(name: str) -> None:
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
