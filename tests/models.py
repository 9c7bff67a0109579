"""Whole models for tests and benchmarks: known graphs, with weights drawn from a seed.

The graphs are the fixtures (``tests/fixtures/*.onnx``) and the light models that the onnx package
carries. Weights are drawn so that activations keep their scale from layer to layer and outputs
depend on the input: an error anywhere shows in the output.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from tessella.driver.build.build import StagedProgram, lower
from tessella.driver.options import make_options
from tessella.frontends.compile import open_source
from tests.fixtures.light import LIGHT_MODELS, light_model
from tests.fixtures.weights import fill_weights

__all__ = [
    "BEGINNINGS",
    "FIXTURES",
    "HEAVY",
    "LIGHT_MODELS",
    "OPEN_FIXTURES",
    "fill_weights",
    "graph_inputs",
    "light_model",
    "load_fixture",
    "load_model",
    "lowered_for",
    "random_inputs",
    "run_onnxruntime",
    "with_open_batch",
]

Array = npt.NDArray[Any]

FIXTURES = (
    "encoder_opset14",
    "encoder_opset18",
    "mobilenet_opset11",
    "mobilenet_opset18",
    "mobilenet_v3",
    "efficientnet_b0",
    "convnext",
    "vit",
    "swin",
    "gpt2",
    "unet",
    "gru_tagger",
    "lstm_tagger",
)

OPEN_FIXTURES = (
    "encoder_open",
    "encoder_open_opset14",
    "decoder",
    "decoder_opset17",
    "vit_open",
    "mobilenet_v3_open",
    "gru_tagger_open",
)
"""Fixtures with open dimensions: `batch`, and `seq` and `past` of text models."""

HEAVY = {
    *("vgg19", "resnet50", "zfnet512", "bvlc_alexnet", "densenet121"),
    *("shufflenet", "mobilenet_opset11", "encoder_opset14", "convnext", "vit", "swin", "gpt2"),
    *(
        "unet",
        "mobilenet_v3",
        "efficientnet_b0",
        "gru_tagger",
        "lstm_tagger",
        "inception_v1",
        "inception_v2",
    ),
}
"""Models that take long, or much memory: run with the slow tests."""

BEGINNINGS = {
    "two layers": ("encoder_opset18", "layer_norm_4"),
    "two fires": ("squeezenet", "r17"),
    "inverted residuals": ("mobilenet_opset18", "add"),
}
"""Parts of models whose layers are alike, with the value that they end with: the first layers have
all that the others have."""

_FOLDER = Path(__file__).parent / "fixtures"


def load_model(name: str) -> onnx.ModelProto:
    """The light model, the fixture or the beginning of one of this name, with weights."""
    if name in BEGINNINGS:
        of, end = BEGINNINGS[name]
        model = light_model(of) if of in LIGHT_MODELS else _read(of)
        return fill_weights(beginning(model, end), 0)
    return light_model(name) if name in LIGHT_MODELS else load_fixture(name)


def load_fixture(name: str, seed: int = 0) -> onnx.ModelProto:
    """The fixture of this name (see ``FIXTURES``), with weights."""
    return fill_weights(_read(name), seed)


def _read(name: str) -> onnx.ModelProto:
    return onnx.ModelProto.FromString((_FOLDER / f"{name}.onnx").read_bytes())


def beginning(model: onnx.ModelProto, end: str) -> onnx.ModelProto:
    """The model with the value ``end`` for its output, and what that is made of."""
    nodes: list[onnx.NodeProto] = []
    read = {end}
    for node in reversed(model.graph.node):
        if read & {*node.output}:
            nodes.insert(0, node)
            read |= {*node.input}
    graph = helper.make_graph(
        nodes,
        model.graph.name,
        [value for value in model.graph.input if value.name in read],
        [helper.make_tensor_value_info(end, onnx.TensorProto.FLOAT, None)],
        [tensor for tensor in model.graph.initializer if tensor.name in read],
    )
    return helper.make_model(
        graph,
        opset_imports=model.opset_import,
        ir_version=model.ir_version,
        functions=model.functions,
    )


def with_open_batch(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with `batch` for the first dimension of its inputs; exporters write that of their
    example into the shapes that tensors are given."""
    opened = onnx.ModelProto()
    opened.CopyFrom(model)
    graph = opened.graph
    for value in graph_inputs(opened):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    del graph.value_info[:]
    nodes = [node for node in graph.node if node.op_type == "Reshape"]
    for node in nodes:
        kept = [each for each in node.attribute if each.name != "allowzero"]
        del node.attribute[:]
        node.attribute.extend(kept)
    shapes = {node.input[1] for node in nodes}
    constants = [node for node in graph.node if node.op_type == "Constant"]
    made = [node.attribute[0].t for node in constants if node.output[0] in shapes]
    for tensor in (*made, *(each for each in graph.initializer if each.name in shapes)):
        shape = numpy_helper.to_array(tensor).copy()
        if shape.size > 1 and shape[0] == 1:
            shape[0] = 0  # as it was before
            tensor.CopyFrom(numpy_helper.from_array(shape, tensor.name))
    return opened


