"""Maps of bytes that are looked up, against NumPy and ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tessella
from tests.native import RUNNABLE

TYPES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}


def _is_looked_up(model: Any) -> bool:
    return "[byte: 256]" in model.as_text("tile")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("shape", [(30000,), (3, 111, 77), (65537,)])
def test_a_quantized_sigmoid(dtype: str, target: str, shape: tuple[int, ...]) -> None:
    node = helper.make_node(
        "QLinearSigmoid", ["x", "a", "b", "c", "d"], ["y"], domain="com.microsoft"
    )
    zeros = {"uint8": (100, 3), "int8": (-7, -128)}[dtype]
    numbers = {"a": np.float32(0.05), "c": np.float32(1 / 250)}
    numbers |= {"b": np.dtype(dtype).type(zeros[0]), "d": np.dtype(dtype).type(zeros[1])}
    weights = [
        helper.make_tensor(n, helper.np_dtype_to_tensor_dtype(v.dtype), [], [v.item()])
        for n, v in numbers.items()
    ]
    x, y = (helper.make_tensor_value_info(name, TYPES[dtype], shape) for name in "xy")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", [x], [y], weights)
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session: Any = onnxruntime.InferenceSession(proto.SerializeToString())
    values = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    for threads in (1, 2):
        model = tessella.compile(proto, target=target, threads=threads)
        (found,) = model.run(None, {"x": values})
        wanted = session.run(None, {"x": values})[0]
        assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1
    if target == "avx2":
        assert _is_looked_up(model)


@pytest.mark.skipif("avx2" not in RUNNABLE, reason="the kernel runs on avx2")
def test_a_scale_that_is_an_input() -> None:
    """The table is that of the call."""

    def wave(x: Any, scale: Any) -> Any:
        y = np.exp(-np.abs(x.astype(np.float32) * scale))
        return np.tanh(np.sin(y) * np.log(1 + y))

    x = np.random.default_rng(1).integers(0, 256, 40000).astype(np.uint8)
    traced = tessella.jit(wave, target="avx2")
    for scale in (np.float32([0.01]), np.float32([-0.3])):
        np.testing.assert_allclose(traced(x, scale), wave(x, scale), rtol=1e-4, atol=1e-6)
    assert _is_looked_up(traced.lower(x, scale))
