"""Runtimes that models are timed on: that they compute the same."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import pytest

from bench.cases import convolution
from tessella.tools.peers import PEERS, load
from tests.models import random_inputs

LEGACY = 3
"""An IR version whose graphs list weights as inputs."""


@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_computes_what_the_others_do(peer: str, tmp_path: Path) -> None:
    for package in (peer, *(["pnnx"] if peer == "ncnn" else [])):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    model = convolution((1, 8, 12, 12), (16, 8, 3, 3), pads=[1] * 4)
    feeds = random_inputs(model)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    (expected,) = load("onnxruntime", path, 1)(feeds)
    weights = model.graph.initializer
    listed = [onnx.helper.make_tensor_value_info(w.name, w.data_type, w.dims) for w in weights]
    model.graph.input.extend(listed)
    model.ir_version = LEGACY
    onnx.save(model, path)
    (found,) = load(peer, path, 1)(feeds)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_what_the_converter_refuses_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("ncnn")
    if importlib.util.find_spec("pnnx") is None:
        pytest.skip("pnnx is not installed")
    node = onnx.helper.make_node("Unique", ["x"], ["y"])
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None])
    path = tmp_path / "model.onnx"
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y])), path)
    with pytest.raises(RuntimeError, match=r"pnnx|ncnn"):
        load("ncnn", path, 1)