def lowered_for(model: onnx.ModelProto | Path, target: str | None = None) -> StagedProgram:
    """A model of static shapes at the stage `loops`, which LLVM has not seen yet."""
    source = open_source(model)
    shapes = {i.name: tuple(d for d in i.shape if isinstance(d, int)) for i in source.inputs}
    return lower(source.graph(shapes), make_options(target=target))


def random_inputs(
    model: onnx.ModelProto, seed: int = 0, sizes: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Arrays for the inputs that are not initializers; ``sizes`` gives those of open dimensions.

    Floats are N(0, 1), with the coarse and fine structure of an image where they have its rank;
    integers that index a table are in its range; other integers are a mask of ones with a tail of
    zeros along the last axis.
    """
    graph = model.graph
    rng = np.random.default_rng(seed)
    tables = {tensor.name: tensor.dims[0] for tensor in graph.initializer if tensor.dims}
    rows = {n.input[1]: tables.get(n.input[0]) for n in graph.node if n.op_type == "Gather"}
    feeds: dict[str, Array] = {}
    for value in graph_inputs(model):
        tensor_type = value.type.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(tensor_type.elem_type)
        dims = tensor_type.shape.dim
        shape = [(sizes or {}).get(dim.dim_param, dim.dim_value) for dim in dims]
        if dtype.kind == "f":
            array = _random_floats(shape, rng)
        elif (count := rows.get(value.name)) is not None:
            array = rng.integers(0, count, shape)
        else:
            tail = shape[-1] // 4
            array = np.broadcast_to(np.arange(shape[-1]) < shape[-1] - tail, shape)
        feeds[value.name] = np.ascontiguousarray(array, dtype)
    return feeds


def graph_inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """The inputs that a caller has to give: those that are not initializers."""
    initializers = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in initializers]


def run_onnxruntime(
    model: onnx.ModelProto, feeds: dict[str, Array], threads: int = 1
) -> list[Array]:
    """The outputs of a model, by ONNX Runtime on the CPU."""
    ort: Any = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # warnings about unused initializers are of no interest
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [np.asarray(output) for output in session.run(None, feeds)]


def _random_floats(shape: Sequence[int], rng: np.random.Generator) -> Array:
    """N(0, 1), float64 [shape]; for images half of the variance is in blocks of 32x32 pixels.

    White noise alone looks the same to every network that averages over the image at its end.
    """
    fine = rng.standard_normal(tuple(shape))
    if len(shape) != 4:
        return fine
    n, c, h, w = shape
    blocks = rng.standard_normal((n, c, -(-h // 32), -(-w // 32)))
    coarse = blocks.repeat(32, axis=2).repeat(32, axis=3)[:, :, :h, :w]
    return (fine + coarse) / math.sqrt(2)
