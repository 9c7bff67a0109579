"""Sparse arrays of PyTorch and SciPy, which are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from scipy import sparse

import tessella
from tessella.frontends.onnx import backend
from tests.frontends.onnx.models import model, value

ARRAYS: dict[str, Callable[[], Any]] = {
    "torch.sparse_coo": lambda: torch.eye(3).to_sparse(),
    "torch.sparse_coo, hybrid": lambda: torch.eye(3).to_sparse(1),
    "csr": lambda: sparse.csr_matrix(np.eye(3, dtype=np.float32)),
    "coo": lambda: sparse.coo_array(np.eye(3, dtype=np.float32)),
}
RELU = model([helper.make_node("Relu", ["x"], ["y"])], [value("x", [3, 3])], [value("y", [3, 3])])
LISTED = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["": 17]>
    listed (seq(float) x) => (float[3, 3] y) { y = ConcatFromSequence<axis = 0>(x) }
""")
WAYS: dict[str, Callable[[Any], Any]] = {
    "model": lambda x: tessella.compile(RELU).run(None, {"x": x}),
    "sequence": lambda x: tessella.compile(LISTED).run(None, {"x": [x]}),
    "value": lambda x: tessella.compile(RELU, values={"x": x}),
    "bind": lambda x: tessella.compile(RELU).bind({"x": "y"}, {"x": x}),
    "backend": lambda x: backend.run_node(RELU.graph.node[0], [x]),
    "session": lambda x: tessella.InferenceSession(RELU.SerializeToString()).run(None, {"x": x}),
    "tile": lambda x: tessella.tile("function (A[N, M]) -> (R) { R = A + 1; }")(x),
    "ops": tessella.ops.relu,
    "jit": lambda x: tessella.jit(lambda y: y + 1)(x),
    "array": lambda x: tessella.array(x, place="host/f32"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("layout", ARRAYS)
def test_sparse_arrays_are_refused(layout: str, way: str) -> None:
    with pytest.raises(
        tessella.InputError, match=f"sparse arrays(?s:.*)layout {layout.split(',')[0]}"
    ):
        WAYS[way](ARRAYS[layout]())
