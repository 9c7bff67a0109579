"""A detector with 60 convolutions of different shapes. Compiling equal kernels once gains nothing
on it.

It has a detector's structure: a backbone of residual stages with split channels (CSP), a pyramid of
three levels up and down (PAN), and heads for classes and boxes at each level. Each block has its
own number of channels, as in a network widened layer by layer by a search.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE = 320
"""Height and width of the image."""

CLASSES = 80


def detector(seed: int = 0) -> onnx.ModelProto:
    """Return the model: ``image`` f32 [1, 3, 320, 320] to ``scores`` f32 [1, 2100, 80] and
    ``boxes`` f32 [1, 2100, 4], for the points of 40x40, 20x20 and 10x10. Weights are drawn from
    the seed."""
    net = _Network(seed)
    levels = _backbone(net)
    levels = _pyramid(net, levels)
    scores, boxes = zip(*(_head(net, level, i) for i, level in enumerate(levels)), strict=True)
    net.node("Concat", scores, "scores", axis=1)
    net.node("Concat", boxes, "boxes", axis=1)
    points = sum((SIZE // stride) ** 2 for stride in (8, 16, 32))
    outputs = [("scores", CLASSES), ("boxes", 4)]
    graph = helper.make_graph(
        net.nodes,
        "detector",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIZE, SIZE])],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, points, width])
            for name, width in outputs
        ],
        net.weights,
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, ir_version=8, opset_imports=opsets)


class _Network:
    """Nodes and weights, with the channels of each value."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.channels = {"image": 3}
        self._random = np.random.default_rng(seed)

    def node(self, op: str, inputs: Sequence[str], output: str = "", **settings: Any) -> str:
        """Append a node and return its output."""
        output = output or f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [output], name=output, **settings))
        self.channels.setdefault(output, self.channels.get(inputs[0], 0))
        return output

    def constant(self, name: str, array: npt.NDArray[Any]) -> str:
        """Return a weight, appending it if it is new."""
        if not any(weight.name == name for weight in self.weights):
            self.weights.append(numpy_helper.from_array(array, name))
        return name

    def conv(
        self,
        x: str,
        channels: int,
        kernel: int,
        stride: int = 1,
        *,
        activate: bool = True,
        bias: float = 0.0,
    ) -> str:
        """A convolution followed by SiLU."""
        shape = (channels, self.channels[x], kernel, kernel)
        values = self._random.standard_normal(shape, np.float32)
        number = sum(node.op_type == "Conv" for node in self.nodes)
        weight = self.constant(f"w{number}", values * math.sqrt(2 / math.prod(shape[1:])))
        shift = self.constant(f"b{number}", np.full(channels, bias, np.float32))
        pads, strides = [kernel // 2] * 4, [stride] * 2
        y = self.node("Conv", [x, weight, shift], pads=pads, strides=strides)
        self.channels[y] = channels
        return self.node("Mul", [y, self.node("Sigmoid", [y])]) if activate else y

    def concat(self, *values: str) -> str:
        """Concatenate values along their channels."""
        y = self.node("Concat", values, axis=1)
        self.channels[y] = sum(self.channels[value] for value in values)
        return y


def _backbone(net: _Network) -> list[str]:
    """Return the values of strides 8, 16 and 32."""
    x = net.conv(net.conv("image", 24, 3, 2), 32, 3)
    stages = ((40, 0), (72, 1), (136, 1), (232, 1))
    levels: list[str] = []
    for channels, blocks in stages:
        x = net.conv(x, channels, 3, 2)
        levels.append(x := _shared(net, x, channels, blocks, residual=True))
    return levels[1:]


def _shared(net: _Network, x: str, channels: int, blocks: int, *, residual: bool) -> str:
    """Apply blocks to one half of the channels, and concatenate the other half."""
    half = channels // 2
    kept, y = net.conv(x, half - 4, 1), net.conv(x, half + 4, 1)
    for block in range(blocks):
        inner = net.conv(y, half + 12 + 8 * block, 1)
        z = net.conv(inner, half + 4, 3)
        y = net.node("Add", [y, z]) if residual else z
    return net.conv(net.concat(kept, y), channels + 8, 1)


def _pyramid(net: _Network, levels: Sequence[str]) -> list[str]:
    """Merge levels from coarse to fine and back."""
    fine, middle, coarse = levels
    pools = [coarse]
    for _ in range(3):
        pools.append(net.node("MaxPool", pools[-1:], kernel_shape=[5, 5], pads=[2] * 4))
    top = net.conv(net.concat(*pools), 112, 1)
    middle = _shared(net, net.concat(_doubled(net, top), middle), 120, 1, residual=False)
    side = net.conv(middle, 56, 1)
    fine = _shared(net, net.concat(_doubled(net, side), fine), 64, 1, residual=False)
    middle = net.concat(net.conv(fine, 88, 3, 2), side)
    middle = _shared(net, middle, 104, 1, residual=False)
    coarse = net.concat(net.conv(middle, 96, 3, 2), top)
    return [fine, middle, _shared(net, coarse, 168, 1, residual=False)]


def _doubled(net: _Network, x: str) -> str:
    """Add a node that doubles the height and width of an image; return the name of its result."""
    scales = net.constant("scales", np.array([1, 1, 2, 2], np.float32))
    settings = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
    return net.node("Resize", [x, "", scales], nearest_mode="floor", **settings)


def _head(net: _Network, x: str, level: int) -> tuple[str, str]:
    """Return scores and boxes of a level's points, [1, points, width]."""
    width = 48 + 16 * level
    classes, boxes = net.conv(x, width, 3), net.conv(x, width - 8, 3)
    scores = net.node("Sigmoid", [net.conv(classes, CLASSES, 1, activate=False)])
    return _points(net, scores, CLASSES), _points(net, net.conv(boxes, 4, 1, activate=False), 4)


def _points(net: _Network, x: str, width: int) -> str:
    """Reshape [1, width, h, w] to [1, h * w, width]."""
    return net.node("Transpose", [_flat(net, x, width)], perm=[0, 2, 1])


# ** a small one, with suppression **

WIDTHS = (16, 32, 64, 96, 128)
"""Channels of the small detector's stages, of strides 2 to 32."""
FEW_CLASSES = 20
RARE = -8.0
"""The bias of scores, which makes few points likely objects."""


def suppressing_detector(seed: int = 0) -> tuple[onnx.ModelProto, dict[str, npt.NDArray[Any]]]:
    """Return a small detector and an image.

    ``boxes`` f32 [1, 2100, 4] are the corners of all boxes, ``found`` i64 [k, 3] those that
    NonMaxSuppression selects.
    """
    net = _Network(seed)
    x, heads = "image", list[tuple[str, str]]()
    for stage, width in enumerate(WIDTHS, 1):
        x = net.conv(x, width, 3, 2)
        x = net.node("Add", [x, net.conv(net.conv(x, width // 2, 1), width, 3)])
        if stage >= 3:
            heads.append(_small_head(net, x, 2**stage))
    scores = net.node("Concat", [score for score, _ in heads], axis=2)
    boxes = net.node("Concat", [box for _, box in heads], "boxes", axis=1)
    limits = [
        net.constant("most", np.array(100)),
        net.constant("overlap", np.array(0.5, np.float32)),
        net.constant("least", np.array(0.5, np.float32)),
    ]
    net.node("NonMaxSuppression", [boxes, scores, *limits], "found")
    graph = helper.make_graph(
        net.nodes,
        "suppressing detector",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIZE, SIZE])],
        [
            helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [1, "points", 4]),
            helper.make_tensor_value_info("found", TensorProto.INT64, ["count", 3]),
        ],
        net.weights,
    )
    opsets = [helper.make_opsetid("", 17)]
    image = np.random.default_rng(seed).standard_normal((1, 3, SIZE, SIZE), np.float32)
    return helper.make_model(graph, ir_version=8, opset_imports=opsets), {"image": image}


def _small_head(net: _Network, x: str, stride: int) -> tuple[str, str]:
    """Return scores [1, classes, points] and corners [1, points, 4] of a level.

    Corners are offsets from the points and sizes of up to four times the level's, as in YOLO.
    """
    extent = SIZE // stride
    scores = net.conv(net.conv(x, 48, 3), FEW_CLASSES, 1, activate=False, bias=RARE)
    scores = _flat(net, net.node("Sigmoid", [scores]), FEW_CLASSES)
    raw = net.conv(net.conv(x, 32, 3), 4, 1, activate=False)
    twice = net.node("Mul", [_flat(net, net.node("Sigmoid", [raw]), 4), _number(net, 2.0)])
    halves = net.constant("halves", np.array([2, 2]))
    offset, size = f"offset_{stride}", f"size_{stride}"
    net.nodes.append(helper.make_node("Split", [twice, halves], [offset, size], axis=1))
    grid = np.stack(np.meshgrid(*[np.arange(extent, dtype=np.float32)] * 2, indexing="ij"))
    points = net.constant(f"points_{stride}", grid.reshape(1, 2, -1) - np.float32(0.5))
    step = _number(net, float(stride))
    centre = net.node("Mul", [net.node("Add", [offset, points]), step])
    half = net.node("Mul", [net.node("Mul", [size, size]), _number(net, 2.0 * stride)])
    corners = [net.node(op, [centre, half]) for op in ("Sub", "Add")]
    both = net.node("Concat", corners, axis=1)
    return scores, net.node("Transpose", [both], perm=[0, 2, 1])


def _flat(net: _Network, x: str, width: int) -> str:
    """Reshape [1, width, h, w] to [1, width, h * w]."""
    shape = net.constant(f"shape_{width}", np.array([1, width, -1], np.int64))
    return net.node("Reshape", [x, shape])


def _number(net: _Network, value: float) -> str:
    return net.constant(f"number_{value}", np.array(value, np.float32))
