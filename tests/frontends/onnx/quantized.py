"""Networks as ONNX Runtime's quantizers write them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from tests.frontends.onnx.models import model, value

Array = npt.NDArray[Any]
IMAGE = (2, 3, 16, 16)
TEXT = (2, 12, 16)


def _weights(**shapes: Sequence[int]) -> dict[str, Array]:
    """Weights that keep the scale of what they multiply."""
    rng = np.random.default_rng(0)
    return {
        name: (rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(np.float32)
        for name, shape in shapes.items()
    }


def _node(op: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], **attributes)


def residual() -> onnx.ModelProto:
    """Convolutions of 3x3 with a residual, a pool and a classifier."""
    nodes = [
        _node("Conv", "x w1 b1", "c1", pads=[1] * 4, strides=[2, 2]),
        _node("Relu", "c1", "r1"),
        _node("MaxPool", "r1", "m1", kernel_shape=[2, 2], strides=[2, 2]),
        _node("Conv", "m1 w2 b2", "c2", pads=[1] * 4),
        _node("Add", "c2 m1", "a2"),
        _node("Relu", "a2", "r2"),
        _node("GlobalAveragePool", "r2", "g"),
        _node("Flatten", "g", "f"),
        _node("Gemm", "f w3 b3", "y", transB=1),
    ]
    weights = _weights(w1=(8, 3, 3, 3), b1=(8,), w2=(8, 8, 3, 3), b2=(8,), w3=(5, 8), b3=(5,))
    return model(nodes, [value("x", IMAGE)], [value("y", (2, 5))], weights=weights, opset=21)


def depthwise() -> onnx.ModelProto:
    """A depthwise convolution, squeeze and excite, leaky activations, a concat of two pools."""
    nodes = [
        _node("Conv", "x w1 b1", "c1", pads=[1] * 4, strides=[2, 2]),
        _node("Sigmoid", "c1", "s1"),
        _node("Mul", "c1 s1", "r1"),
        _node("Conv", "r1 wd bd", "d1", pads=[1] * 4, group=8),
        _node("Clip", "d1 low high", "d2"),
        _node("GlobalAveragePool", "d2", "g"),
        _node("Conv", "g w3", "e1"),
        _node("HardSigmoid", "e1", "e2"),
        _node("Mul", "d2 e2", "r2"),
        _node("Conv", "r2 w2 b2", "c2"),
        _node("LeakyRelu", "c2", "c3", alpha=0.1),
        _node("AveragePool", "c3", "p1", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        _node("MaxPool", "c3", "p2", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        _node("Concat", "p1 p2", "p", axis=1),
        _node("Conv", "p w4", "y"),
    ]
    weights = _weights(
        w1=(8, 3, 3, 3), b1=(8,), wd=(8, 1, 3, 3), bd=(8,), w3=(8, 8, 1, 1), w2=(8, 8, 1, 1),
        b2=(8,), w4=(6, 16, 1, 1),
    )  # fmt: skip
    weights |= {"low": np.array(0, np.float32), "high": np.array(6, np.float32)}
    return model(nodes, [value("x", IMAGE)], [value("y", (2, 6, 4, 4))], weights=weights, opset=21)


def encoder() -> onnx.ModelProto:
    """A layer of an encoder: attention of 2 heads, and a feed-forward layer, with norms."""
    heads, length, width = 2, TEXT[1], TEXT[2]
    nodes = [_node("LayerNormalization", "x n1", "x1")]
    for name in "qkv":
        nodes += [
            _node("MatMul", f"x1 w{name}", f"{name}0"),
            _node("Add", f"{name}0 b{name}", f"{name}1"),
            _node("Reshape", f"{name}1 split", f"{name}2"),
            _node(
                "Transpose", f"{name}2", name, perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
            ),
        ]
    nodes += [
        _node("MatMul", "q k", "s0"),
        _node("Mul", "s0 scale", "s1"),
        _node("Softmax", "s1", "s2"),
        _node("MatMul", "s2 v", "o0"),
        _node("Transpose", "o0", "o1", perm=[0, 2, 1, 3]),
        _node("Reshape", "o1 join", "o2"),
        _node("MatMul", "o2 wo", "o3"),
        _node("Add", "o3 x", "x2"),
        _node("LayerNormalization", "x2 n1", "x3"),
        _node("MatMul", "x3 w1", "f0"),
        _node("Add", "f0 b1", "f1"),
        _node("Relu", "f1", "f2"),
        _node("MatMul", "f2 w2", "f3"),
        _node("Add", "f3 x2", "y"),
    ]
    square, vector = (width, width), (width,)
    weights = _weights(
        wq=square, wk=square, wv=square, wo=square, bq=vector, bk=vector, bv=vector,
        w1=(width, 32), b1=(32,), w2=(32, width),
    )  # fmt: skip
    weights |= {
        "n1": np.ones(width, np.float32),
        "scale": np.array((width // heads) ** -0.5, np.float32),
        "split": np.array([0, length, heads, width // heads]),
        "join": np.array([0, length, width]),
    }
    return model(nodes, [value("x", TEXT)], [value("y", TEXT)], weights=weights, opset=21)


NETWORKS = {"residual": residual, "depthwise": depthwise, "encoder": encoder}


def feeds(proto: onnx.ModelProto, seed: int) -> dict[str, Array]:
    """Normally distributed numbers for the input, of which an open batch holds two."""
    dims = proto.graph.input[0].type.tensor_type.shape.dim
    shape = [dim.dim_value or 2 for dim in dims]
    return {"x": np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}


class _Data:
    """Calibration data: a few inputs."""

    def __init__(self, proto: onnx.ModelProto) -> None:
        self._left: Iterator[Mapping[str, Array]] = iter([feeds(proto, seed) for seed in range(4)])

    def get_next(self) -> Mapping[str, Array] | None:
        """The next input."""
        return next(self._left, None)


def static(proto: onnx.ModelProto, folder: Path, **options: Any) -> onnx.ModelProto:
    """The network quantized with calibration; types by their names, such as ``QUInt8``."""
    made = importlib.import_module("onnxruntime.quantization")
    for name in ("activation_type", "weight_type"):
        options[name] = getattr(made.QuantType, options[name])
    options["quant_format"] = getattr(made.QuantFormat, options.get("quant_format", "QDQ"))
    start, end = folder / "f32.onnx", folder / "quantized.onnx"
    onnx.save(proto, start)
    made.quantize_static(start, end, _Data(proto), **options)
    return onnx.load(end)


def dynamic(
    proto: onnx.ModelProto, folder: Path, weight_type: str, **options: Any
) -> onnx.ModelProto:
    """The network with weights of bytes, whose activations are quantized by their range."""
    made = importlib.import_module("onnxruntime.quantization")
    start, end = folder / "f32.onnx", folder / "quantized.onnx"
    onnx.save(proto, start)
    made.quantize_dynamic(start, end, weight_type=getattr(made.QuantType, weight_type), **options)
    return onnx.load(end)
