"""Models that ONNX Runtime's optimizers rewrote have the results and the fused ops of the original
models."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest

import tessella
from tests.frontends.onnx.contributed.cases import Array, close
from tests.models import beginning, load_fixture, load_model, random_inputs, run_onnxruntime

SIZES = {"batch": 2, "seq": 9, "past": 5}
FUSED = ("fc", "conv", "clip", "attention", "layer_norm", "gelu", "gelu_tanh", "add", "matmul")
"""Ops that fusion leaves in a program, and those of which it takes most."""


def by_session(model: onnx.ModelProto, folder: Path, _: str) -> onnx.ModelProto:
    """Return the model that a session writes at the level EXTENDED."""
    options: Any = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    options.log_severity_level = 3  # it warns that the file is for machines like this one
    onnxruntime.InferenceSession(model.SerializeToString(), options)
    return onnx.load(folder / "optimized.onnx")


def by_script(model: onnx.ModelProto, folder: Path, kind: str) -> onnx.ModelProto:
    """Return the model that the optimizer of transformers writes."""
    import onnxruntime.transformers

    # Its modules are on the path from its first import on, until a test restores the path.
    sys.path += {*onnxruntime.transformers.__path__}.difference(sys.path)
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.fusion_options import FusionOptions

    options: Any = FusionOptions(kind)
    options.enable_shape_inference = False  # it needs SymPy
    onnx.save(model, folder / "model.onnx")
    path, written = str(folder / "model.onnx"), folder / "optimized.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: Any = optimizer.optimize_model(path, kind, 0, 0, options, 0, False)
    found.save_model_to_file(str(written))
    return onnx.load(written)


def with_merged_projections() -> onnx.ModelProto:
    return beginning(load_fixture("encoder_opset14"), "/layers.1/output_norm/Add_1_output_0")


Optimizer = Callable[[onnx.ModelProto, Path, str], onnx.ModelProto]
CASES: dict[str, tuple[Callable[[], onnx.ModelProto], Optimizer, str, Sequence[str]]] = {
    "encoder": (
        lambda: load_model("two layers"),
        by_session,
        "",
        ["FusedMatMul", "SkipLayerNormalization"],
    ),
    "network of images": (lambda: load_model("inverted residuals"), by_session, "", ["FusedConv"]),
    "encoder with embeddings": (
        lambda: load_model("two layers"),
        by_script,
        "bert",
        ["BiasGelu", "EmbedLayerNormalization", "SkipLayerNormalization"],
    ),
    "decoder": (
        lambda: load_fixture("decoder"),
        by_script,
        "gpt2",
        ["FastGelu", "SkipLayerNormalization"],
    ),
    "merged projections": (
        with_merged_projections,
        by_script,
        "bert",
        ["Attention", "BiasGelu", "SkipLayerNormalization"],
    ),
}


def outputs(model: onnx.ModelProto, feeds: dict[str, Array]) -> tuple[list[Array], Counter[str]]:
    """Return the results of a model, and the fused ops of its program."""
    names = {value.name for value in model.graph.input}
    compiled = tessella.compile(model)
    found = compiled.run(None, {name: x for name, x in feeds.items() if name in names})
    ops = (row["op"].removeprefix("nn.") for row in compiled.explain().ops)
    return found, Counter(op for op in ops if op in FUSED)


SLOW = ("encoder with embeddings", "decoder", "merged projections")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in CASES],
)
def test_results_and_fused_ops(name: str, tmp_path: Path) -> None:
    load, optimize, kind, written = CASES[name]
    model = load()
    optimized = optimize(model, tmp_path, kind)
    assert {node.op_type for node in optimized.graph.node if node.domain} == {*written}
    feeds = random_inputs(model, 0, SIZES)
    (found, ops), (_, wanted) = outputs(optimized, feeds), outputs(model, feeds)
    for one, other in zip(found, run_onnxruntime(model, feeds), strict=True):
        close(one, other, 1e-4)
    if "Attention" in written:  # it has one product instead of three
        assert wanted["fc"] - ops["fc"] == 2
        ops["fc"] = wanted["fc"]
    assert ops == wanted
