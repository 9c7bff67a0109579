"""The single kernels that are measured: ONNX models of one node and the nodes fused to it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from tests.models import light_model, load_fixture

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Attributes = dict[str, Any]

_OPSET = 18
_IR_VERSION = 10


@dataclass(frozen=True)
class Case:
    """A kernel to measure. The model is built on demand: some take 64 MB."""

    group: str
    name: str
    build: Callable[[], onnx.ModelProto]
    cold: bool = False
    """True if weights and inputs come from memory instead of a cache, for all contestants."""


@dataclass(frozen=True)
class Workload:
    """The work of one call, whoever does it."""

    flops: int
    read: int
    """Bytes of inputs and constants."""
    written: int
    """Bytes of outputs."""

    @property
    def bytes(self) -> int:
        return self.read + self.written


# ** models **


class _Graph:
    """Builds a model of few nodes; constants are drawn from a seed."""

    def __init__(self, **inputs: Shape) -> None:
        self.inputs = inputs
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._rng = np.random.default_rng(0)

    def constant(self, name: str, array: npt.ArrayLike) -> str:
        """Add a constant of f32 or int64, and return its name."""
        values = np.asarray(array)
        values = values if values.dtype == np.int64 else values.astype(np.float32)
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def weight(self, name: str, *shape: int, fan_in: int = 1) -> str:
        """Add a constant of N(0, 1 / fan_in), and return its name."""
        values = self._rng.standard_normal(shape, np.float32) / math.sqrt(fan_in)
        return self.constant(name, values)

    def node(self, kind: str, *operands: str, **attributes: Any) -> str:
        """Add a node, and return its output's name."""
        name = f"y{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(operands), [name], **attributes))
        return name

    def model(self) -> onnx.ModelProto:
        """Return the model. Its output is that of the last node, with an inferred shape."""
        inputs = [_f32(name, shape) for name, shape in self.inputs.items()]
        output = onnx.ValueInfoProto(name=self.nodes[-1].output[0])
        output.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        graph = helper.make_graph(self.nodes, "kernel", inputs, [output], self.constants)
        opsets = [helper.make_opsetid("", _OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def _f32(name: str, shape: Shape) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, list(shape))


def matmul(m: int, n: int, k: int) -> onnx.ModelProto:
    """[m, k] times a constant [k, n]."""
    graph = _Graph(x=(m, k))
    graph.node("MatMul", "x", graph.weight("w", k, n, fan_in=k))
    return graph.model()


def batched_matmul(batch: int, m: int, n: int, k: int) -> onnx.ModelProto:
    """[1, batch, m, k] times [1, batch, k, n], both inputs."""
    graph = _Graph(x=(1, batch, m, k), y=(1, batch, k, n))
    graph.node("MatMul", "x", "y")
    return graph.model()


def convolution(
    x: Shape, w: Shape, activation: str | None = "Relu", **attributes: Any
) -> onnx.ModelProto:
    """A convolution with bias; ``activation`` is `Relu`, `Clip` (to 0..6) or None."""
    graph = _Graph(x=x)
    weight = graph.weight("w", *w, fan_in=math.prod(w[1:]))
    y = graph.node("Conv", "x", weight, graph.weight("b", w[0]), **attributes)
    _activate(graph, y, activation)
    return graph.model()


def _activate(graph: _Graph, y: str, activation: str | None) -> None:
    if activation == "Clip":
        graph.node("Clip", y, graph.constant("low", 0.0), graph.constant("high", 6.0))
    elif activation is not None:
        graph.node(activation, y)


def pool(kind: str, x: Shape, **attributes: Any) -> onnx.ModelProto:
    """`MaxPool`, `AveragePool` or `GlobalAveragePool`."""
    graph = _Graph(x=x)
    graph.node(kind, "x", **attributes)
    return graph.model()


def mean(x: Shape) -> onnx.ModelProto:
    """The mean over height and width."""
    graph = _Graph(x=x)
    graph.node("ReduceMean", "x", graph.constant("axes", np.array([2, 3])), keepdims=0)
    return graph.model()


def relayout(x: Shape, perm: Sequence[int]) -> onnx.ModelProto:
    """A transpose."""
    graph = _Graph(x=x)
    graph.node("Transpose", "x", perm=list(perm))
    return graph.model()


def add_relu(x: Shape) -> onnx.ModelProto:
    """The sum of two inputs, then Relu: the end of a residual block."""
    graph = _Graph(x=x, y=x)
    graph.node("Relu", graph.node("Add", "x", "y"))
    return graph.model()


def bias_relu6(x: Shape) -> onnx.ModelProto:
    """Addition of a constant for each channel, then Relu6."""
    graph = _Graph(x=x)
    _activate(graph, graph.node("Add", "x", graph.weight("b", x[1], 1, 1)), "Clip")
    return graph.model()


def softmax(x: Shape) -> onnx.ModelProto:
    """Softmax along the last dimension."""
    graph = _Graph(x=x)
    graph.node("Softmax", "x", axis=-1)
    return graph.model()


def layer_norm(x: Shape) -> onnx.ModelProto:
    """Layer normalization along the last dimension, with scale and bias."""
    graph = _Graph(x=x)
    scale, bias = graph.weight("s", x[-1]), graph.weight("b", x[-1])
    graph.node("LayerNormalization", "x", scale, bias, axis=-1)
    return graph.model()


def gelu(x: Shape) -> onnx.ModelProto:
    """x (1 + erf(x / sqrt(2))) / 2, as single ops."""
    graph = _Graph(x=x)
    erf = graph.node("Erf", graph.node("Div", "x", graph.constant("root", math.sqrt(2))))
    twice = graph.node("Mul", "x", graph.node("Add", erf, graph.constant("one", 1.0)))
    graph.node("Mul", twice, graph.constant("half", 0.5))
    return graph.model()


def attention(heads: int, length: int, depth: int, *, causal: bool = False) -> onnx.ModelProto:
    """softmax(q kᵀ / sqrt(depth)) v.

    A causal one hides later keys by a constant mask; the counted operations ignore the mask.
    """
    shape = (1, heads, length, depth)
    graph = _Graph(q=shape, k=shape, v=shape)
    scores = graph.node("MatMul", "q", graph.node("Transpose", "k", perm=[0, 1, 3, 2]))
    scaled = graph.node("Mul", scores, graph.constant("scale", 1 / math.sqrt(depth)))
    if causal:
        mask = np.where(np.tri(length, dtype=np.bool_), 0, -np.inf)
        scaled = graph.node("Add", scaled, graph.constant("mask", mask))
    graph.node("MatMul", graph.node("Softmax", scaled, axis=-1), "v")
    return graph.model()


# ** what they do **


def workload(model: onnx.ModelProto) -> Workload:
    """Return the floating-point operations of products and convolutions, and the bytes moved."""
    graph = model.graph
    shapes = _shapes(model)
    constants = sum(4 * math.prod(tensor.dims) for tensor in graph.initializer)
    return Workload(
        flops=sum(_flops(node, shapes) for node in graph.node),
        read=constants + sum(4 * math.prod(shapes[value.name]) for value in graph.input),
        written=sum(4 * math.prod(shapes[value.name]) for value in graph.output),
    )


def _flops(node: onnx.NodeProto, shapes: dict[str, Shape]) -> int:
    if node.op_type == "MatMul":
        terms = shapes[node.input[0]][-1]
    elif node.op_type == "Conv":
        terms = math.prod(shapes[node.input[1]][1:])
    else:
        return 0
    return 2 * terms * math.prod(shapes[node.output[0]])


def _shapes(model: onnx.ModelProto) -> dict[str, Shape]:
    """Return the shape of every value of a model with inferred shapes."""
    graph = model.graph
    values = (*graph.value_info, *graph.input, *graph.output)
    shapes = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in values}
    return shapes | {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}


