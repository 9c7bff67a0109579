"""Models whose programs leave sizes open, from compiling to artifacts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tessella
from tessella.support.errors import InputError, ResourceError, ShapeError
from tests.models import (
    OPEN_FIXTURES,
    load_fixture,
    load_model,
    random_inputs,
    run_onnxruntime,
    with_open_batch,
)
from tests.native import RUNNABLE, calls

Array = np.ndarray[Any, Any]

WEIGHT = np.random.default_rng(0).standard_normal((32, 48), np.float32)


def classifier(*, extra: bool = False) -> onnx.ModelProto:
    """``softmax(relu(x w))``; with ``extra`` times a constant of 20 rows."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Softmax", ["r"], ["s"], axis=-1),
        helper.make_node("Mul", ["s", "c"] if extra else ["s", "one"], ["y"]),
    ]
    tensors = {"w": WEIGHT, "c": np.ones((20, 1), np.float32), "one": np.float32(1)}
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "seq", 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "seq", 48])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def x(batch: int, seq: int) -> Array:
    return np.random.default_rng(batch * 1000 + seq).standard_normal((batch, seq, 32), np.float32)


def want(array: Array) -> Array:
    scores = np.maximum(array @ WEIGHT, 0)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


SIZES = ((16, 16), (17, 40), (300, 16), (19, 129), (64, 64))


@pytest.mark.parametrize("threads", [1, 2])
def test_one_program_for_many_sizes(threads: int, compiled: list[str]) -> None:
    model = tessella.compile(classifier(), dims={}, threads=threads)
    for batch, seq in (*SIZES, *SIZES):
        array = x(batch, seq)
        np.testing.assert_allclose(model(array), want(array), rtol=1e-5, atol=1e-6)
    assert len(compiled) == 1
    assert model.explain().sizes == ["batch: open, from 16", "seq: open, from 16"]


def test_a_new_size_costs_little() -> None:
    """The program of a size comes from expressions alone. A hundred function calls take some 30 us;
    `bench.shapes` measures the times."""
    model = tessella.compile(classifier(), dims={})
    arrays = [x(16, seq) for seq in (50, 60, 70)]
    model(arrays[0])
    for array in arrays[1:]:
        first, later = (calls(lambda array=array: model(array)) for _ in range(2))
        assert first < 150
        assert later < 40


@pytest.mark.parametrize("target", [None, *RUNNABLE])
def test_programs_share_packed_weights(target: str | None) -> None:
    """Programs for few rows and for many read the same panels, also if the last panel is partial.
    Without `dims`, one row has panels of its own."""
    w = np.random.default_rng(0).standard_normal((64, 392), np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])
        for name, size in (("x", 64), ("y", 392))
    ]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [numpy_helper.from_array(w, "w")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    model = tessella.compile(proto, dims={}, target=target)
    for n in (1, 2, 7, 15, 16, 40):
        array = np.random.default_rng(n).standard_normal((n, 64), np.float32)
        np.testing.assert_allclose(model(array), array @ w, rtol=1e-4, atol=1e-4)
    programs = model._known_programs()
    found = {w.ctypes.data: w.nbytes for each in programs for w in each.all_weights()}
    assert len(programs) == 3
    assert sum(found.values()) < 1.2 * w.nbytes


def test_outputs_of_sizes_in_turn() -> None:
    """Each call has arrays of its own, of its shape, whatever sizes there were before."""
    model = tessella.compile(classifier(), dims={})
    found = [(each := x(*size), model(each)) for size in (*SIZES, *reversed(SIZES), *SIZES)]
    for array, y in found:
        np.testing.assert_allclose(y, want(array), rtol=1e-5, atol=1e-6)


def test_programs_ahead_of_calls(compiled: list[str]) -> None:
    model = tessella.compile(classifier(), dims={"batch": 1, "seq": (0, 40)})
    model.prepare()
    assert len(compiled) == 4
    for seq in range(41):
        array = x(1, seq)
        np.testing.assert_allclose(model(array), want(array), rtol=1e-5, atol=1e-6)
    assert len(compiled) == 4
    with pytest.raises(InputError, match="'seq' is out of its bounds"):
        model(x(1, 41))


def test_what_cannot_stay_open(compiled: list[str]) -> None:
    model = tessella.compile(classifier(extra=True), dims={"seq": (16, 64)})
    for batch in (16, 17):
        array = x(batch, 20)
        np.testing.assert_allclose(model(array), want(array), rtol=1e-5, atol=1e-6)
    assert len(compiled) == 1
    assert model.explain().sizes[0] == "batch: open, from 16"
    assert "seq: 20, as " in str(model.explain())


def test_an_artifact(tmp_path: Path) -> None:
    model = tessella.compile(classifier(), dims={"batch": 1, "seq": (2, 512)})
    model.prepare()
    model.save(tmp_path / "m.tsl")
    loaded = tessella.load(tmp_path / "m.tsl")
    for seq in (2, 15, 16, 33, 512):
        np.testing.assert_array_equal(loaded(x(1, seq)), model(x(1, seq)))
    for batch, seq in ((1, 1), (2, 16), (1, 513)):
        with pytest.raises(ShapeError, match="no program for these inputs"):
            loaded(x(batch, seq))
    assert loaded.explain().sizes == model.explain().sizes


def test_a_program_from_disk(
    compiled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path))
    data = classifier(extra=True).SerializeToString()
    for seq in (20, 20, 20):
        model = tessella.compile(data, dims={})
        np.testing.assert_allclose(model(x(16, seq)), want(x(16, seq)), rtol=1e-5, atol=1e-6)
    assert len(compiled) == 1  # and what could not stay open is not tried again


