"""Random loops after each pass of the pipeline, by the interpreter."""

from __future__ import annotations

import numpy as np
import onnx
from hypothesis import given, settings

from tessella.dialects.graph import CompileContext
from tessella.dialects.interpret import interpret
from tessella.driver.options import make_options
from tessella.driver.pipeline import pipeline
from tessella.frontends.onnx import OnnxSource
from tests.generators.scans import loops
from tests.native import Array
from tests.sampling import sampled


@settings(max_examples=sampled(30), deadline=None)
@given(loops())
def test_every_pass_keeps_what_a_loop_means(case: tuple[onnx.ModelProto, dict[str, Array]]) -> None:
    proto, feeds = case
    graph = OnnxSource(proto).graph({name: array.shape for name, array in feeds.items()})
    expected = interpret(graph, feeds)
    ctx = CompileContext(graph.weights)
    for _, steps in pipeline(make_options(target="avx2"))[:-1]:
        for step in steps:
            step.apply(ctx, graph.module)
            graph.module.verify()
            for y, wanted in zip(interpret(graph, feeds), expected, strict=True):
                np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6, strict=True)
