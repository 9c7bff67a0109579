"""Quantised models: against ONNX Runtime, and the errors that are reported for them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tessella
from tessella.runtime.profile import Profile, ProfileRow
from tessella.support.errors import InputError, OptionError, TessellaError
from tessella.tools import quantize as package
from tessella.tools.onnx_values import OnnxGraph, OnnxRuntime
from tessella.tools.quantize.prepare import prepared
from tessella.tools.quantize.quantized import narrow_nodes
from tessella.tools.quantize.report import seconds_by_node
from tests.models import load_model, run_onnxruntime
from tests.native import normal
from tests.tools.quantize.models import SAMPLES, kinds, network


def relative(found: Any, expected: Any) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


@cache
def plain() -> package.Quantized:
    """The network, quantised by default."""
    return tessella.quantize(network(), SAMPLES)


@cache
def reported(**settings: Any) -> package.Report:
    quantized = tessella.quantize(network(), SAMPLES, **settings) if settings else plain()
    return quantized.report(threads=1)


def as_written(model: onnx.ModelProto, sample: Any, value: str) -> Any:
    """A value by ONNX Runtime without its optimizations. With these, it quantises weights itself
    that were left in float32 between quantised values."""
    return OnnxRuntime(OnnxGraph(model), sample).values([value])[value]


@pytest.mark.parametrize(
    "settings, expected",
    [
        ({}, {"QuantizeLinear", "DequantizeLinear", "Conv", "MatMul"}),
        ({"per_channel": False}, {"QuantizeLinear", "Conv"}),
        ({"activations": "s8"}, {"QuantizeLinear", "Conv"}),
        ({"dynamic": True}, {"DynamicQuantizeLinear", "ConvInteger", "MatMulInteger"}),
    ],
)
def test_the_model_is_quantised_and_close(settings: dict[str, Any], expected: set[str]) -> None:
    quantized = tessella.quantize(network(), SAMPLES, **settings)
    assert expected <= kinds(quantized.model)
    onnx.checker.check_model(quantized.model, full_check=True)
    for sample in SAMPLES:
        (wide,) = run_onnxruntime(network(), sample)
        # ONNX Runtime saturates sums of two products on x86 without VNNI
        (exact,) = ReferenceEvaluator(quantized.model).run(None, sample)
        (ours,) = tessella.compile(quantized.model).run(None, sample)
        assert 0 < relative(exact, wide) < 0.1
        assert relative(ours, exact) < 0.05


def test_elements_and_scales_are_those_that_were_asked_for() -> None:
    def initializers(**settings: Any) -> dict[str, Any]:
        quantized = tessella.quantize(network(), SAMPLES, **settings) if settings else plain()
        model = quantized.model
        return {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}

    assert initializers()["x_zero_point"].dtype == np.uint8
    assert initializers(activations="s8")["x_zero_point"].dtype == np.int8
    assert initializers()["w2_scale"].shape == (8,)
    assert initializers(per_channel=False)["w2_scale"].shape == ()


def test_batch_norms_are_folded_and_nodes_have_names() -> None:
    quantized = plain()
    assert "BatchNormalization" not in kinds(quantized.wide)
    names = [node.name for node in quantized.wide.graph.node]
    assert all(names)
    assert len(set(names)) == len(names)
    (folded,) = run_onnxruntime(quantized.wide, SAMPLES[0])
    (given,) = run_onnxruntime(network(), SAMPLES[0])
    np.testing.assert_allclose(folded, given, rtol=1e-4, atol=1e-5)


def test_an_old_model_is_upgraded() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Relu", ["m"], ["r"]),
        helper.make_node("Sum", ["r", "x"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 4]) for n in ("x", "y")]
    w = numpy_helper.from_array(normal(4, 4), "w")
    graph = helper.make_graph(nodes, "old", values[:1], values[1:], [w])
    old = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=4)
    samples = [{"x": normal(2, 4, seed=seed)} for seed in range(2)]
    quantized = tessella.quantize(old, samples)
    assert "Add" in kinds(quantized.model)
    (expected,) = run_onnxruntime(old, samples[0])
    (found,) = run_onnxruntime(quantized.model, samples[0])
    assert relative(found, expected) < 0.05


def test_weights_that_are_inputs_too_are_constants() -> None:
    """In version 3 of the IR all weights are inputs, and upgraded nodes have more weights."""
    old = load_model("inception_v2")
    assert old.ir_version == 3
    assert [value.name for value in prepared(old).graph.input] == ["data_0"]


# ** errors and the report **


def test_the_report_has_errors_that_can_be_measured_otherwise() -> None:
    quantized, report = plain(), reported()
    rows = {row.node: row for row in report.rows}
    assert [row.node for row in report.rows] == [n.name for n in quantized.wide.graph.node]
    assert {rows[name].precision for name in ("first", "second", "head")} == {"int8"}

    def values(model: onnx.ModelProto, name: str) -> Any:
        return np.stack([as_written(model, sample, name) for sample in SAMPLES])

    models = quantized.model, quantized.wide
    second, output = (relative(*(values(m, name) for m in models)) for name in ("c2", "y"))
    # a value at the boundary between two quanta moves by rounding
    assert rows["second"].error == pytest.approx(second, rel=0.05)
    assert report.error == pytest.approx(output, rel=0.05)
    assert report.samples == len(SAMPLES)


def test_own_errors_leave_out_what_earlier_nodes_did() -> None:
    report = tessella.quantize(network(wild=300), SAMPLES, per_channel=False).report(threads=1)
    own = {row.node: row.own_error or 0 for row in report.rows}
    total = {row.node: row.error or 0 for row in report.rows}
    assert own["second"] > 0.5
    assert total["head"] > 0.2
    assert 0 < own["first"] < 0.02
    assert 0 < own["head"] < 0.02


@pytest.mark.parametrize("settings", [{"dynamic": True}, {"activations": "s8"}])
def test_other_forms_have_errors_and_times(settings: dict[str, Any]) -> None:
    rows = {row.node: row for row in reported(**settings).rows}
    for name in ("first", "second", "head"):
        row = rows[name]
        assert row.precision == "int8"
        assert row.narrow, name
        assert 0 < (row.own_error or 0) < 0.05
        assert (row.own_error or 0) < 1.5 * (row.error or 0)


def test_times_belong_to_the_first_known_node_of_a_kernel() -> None:
    def row(seconds: float, *nodes: str, kind: str = "kernel") -> ProfileRow:
        return ProfileRow(kind, "k", nodes, "", 1, seconds, (seconds,))

    rows = (
        row(1.0, "x_QuantizeLinear"),
        row(2.0, "y_QuantizeLinear", "conv", "relu"),
        row(4.0, "conv_1_quant"),
        row(8.0, "conv_quant"),
        row(16.0, kind="barrier"),
    )
    profile = Profile(31.0, 1, 1, "m", 0.0, 0.0, rows, ())
    found, rest = seconds_by_node(profile, ["conv", "relu", "conv_1"])
    assert found == {"conv": 10.0, "conv_1": 4.0}
    assert rest == 1.0


def test_nodes_with_kernels_have_times() -> None:
    report = reported()
    assert report.wide > 0
    assert all(row.wide for row in report.rows if row.op == "Conv")
    assert all(row.narrow for row in report.rows if row.op == "Conv")
    text, document = str(report), json.loads(report.to_json())
    assert "own error" in text.splitlines()[0]
    assert [row["node"] for row in document["rows"]] == [row.node for row in report.rows]


# ** what stays wide **


def test_excluded_nodes_stay_wide() -> None:
    quantized = tessella.quantize(network(), SAMPLES, exclude=["second"])
    assert quantized.left_wide == ("second",)
    nodes = narrow_nodes(OnnxGraph(quantized.wide), OnnxGraph(quantized.model))
    assert {"first", "head"} <= set(nodes)
    weights = {each.name: each.data_type for each in quantized.model.graph.initializer}
    assert weights["w2"] == TensorProto.FLOAT


def test_the_error_budget_leaves_the_worst_node_wide() -> None:
    model, budget = network(wild=300), 0.05
    kept = tessella.quantize(model, SAMPLES, per_channel=False, error_budget=budget)
    # with the node that makes what it reads
    assert kept.left_wide == ("second", "Relu_1")
    wide = [run_onnxruntime(model, sample)[0] for sample in SAMPLES]
    found = [as_written(kept.model, sample, "y") for sample in SAMPLES]
    assert 0 < relative(np.stack(found), np.stack(wide)) <= budget


def test_a_budget_that_is_kept_anyway_leaves_nothing_wide() -> None:
    assert tessella.quantize(network(), SAMPLES, error_budget=0.5).left_wide == ()


def test_a_budget_that_only_float32_keeps() -> None:
    quantized = tessella.quantize(network(), SAMPLES, error_budget=1e-7)
    graphs = OnnxGraph(quantized.wide), OnnxGraph(quantized.model)
    assert not {"first", "second", "head"} & set(narrow_nodes(*graphs))


# ** what is refused **


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"activations": "u4"}, "unknown element"),
        ({"activations": "s8", "dynamic": True}, "those of u8"),
        ({"exclude": ["secnd"]}, "did you mean 'second'"),
        ({"error_budget": 0.0}, "above 0"),
        ({"error_budget": float("nan")}, "above 0"),
    ],
)
def test_wrong_options(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        tessella.quantize(network(), SAMPLES, **settings)


def test_what_is_quantised_already_is_refused() -> None:
    with pytest.raises(OptionError, match="quantised already"):
        tessella.quantize(plain().model, SAMPLES)


def test_without_samples() -> None:
    with pytest.raises(InputError, match="no calibration data"):
        tessella.quantize(network())
    with pytest.raises(InputError, match="no calibration data"):
        tessella.quantize(network(), dynamic=True, error_budget=0.1)
    with pytest.raises(InputError, match="a report needs data"):
        tessella.quantize(network(), dynamic=True).report()


def test_without_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "find_spec", lambda name: None if name == "onnxruntime" else name)
    with pytest.raises(TessellaError, match=r"needs onnxruntime\n.*'tessella\[quantize\]'"):
        _ = package.quantize