def test_a_profile() -> None:
    model = tessella.compile(classifier(), dims={}, threads=1)
    rows = [model.profile(x(16, seq), runs=3).rows for seq in (16, 160)]
    operations = [sum(row.operations or 0 for row in each) for each in rows]
    assert operations[1] == 10 * operations[0] > 0


def errors(found: Array, expected: Array) -> Array:
    """The largest error over the largest value, along the first dimension."""
    axes = tuple(range(1, expected.ndim))
    return np.abs(found - expected).max(axes) / np.abs(expected).max(axes)


BATCHES = (
    *("mobilenet_opset11", "efficientnet_b0", "convnext", "resnet50", "densenet121"),
    *("inception_v1", "shufflenet", "encoder_opset14", "gru_tagger", "lstm_tagger"),
)
"""Models that were exported for a batch of one, which serve any, one of each kind. In some others
the batch is part of other numbers: ONNX Runtime cannot run them either."""


RANGES = (3, 17)
"""A batch of each range that has its own program."""


@pytest.mark.parametrize(
    "name, batches",
    [
        ("two fires", RANGES),
        *(
            pytest.param(name, RANGES[i % 2 :][:1], marks=pytest.mark.slow)
            for i, name in enumerate(sorted(BATCHES))
        ),
    ],
)
def test_batches(name: str, batches: Sequence[int]) -> None:
    """A small model has both programs; the others take turns."""
    proto = with_open_batch(load_model(name))
    model = tessella.compile(proto, dims={})
    for batch in batches:
        feeds = random_inputs(proto, sizes={"batch": batch})
        pairs = zip(model.run(None, feeds), run_onnxruntime(proto, feeds), strict=True)
        for found, expected in pairs:
            wrong = errors(found, expected)
            assert np.median(wrong) < 1e-3
            assert wrong.max() < 0.1
        [told] = model.explain().sizes
        assert told.startswith("batch: open, from")


EXPORTED = ((2, 9, 4), (3, 40, 17), (1, 33, 20), (1, 1, 50))
"""Batch, length and length of the past, of their own programs."""


@pytest.mark.slow
@pytest.mark.parametrize("turn, name", [*enumerate(OPEN_FIXTURES)])
def test_exported_models(turn: int, name: str) -> None:
    """Open dimensions with several sizes, which take turns, against ONNX Runtime."""
    proto = load_fixture(name)
    model = tessella.compile(proto, dims={})
    for batch, seq, past in (*(EXPORTED * 2)[turn % 4 :][:2], (16, 16, 16)):
        feeds = random_inputs(proto, sizes={"batch": batch, "seq": seq, "past": past})
        found = model.run(None, feeds)
        for result, expected in zip(found, run_onnxruntime(proto, feeds), strict=True):
            wrong = errors(result, expected)
            # the gates of MobileNet magnify rounding in some images, as programs for one size do
            assert np.median(wrong) < 1e-3
            assert wrong.max() < 0.1
    assert all("open, from 16" in line for line in model.explain().sizes)


def test_short_memory_is_no_reason_for_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tessella.compile(classifier(), dims={})

    def fail(*_: object) -> None:
        raise ResourceError("there is not enough memory")

    with monkeypatch.context() as patched:
        patched.setattr("tessella.driver.build.compile_graph.compile_graph", fail)
        with pytest.raises(ResourceError):
            model(x(1, 20))
    np.testing.assert_allclose(model(x(1, 20)), want(x(1, 20)), rtol=1e-5, atol=1e-6)
    assert "seq: open, from 16" in model.explain().sizes
