"""Whole models: their signatures, and for the fixtures what ONNX Runtime computes."""

from __future__ import annotations

import numpy as np
import pytest

from tessella.dialects.graph import signature
from tessella.dialects.interpret import interpret
from tessella.frontends.onnx import OnnxSource, check
from tests import models
from tests.sampling import sized

OUTPUTS = {"densenet121": (1, 1000, 1, 1), "squeezenet": (1, 1000, 1, 1)}


@pytest.mark.parametrize("name", sized(models.LIGHT_MODELS))
def test_light_models(name: str) -> None:
    model = models.light_model(name)
    assert check(model) == []
    source = OnnxSource(model)
    assert [info.shape for info in source.inputs] == [(1, 3, 224, 224)]
    graph = source.graph({source.inputs[0].name: (1, 3, 224, 224)})
    graph.module.verify()
    assert [info.shape for info in signature(graph.module)[1]] == [OUTPUTS.get(name, (1, 1000))]


@pytest.mark.parametrize("name", sized((*models.BEGINNINGS, *models.FIXTURES), models.BEGINNINGS))
def test_fixtures(name: str) -> None:
    model = models.load_model(name)
    feeds = models.random_inputs(model)
    graph = OnnxSource(model).graph({key: array.shape for key, array in feeds.items()})
    graph.module.verify()
    found, expected = interpret(graph, feeds), models.run_onnxruntime(model, feeds)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=max(1e-3, 2e-5 * np.abs(b).max()))
