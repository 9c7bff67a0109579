"""Write the model that docs/tour.md follows: a convolution and its activation.

    python examples/conv/make.py

conv.onnx takes an image x of f32 [1, 8, 6, 6] and gives y of f32 [1, 32, 6, 6].
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def model() -> onnx.ModelProto:
    """A 3x3 convolution from 8 to 32 channels with bias, then Relu."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((32, 8, 3, 3), np.float32) / np.sqrt(72, dtype=np.float32)
    bias = rng.standard_normal(32, np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["y"], name="relu"),
        ],
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 32, 6, 6])],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


if __name__ == "__main__":
    onnx.save(model(), Path(__file__).with_name("conv.onnx"))
