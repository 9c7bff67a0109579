"""The network for the benchmark of compile times."""

from __future__ import annotations

import onnx

from bench.detector import detector
from tests.models import random_inputs, run_onnxruntime


def test_no_two_convolutions_are_equal() -> None:
    model = onnx.shape_inference.infer_shapes(detector(), strict_mode=True)
    values = [*model.graph.value_info, *model.graph.input]
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}
    shapes |= {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    convolutions = {
        str((shapes[n.input[0]], shapes[n.input[1]], [list(a.ints) for a in n.attribute]))
        for n in model.graph.node
        if n.op_type == "Conv"
    }
    assert len(convolutions) == 60


def test_its_answer_depends_on_the_image() -> None:
    model = detector()
    scores, boxes = run_onnxruntime(model, random_inputs(model))
    assert scores.shape == (1, 2100, 80)
    assert boxes.shape == (1, 2100, 4)
    assert scores.std() > 0.01
    assert boxes.std() > 0.01
