"""The backend interface of ONNX: models, nodes, devices, and inputs by position and by name."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

import tessella
import tessella.frontends.onnx.backend as backend
from tessella.support.errors import InputError, OptionError, UnsupportedError
from tests.frontends.onnx.models import model, value

A, B = (np.array(numbers, np.float32) for numbers in ([1, 2], [3, 5]))


def difference(op: str = "Sub") -> onnx.ModelProto:
    node = helper.make_node(op, ["a", "b"], ["y"])
    return model([node], [value("a", [2]), value("b", [2])], [value("y", [2])])


@pytest.mark.parametrize(
    "inputs", [[A, B], (A, B), {"b": B, "a": A}], ids=["list", "tuple", "dict"]
)
def test_inputs_by_position_and_by_name(inputs: object) -> None:
    outputs = backend.prepare(difference(), "CPU").run(inputs)
    np.testing.assert_array_equal(outputs[0], A - B)
    by_name: Any = outputs
    np.testing.assert_array_equal(by_name["y"], A - B)


def test_options_of_the_compilation() -> None:
    model = backend.prepare(difference(), places=["host"]).model
    assert isinstance(model, tessella.Model)
    assert [op["kernel"] for op in model.explain().ops] == ["host"]


def test_a_node() -> None:
    node = helper.make_node("Split", ["x"], ["y", "z"], num_outputs=2)
    y, z = backend.run_node(node, np.arange(4))
    np.testing.assert_array_equal([y, z], [[0, 1], [2, 3]])


def test_a_node_of_another_version_and_domain() -> None:
    node = helper.make_node("Squeeze", ["x"], ["y"], axes=[0])
    assert backend.run_node(node, [np.zeros((1, 2))], opset_version=11)[0].shape == (2,)
    node = helper.make_node(
        "Momentum", "rtxgv", ["y", "w"], domain="ai.onnx.preview.training",
        alpha=0.5, beta=1.0, norm_coefficient=0.0, mode="standard",
    )  # fmt: skip
    y, w = backend.run_node(node, [np.float32(0.5), np.array(0), A, B, A])
    np.testing.assert_array_equal([y, w], [A - 0.5 * (B + 0.5 * A), B + 0.5 * A])


def test_a_node_of_sequences() -> None:
    node = helper.make_node("SequenceAt", ["s", "i"], ["y"])
    [y] = backend.run_node(node, [[A, B], np.array(-1)])
    np.testing.assert_array_equal(y, B)


def test_bfloat16_is_that_of_ml_dtypes() -> None:
    node = helper.make_node("Neg", ["x"], ["y"])
    [y] = backend.run_node(node, A.astype(ml_dtypes.bfloat16))
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(y.astype(np.float32), -A)


def test_compatible() -> None:
    assert backend.is_compatible(difference())
    assert not backend.is_compatible(difference("Frobnicate"))
    assert not backend.is_compatible(difference(), "CUDA")
    assert [backend.supports_device(name) for name in ("CPU", "CPU:0", "CUDA:1")] == [1, 1, 0]


def test_errors() -> None:
    with pytest.raises(OptionError, match="CUDA"):
        backend.prepare(difference(), "CUDA")
    with pytest.raises(UnsupportedError, match="Frobnicate"):
        backend.run_model(difference("Frobnicate"), [A, B])
    for inputs in ([A], [A, B, A], {"a": A}, {"a": A, "b": B, "c": A}):
        with pytest.raises(InputError, match="2: a, b"):
            backend.run_model(difference(), inputs)
