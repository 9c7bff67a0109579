"""Narrow numbers beside other runtimes: the models that are measured, and the table."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx
import pytest

from bench import narrow, narrow_cases
from bench.cases import convolution
from bench.instruction_peak import Product, peak
from bench.narrow_cases import CASES, Case, Made
from tessella import targets
from tessella.targets.instructions import of_product
from tessella.tools import measure
from tessella.tools.peers import Run, load_tessella
from tests.models import random_inputs, run_onnxruntime

BYTES: Product = ("u8", "i8", "i32")


def small(_: str) -> onnx.ModelProto:
    return convolution((1, 8, 12, 12), (16, 8, 3, 3), pads=[1] * 4)


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_LONGEST", 0.0)
    monkeypatch.setattr(narrow, "TURN", 0.0)
    monkeypatch.setattr(narrow, "PEAK_SECONDS", 0.0)
    monkeypatch.setattr(narrow_cases, "load_model", small)


def case(name: str) -> Case:
    return next(CASES[each] for each in CASES if each.startswith(name))


@pytest.mark.parametrize("name", ["qdq", "stored resnet50 f16", "stored resnet50 bf16"])
def test_a_row_for_each_runtime(name: str) -> None:
    chosen = case(name)
    rows = narrow.measure(chosen, chosen.make(), threads=1, repeat=2)
    assert [row.peer for row in rows] == list(chosen.peers)
    for row in rows:
        if row.failure is None or row.peer != "openvino":  # which need not be installed
            assert row.failure is None
            assert row.median_ms
            assert row.error is not None
    assert rows[0].error is not None
    assert rows[0].error < 0.05
    assert rows[0].ratio


def test_a_packed_product_has_a_share_of_the_rate_of_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(narrow_cases, "_WIDE", 64)
    chosen = case("packed 1x")
    for row in narrow.measure(chosen, chosen.make(), threads=1, repeat=2):
        assert row.failure is None
        assert row.of_peak
        assert row.error is not None
        assert row.error < 1e-4


def test_the_dynamic_case_finds_ranges_in_each_run() -> None:
    kinds = {node.op_type for node in case("dynamic").make().model.graph.node}
    assert "DynamicQuantizeLinear" in kinds
    assert "QuantizeLinear" not in kinds


def test_stored_weights_are_those_of_the_model() -> None:
    made = case("stored resnet50 bf16").make()
    assert made.wide is not None
    kinds = {tensor.data_type for tensor in made.model.graph.initializer if len(tensor.dims) > 1}
    assert kinds == {onnx.TensorProto.BFLOAT16}
    (found,) = run_onnxruntime(made.model, dict(made.feeds))
    (expected,) = run_onnxruntime(made.wide, dict(made.feeds))
    assert 0 < np.abs(found - expected).max() < 0.05


def test_weights_of_old_files_are_stored_as_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    """There, weights are inputs too, and Cast takes no bfloat16."""
    model = small("")
    model.ir_version, model.opset_import[0].version = 3, 9
    weights = model.graph.initializer
    infos = [onnx.helper.make_tensor_value_info(w.name, w.data_type, w.dims) for w in weights]
    model.graph.input.extend(infos)
    monkeypatch.setattr(narrow_cases, "load_model", lambda _: model)
    for name in ("stored resnet50 f16", "stored resnet50 bf16"):
        made = case(name).make()
        (found,) = run_onnxruntime(made.model, dict(made.feeds))
        assert np.isfinite(found).all()


def test_a_product_has_a_share_of_the_peak() -> None:
    x = random_inputs(small(""))
    made = Made(small(""), x, operations=1000)
    peers = {"tessella": load_tessella}
    product = Case("product", "small", lambda: made, peers, BYTES)
    (row,) = narrow.measure(product, made, threads=2, repeat=1)
    has_it = any(of_product(*BYTES, targets.native()))
    assert (row.of_peak is not None) == has_it


@pytest.mark.parametrize("product", [BYTES, ("i16", "i16", "i32"), ("bf16", "bf16", "f32")])
def test_a_peak_is_above_that_of_multiply_adds_of_one_lane(product: Product) -> None:
    probe = peak(product, targets.native())
    if probe is None:
        pytest.skip("this machine lacks the instruction")
    assert probe.rate(0.01) > 4e9


def test_a_target_without_an_instruction_has_no_peak() -> None:
    assert peak(("bf16", "bf16", "f32"), targets.get("avx2")) is None


def test_a_failure_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Run:
        raise RuntimeError("no such place\nand more")

    made = partial(Made, small(""), random_inputs(small("")))
    failing = Case("qdq", "broken", made, {"tessella": refuse})
    monkeypatch.setitem(narrow.CASES, "qdq broken", failing)
    assert narrow.main(["broken", "--threads", "1", "--repeat", "1"]) == 1
    assert "failed: RuntimeError: no such place\n" in capsys.readouterr().out
