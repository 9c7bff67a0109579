"""Preparation of float32 models for a quantiser.

    Conv, BatchNormalization -> Conv
    Sum(a, b)                -> Add(a, b)

Constants are folded, each node has its own name, and the op set is 13 or later, the first with
a scale for each channel.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
from onnx import version_converter

from tessella.support.errors import ExecutionError, InvalidModelError, OptionError
from tessella.tools.quantize.peer import runtime

_OLDEST, _TARGET = 13, 17
"""The first op set with a scale per channel, and the target of converting older models."""

_CONSTANT_WEIGHTS = 4
"""The first IR version in which weights need not be inputs."""

_QUANTIZED = {
    *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"),
    *("QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"),
}


def prepared(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return an equivalent float32 model in the form that a quantiser requires. Raises
    TessellaError if the model is quantised already, or cannot be converted."""
    _check_wide(model)
    folded = _folded(_with_sums_as_adds(_upgraded(_with_constants(model))))
    _drop_unused_domains(folded)
    _name_nodes(folded)
    return folded


def _check_wide(model: onnx.ModelProto) -> None:
    node = next((n for n in model.graph.node if n.op_type in _QUANTIZED), None)
    if node is not None:
        raise OptionError(
            "the model is quantised already",
            where=f"node {node.name!r}",
            expected="a model in float32",
            found=node.op_type,
        )


def _with_constants(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with weights that are constants: old models list weights as inputs, too."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    del changed.graph.input[:]
    changed.graph.input.extend(inputs)
    changed.ir_version = max(model.ir_version, _CONSTANT_WEIGHTS)
    return changed


def _upgraded(model: onnx.ModelProto) -> onnx.ModelProto:
    version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), _TARGET)
    if version >= _OLDEST:
        return model
    try:
        return version_converter.convert_version(model, _TARGET)
    except Exception as error:  # C++ exceptions, without a type of their own
        raise InvalidModelError(
            f"cannot convert the model to op set {_TARGET}: {error}",
            expected=f"op set {_OLDEST} or later",
            found=f"op set {version}",
        ) from error


def _with_sums_as_adds(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace sums of two values by additions, which quantisers support."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for node in changed.graph.node:
        if node.op_type == "Sum" and node.domain in ("", "ai.onnx") and len(node.input) == 2:
            node.op_type = "Add"
    return changed


def _folded(model: onnx.ModelProto) -> onnx.ModelProto:
    """Apply ONNX Runtime's simplifications that keep to ONNX's operators."""
    peer = runtime()
    options = peer.SessionOptions()
    options.graph_optimization_level = peer.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 4
    with TemporaryDirectory() as folder:
        path = Path(folder) / "folded.onnx"
        options.optimized_model_filepath = str(path)
        try:
            peer.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # ONNX Runtime raises types without a common base
            raise ExecutionError(f"ONNX Runtime cannot load the model: {error}") from error
        return onnx.ModelProto.FromString(path.read_bytes())


def _drop_unused_domains(model: onnx.ModelProto) -> None:
    """Remove the operator domains that no node uses: ONNX Runtime lists all that it knows."""
    used = {"", *(node.domain for node in model.graph.node)}
    kept = [opset for opset in model.opset_import if opset.domain in used]
    del model.opset_import[:]
    model.opset_import.extend(kept)


def _name_nodes(model: onnx.ModelProto) -> None:
    """Give each node a unique name, by which the quantiser excludes nodes."""
    counts = Counter(node.name for node in model.graph.node)
    for i, node in enumerate(model.graph.node):
        if not node.name or counts[node.name] > 1:
            node.name = f"{node.name or node.op_type}_{i}"
