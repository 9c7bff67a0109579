"""Models with narrow numbers: quantised, stored in 16 bits, and single ops."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, version_converter

from bench.contest import Load
from bench.instruction_peak import Product
from bench.zentorch import load_zentorch
from tessella.tools.measure import Array
from tessella.tools.peers import (
    FIRST_IR_VERSION,
    load_onnxruntime,
    load_openvino,
    load_tessella,
)
from tessella.tools.quantize import quantize
from tests.models import load_model, random_inputs

SAMPLES = 4
"""Random inputs that calibrate a model."""

CAST_OPSET = 13
"""The first op set with bfloat16 in Cast."""

BF16_PLACES = ("x86/bf16", "x86/f32")
"""Places that let f32 models compute narrowly."""


@dataclass(frozen=True)
class Made:
    """A model to measure."""

    model: onnx.ModelProto
    feeds: Mapping[str, Array]
    wide: onnx.ModelProto | None = None
    """The f32 model that results are compared with, run by ONNX Runtime; None to compare with the
    first peer."""
    wide_feeds: Mapping[str, Array] | None = None
    operations: int = 0
    """Operations, if the share of the peak is of interest."""
    weight_bytes: int = 0
    """Bytes of weights, if the share of the rate at which they can be read is of interest."""


@dataclass(frozen=True)
class Case:
    """A row of figures. The model is built on demand."""

    group: str
    name: str
    make: Callable[[], Made]
    peers: Mapping[str, Load]
    """Loaders by name; tessella is the first."""
    product: Product | None = None
    """The product whose instruction determines the peak."""


_TESSELLA: Mapping[str, Load] = {"tessella": load_tessella}
_ORT: Mapping[str, Load] = {**_TESSELLA, "onnxruntime": load_onnxruntime}
_BOTH: Mapping[str, Load] = {**_ORT, "openvino": load_openvino}
_BF16: Mapping[str, Load] = {
    "tessella": partial(load_tessella, places=BF16_PLACES),
    "openvino": partial(load_openvino, precision="bf16"),
}


def _with_torch(network: str) -> Mapping[str, Load]:
    return {**_BF16, "zentorch": partial(load_zentorch, network=network)}


def _quantized(name: str, **settings: Any) -> Made:
    model = load_model(name)
    samples = [random_inputs(model, seed=seed) for seed in range(SAMPLES)]
    return Made(quantize(model, samples, **settings).model, samples[0], model)


def _wide(name: str) -> Made:
    model = load_model(name)
    return Made(model, random_inputs(model), model)


def _of_constants(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy with constant weights, in an op set whose Cast supports bfloat16."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    weights = {tensor.name for tensor in copy.graph.initializer}
    inputs = [value for value in copy.graph.input if value.name not in weights]
    del copy.graph.input[:]
    copy.graph.input.extend(inputs)
    copy.ir_version = max(copy.ir_version, FIRST_IR_VERSION)
    default = next(each.version for each in copy.opset_import if not each.domain)
    return version_converter.convert_version(copy, CAST_OPSET) if default < CAST_OPSET else copy


def _f16(name: str) -> Made:
    """Convert weights, inputs and activations to float16."""
    model = load_model(name)
    converter: Any = importlib.import_module("onnxruntime.transformers.float16")
    narrow = converter.convert_float_to_float16(_of_constants(model), op_block_list=[])
    feeds = random_inputs(model)
    halves = {n: x.astype(np.float16) if x.dtype == np.float32 else x for n, x in feeds.items()}
    return Made(narrow, halves, model, feeds)


def _bf16_weights(name: str) -> Made:
    """Store weights in bfloat16, each behind a Cast to float32."""
    model = load_model(name)
    narrow = _of_constants(model)
    casts: list[onnx.NodeProto] = []
    for tensor in narrow.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and len(tensor.dims) > 1:
            values = numpy_helper.to_array(tensor).astype(ml_dtypes.bfloat16)
            casts.append(
                helper.make_node(
                    "Cast", [f"{tensor.name}/bf16"], [tensor.name], to=TensorProto.FLOAT
                )
            )
            tensor.CopyFrom(numpy_helper.from_array(values, f"{tensor.name}/bf16"))
    nodes = [*casts, *narrow.graph.node]
    del narrow.graph.node[:]
    narrow.graph.node.extend(nodes)
    return Made(narrow, random_inputs(model), model)


_M, _K, _N = 512, 1024, 1024


def _model(
    nodes: Sequence[onnx.NodeProto],
    x: tuple[int, Sequence[int]],
    y: tuple[int, Sequence[int]],
    constants: Sequence[onnx.TensorProto],
) -> onnx.ModelProto:
    """Return a graph from `x` to `y`, each with element type and shape."""
    inputs = [helper.make_tensor_value_info("x", *x)]
    outputs = [helper.make_tensor_value_info("y", *y)]
    graph = helper.make_graph(list(nodes), "narrow", inputs, outputs, list(constants))
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _u8s8_product() -> Made:
    rng = np.random.default_rng(0)
    w = numpy_helper.from_array(rng.integers(-127, 128, (_K, _N), np.int8), "w")
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    model = _model([node], (TensorProto.UINT8, [_M, _K]), (TensorProto.INT32, [_M, _N]), [w])
    return Made(model, {"x": rng.integers(0, 256, (_M, _K), np.uint8)}, operations=2 * _M * _K * _N)


def _bf16_product() -> Made:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((_K, _N), np.float32).astype(ml_dtypes.bfloat16)
    x = rng.standard_normal((_M, _K), np.float32).astype(ml_dtypes.bfloat16)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    kind = TensorProto.BFLOAT16
    w = numpy_helper.from_array(values, "w")
    model = _model([node], (kind, [_M, _K]), (kind, [_M, _N]), [w])
    return Made(model, {"x": x}, operations=2 * _M * _K * _N)


_WIDE = 4096
_BLOCK = 32


def _packed_product(rows: int, level: int) -> Made:
    """Four-bit weights in blocks, times rows of floats, or of bytes at accuracy level 4."""
    rng = np.random.default_rng(0)
    blocks = _WIDE // _BLOCK
    weights = [
        numpy_helper.from_array(rng.integers(0, 256, (_WIDE, blocks, _BLOCK // 2), np.uint8), "w"),
        numpy_helper.from_array(rng.uniform(0.01, 0.1, (_WIDE, blocks)).astype(np.float32), "s"),
    ]
    settings: dict[str, Any] = {"K": _WIDE, "N": _WIDE, "bits": 4, "block_size": _BLOCK}
    settings["accuracy_level"] = level
    names = ["x", "w", "s"]
    node = helper.make_node("MatMulNBits", names, ["y"], domain="com.microsoft", **settings)
    shape = (TensorProto.FLOAT, [rows, _WIDE])
    model = _model([node], shape, shape, weights)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    size = _WIDE * blocks * (_BLOCK // 2 + 4)
    feeds = {"x": rng.standard_normal((rows, _WIDE), np.float32)}
    return Made(model, feeds, weight_bytes=size if rows == 1 else 0)


_IMAGE = (1, 64, 224, 224)


def _conversion(kind: str) -> Made:
    """QuantizeLinear or DequantizeLinear of a large image."""
    rng = np.random.default_rng(0)
    scale = numpy_helper.from_array(np.array(0.02, np.float32), "scale")
    zero = numpy_helper.from_array(np.array(128, np.uint8), "zero")
    floats, bytes_ = (TensorProto.FLOAT, _IMAGE), (TensorProto.UINT8, _IMAGE)
    narrows = kind == "QuantizeLinear"
    node = helper.make_node(kind, ["x", "scale", "zero"], ["y"])
    model = _model([node], *((floats, bytes_) if narrows else (bytes_, floats)), [scale, zero])
    x = (
        rng.standard_normal(_IMAGE, np.float32)
        if narrows
        else rng.integers(0, 256, _IMAGE, np.uint8)
    )
    return Made(model, {"x": x})


def _cases() -> list[Case]:
    qdq = ("resnet50", "inception_v2", "mobilenet_opset18", "encoder_opset18")
    in_torch = ("encoder_opset18", "vit")
    stored = ("resnet50", "encoder_opset18")
    conversions = ("QuantizeLinear", "DequantizeLinear")
    dynamic = partial(_quantized, "encoder_opset18", dynamic=True)
    product = f"{_M}x{_K}x{_N}"
    return [
        *(Case("qdq", name, partial(_quantized, name), _BOTH) for name in qdq),
        Case("dynamic", "encoder_opset18", dynamic, _ORT),
        Case("bf16", "resnet50", partial(_wide, "resnet50"), _BF16),
        *(Case("bf16", name, partial(_wide, name), _with_torch(name)) for name in in_torch),
        *(Case("stored", f"{name} f16", partial(_f16, name), _ORT) for name in stored),
        *(Case("stored", f"{name} bf16", partial(_bf16_weights, name), _ORT) for name in stored),
        Case("product", f"{product} u8s8", _u8s8_product, _ORT, ("u8", "i8", "i32")),
        Case("product", f"{product} bf16", _bf16_product, _TESSELLA, ("bf16", "bf16", "f32")),
        *(
            Case(
                "packed", f"{rows}x{_WIDE}x{_WIDE} {name}", partial(_packed_product, rows, n), _ORT
            )
            for rows in (1, 64)
            for n, name in ((0, "f32"), (4, "int8"))
        ),
        *(Case("conversion", kind, partial(_conversion, kind), _ORT) for kind in conversions),
    ]


CASES: Mapping[str, Case] = {f"{case.group} {case.name}": case for case in _cases()}
