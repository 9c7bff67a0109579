"""Whole networks on an OpenCL device, against ONNX Runtime and NumPy."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from xdsl.ir import SSAValue

import tessella
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.driver.model.model import Model
from tessella.runtime.device_steps import CopyStep, DeviceStep
from tessella.runtime.opencl import OPENCL
from tests.models import load_fixture, random_inputs, run_onnxruntime
from tests.native import GraphBuilder, build, in_numpy, normal

pytestmark = pytest.mark.skipif(not OPENCL.is_present(), reason="there is no OpenCL device")

PLACES = ["opencl/f32", "host"]
SIZES = {"batch": 2, "seq": 5, "past": 3}
IMAGE = 32
"""The height and width of images, which the networks reduce 32 times."""


def is_whole(model: Model) -> bool:
    """Return whether the latest program is one segment on the device, between copies."""
    steps = in_numpy(model)
    segments = [step for step in steps if isinstance(step, DeviceStep)]
    return len(segments) == 1 and all(isinstance(s, CopyStep | DeviceStep) for s in steps)


def with_small_images(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a network of images for smaller ones."""
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        for dim in dims[2:] if len(dims) == 4 else ():
            dim.dim_value = IMAGE
    del model.graph.value_info[:]
    return model


@pytest.mark.parametrize(
    "name",
    [
        "decoder",
        pytest.param("encoder_open", marks=pytest.mark.slow),
        pytest.param("mobilenet_opset18", marks=pytest.mark.slow),
    ],
)
def test_networks(name: str) -> None:
    source = load_fixture(name)
    if name.startswith("mobilenet"):
        source = with_small_images(source)
    feeds = random_inputs(source, sizes=SIZES)
    model = tessella.compile(source, places=PLACES, dims={} if name == "encoder_open" else "auto")
    found = model.run(None, feeds)
    for y, wanted in zip(found, run_onnxruntime(source, feeds), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-3)
    assert is_whole(model)
    if name == "encoder_open":
        assert "seq: open, from 2" in str(model.explain())


def _residual_network() -> Graph:
    """A stem, two blocks with residuals, of which one halves the image, and a classifier."""
    g = GraphBuilder(image=normal(1, 3, IMAGE, IMAGE))

    def conv(x: SSAValue, inputs: int, outputs: int, kernel: int, stride: int = 1) -> SSAValue:
        filters = normal(outputs, inputs, kernel, kernel) / (inputs * kernel**2) ** 0.5
        return g.op(
            nn.ConvOp,
            [x, g.weight(filters, f"w{len(list(g.block.ops))}")],
            strides=(stride, stride),
            pads=(kernel // 2,) * 4,
            dilations=(1, 1),
            groups=1,
        )

    def block(x: SSAValue, inputs: int, outputs: int, stride: int) -> SSAValue:
        inner = g.op(nn.ReluOp, [conv(x, inputs, outputs, 3, stride)])
        short = x if stride == 1 else conv(x, inputs, outputs, 1, stride)
        return g.op(nn.ReluOp, [g.op(nn.AddOp, [conv(inner, outputs, outputs, 3), short])])

    x = g.op(nn.ReluOp, [conv(g.inputs["image"], 3, 16, 7, 2)])
    window = {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1,) * 4, "dilations": (1, 1)}
    x = g.op(nn.MaxPoolOp, [x], **window, ceil_mode=False)
    x = block(block(x, 16, 16, 1), 16, 32, 2)
    x = g.op(nn.ReduceMeanOp, [x], axes=(2, 3), keepdims=False)
    return g.graph(g.op(nn.MatmulOp, [x, g.weight(normal(32, 10), "fc")], transpose_b=False))


def test_a_residual_network() -> None:
    image = normal(1, 3, IMAGE, IMAGE, seed=1)
    model = build(_residual_network, places=PLACES)
    [wanted] = interpret(_residual_network(), {"image": image})
    np.testing.assert_allclose(model(image), wanted, rtol=1e-4, atol=1e-4)
    assert is_whole(model)