# ** the cases **


def _matmuls(group: str, sizes: Sequence[Shape], *, cold: bool = False) -> Iterator[Case]:
    for size in sizes:
        name = "x".join(map(str, size))
        yield Case(group, name, functools.partial(matmul, *size), cold)


def _batched() -> Iterator[Case]:
    for size in ((12, 128, 64, 128), (12, 128, 128, 64)):
        yield Case("batched", "x".join(map(str, size)), functools.partial(batched_matmul, *size))


def _resnet50() -> Iterator[Case]:
    """Yield the distinct convolutions of the light ResNet-50, each with bias and Relu."""
    for x, w, attributes in _convolutions(light_model("resnet50")):
        build = functools.partial(convolution, x, w, "Relu", **attributes)
        yield Case("resnet50", _convolution_name(x, w, attributes), build)


def _depthwise() -> Iterator[Case]:
    """Yield the depthwise convolutions of the fixture ``mobilenet_opset18``, each with Relu6.

    The fixture is a MobileNet V2 exported by PyTorch, with batch norms folded into biases.
    """
    for x, w, attributes in _convolutions(load_fixture("mobilenet_opset18")):
        if attributes["group"] == x[1]:
            build = functools.partial(convolution, x, w, "Clip", **attributes)
            yield Case("depthwise", _convolution_name(x, w, attributes), build)


