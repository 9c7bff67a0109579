"""Norms of ONNX as one kernel whose statements share loops, against `onnx.reference`."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import tessella
from tests.native import EMULATED, Array

SHAPE = (2, 12, 40, 31)

CASES: dict[str, tuple[str, dict[str, Any], int, tuple[tuple[int, ...], ...]]] = {
    "group": ("GroupNormalization", {"num_groups": 3}, 21, (SHAPE, (12,), (12,))),
    "instance": ("InstanceNormalization", {}, 21, (SHAPE, (12,), (12,))),
    "layer": ("LayerNormalization", {"axis": -1}, 21, ((300, 97), (97,), (97,))),
    "RMS": ("RMSNormalization", {"axis": -1}, 23, ((300, 97), (97,))),
    "softmax": ("Softmax", {"axis": -1}, 21, ((300, 97),)),
    "log-softmax": ("LogSoftmax", {"axis": -1}, 21, ((300, 97),)),
}


def model_of(name: str) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model of one node, and its inputs."""
    op, attributes, version, shapes = CASES[name]
    names = ("x", "scale", "bias")[: len(shapes)]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in zip(names, shapes, strict=True)
    ]
    node = helper.make_node(op, names, ["y"], name="norm", **attributes)
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, shapes[0])]
    graph = helper.make_graph([node], "norm", inputs, outputs)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", version)], ir_version=10
    )
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    return model, dict(zip(names, arrays, strict=True))


@pytest.mark.parametrize("target", ["native", *EMULATED])
@pytest.mark.parametrize("name", CASES)
def test_one_nest_serves_it(name: str, target: str) -> None:
    model, inputs = model_of(name)
    compiled = tessella.compile(model, target=target)
    text = compiled.as_text("tile")
    assert text.count("tile.kernel @") == 1
    assert "nest = #tile.nest" in text
    wanted: Any = ReferenceEvaluator(model).run(None, inputs)
    (found,) = compiled.run(None, inputs)
    np.testing.assert_allclose(found, wanted[0], rtol=1e-4, atol=1e-5)