def _convolutions(model: onnx.ModelProto) -> list[tuple[Shape, Shape, Attributes]]:
    """Return shapes of input and weight, and attributes, of a model's distinct convolutions."""
    inferred = onnx.shape_inference.infer_shapes(model)
    shapes = _shapes(inferred)
    distinct: dict[str, tuple[Shape, Shape, Attributes]] = {}
    for node in inferred.graph.node:
        if node.op_type == "Conv":
            x, w = shapes[node.input[0]], shapes[node.input[1]]
            found = (x, w, _attributes(node))
            distinct.setdefault(str(found), found)
    return list(distinct.values())


def _attributes(node: onnx.NodeProto) -> Attributes:
    """Return a convolution's attributes, with defaults filled in."""
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if given.get("auto_pad", b"NOTSET") != b"NOTSET":
        raise ValueError(f"node {node.name!r}: auto_pad is not expected here")
    defaults = {"strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1], "group": 1}
    return {name: given.get(name, default) for name, default in defaults.items()}


def _convolution_name(x: Shape, w: Shape, attributes: Attributes) -> str:
    stride = attributes["strides"][0]
    return f"{w[2]}x{w[3]}{f'/{stride}' if stride > 1 else ''} {x[1]}->{w[0]} of {x[2]}x{x[3]}"


def _images() -> Iterator[Case]:
    """Yield 3x3 convolutions of few channels over large images, as in segmentation and image
    restoration.

    At sides of 160 and 224, planes lie a multiple of 4 KiB apart.
    """
    for channels, side in ((16, 112), (32, 112), (32, 160), (32, 224), (48, 224), (32, 225)):
        x, w = (1, channels, side, side), (channels, channels, 3, 3)
        attributes: Attributes = {"strides": [1, 1], "pads": [1, 1, 1, 1]}
        build = functools.partial(convolution, x, w, "Relu", **attributes)
        yield Case("images", _convolution_name(x, w, attributes), build)


def _memory() -> Iterator[Case]:
    """Yield ops bound by memory, with shapes of ResNet-50, Inception, VGG and MobileNet."""
    three = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    two = {"kernel_shape": [2, 2], "strides": [2, 2]}
    builders: dict[str, Callable[[], onnx.ModelProto]] = {
        "max pool 3x3/2 64 of 112x112": functools.partial(
            pool, "MaxPool", (1, 64, 112, 112), strides=[2, 2], **three
        ),
        "max pool 2x2/2 64 of 224x224": functools.partial(
            pool, "MaxPool", (1, 64, 224, 224), **two
        ),
        "average pool 3x3 192 of 28x28": functools.partial(
            pool, "AveragePool", (1, 192, 28, 28), **three
        ),
        "average pool 2x2/2 256 of 28x28": functools.partial(
            pool, "AveragePool", (1, 256, 28, 28), **two
        ),
        "add+relu 256 of 56x56": functools.partial(add_relu, (1, 256, 56, 56)),
        "add+relu 512 of 7x7": functools.partial(add_relu, (1, 512, 7, 7)),
        "bias+relu6 96 of 112x112": functools.partial(bias_relu6, (1, 96, 112, 112)),
        "bias+relu6 96 of 14x14": functools.partial(bias_relu6, (1, 96, 14, 14)),
        "mean 2048 of 7x7": functools.partial(mean, (1, 2048, 7, 7)),
        "mean 256 of 56x56": functools.partial(mean, (1, 256, 56, 56)),
    }
    yield from (Case("memory", name, build) for name, build in builders.items())


def _rows() -> Iterator[Case]:
    """Yield row-wise ops: norms, softmax, attention, and GELU."""
    yield Case("rows", "softmax 4096x1024", functools.partial(softmax, (4096, 1024)))
    yield Case("rows", "layer norm 4096x1024", functools.partial(layer_norm, (4096, 1024)))
    yield Case("rows", "layer norm 128x768", functools.partial(layer_norm, (128, 768)))
    yield Case("rows", "gelu 4096x1024", functools.partial(gelu, (4096, 1024)))
    for size in ((12, 128, 64), (12, 197, 64), (12, 1024, 64), (8, 4096, 64)):
        name = f"attention {'x'.join(map(str, size))}"
        yield Case("rows", name, functools.partial(attention, *size))
    build = functools.partial(attention, 8, 4096, 64, causal=True)
    yield Case("rows", "causal attention 8x4096x64", build)


def resize(x: Shape, scale: float, **attributes: Any) -> onnx.ModelProto:
    """An image resized by a factor in height and width."""
    graph = _Graph(x=x)
    graph.node("Resize", "x", "", graph.constant("scales", [1, 1, scale, scale]), **attributes)
    return graph.model()


def _resize() -> Iterator[Case]:
    """Yield resizes as in detectors and segmentation: up, and an input down."""
    for name, x, scale, attributes in (
        ("linear 64 of 56x56 by 2", (1, 64, 56, 56), 2.0, {"mode": "linear"}),
        ("linear 21 of 64x64 by 8", (1, 21, 64, 64), 8.0, {"mode": "linear"}),
        ("linear 3 of 224x224 by 1.5", (1, 3, 224, 224), 1.5, {"mode": "linear"}),
        ("linear 3 of 480x640 by 0.5", (1, 3, 480, 640), 0.5, {"mode": "linear"}),
        ("nearest 64 of 56x56 by 1.5", (1, 64, 56, 56), 1.5, {"mode": "nearest"}),
        ("cubic 3 of 128x128 by 2", (1, 3, 128, 128), 2.0, {"mode": "cubic"}),
    ):
        yield Case("resize", name, functools.partial(resize, x, scale, **attributes))


def _relayout() -> Iterator[Case]:
    """Yield layout changes of ResNet-50's and MobileNet V2's activations, and of an image."""
    for channels, side in ((3, 224), (64, 56), (256, 56), (96, 112), (256, 14), (2048, 7)):
        name = f"{channels} of {side}x{side}"
        rows, channels_last = (1, channels, side, side), (1, side, side, channels)
        last = functools.partial(relayout, rows, (0, 2, 3, 1))
        first = functools.partial(relayout, channels_last, (0, 3, 1, 2))
        yield Case("relayout", f"to nhwc {name}", last)
        yield Case("relayout", f"to nchw {name}", first)


GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    "matmul": lambda: _matmuls(
        "matmul",
        (
            (512, 512, 512),
            (1024, 1024, 1024),
            (128, 768, 768),
            (128, 3072, 768),
            (128, 768, 3072),
            (196, 1024, 256),
            (3136, 64, 256),
        ),
    ),
    "odd": lambda: _matmuls("odd", ((127, 771, 513), (33, 1000, 2048), (5, 1000, 512), (7, 7, 7))),
    "gemv": lambda: _matmuls("gemv", ((1, 4096, 4096),), cold=True),
    "batched": _batched,
    "resnet50": _resnet50,
    "images": _images,
    "depthwise": _depthwise,
    "rows": _rows,
    "memory": _memory,
    "resize": _resize,
    "relayout": _relayout,
}
"""The cases by group. Sizes of products are MxNxK, preceded by the batch."""
