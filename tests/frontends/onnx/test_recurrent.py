"""Recurrent layers in all their variants, against ONNX Runtime."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import tessella
from tessella.driver.build.build import lower
from tessella.driver.options import make_options
from tessella.driver.stages.stage_file import save_stage
from tessella.frontends.onnx import OnnxSource
from tessella.support.errors import ShapeError
from tests.frontends.onnx.models import Array, model, run, value
from tests.models import run_onnxruntime

STEPS, BATCH, SIZE, HIDDEN = 5, 3, 4, 2
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
LSTM_INPUTS = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")


def arrays(op: str, directions: int, batch_first: bool) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    gates = GATES[op] * HIDDEN

    def draw(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    x, state = draw(STEPS, BATCH, SIZE), [draw(directions, BATCH, HIDDEN) for _ in range(2)]
    if batch_first:
        x, *state = (np.ascontiguousarray(a.swapaxes(0, 1)) for a in (x, *state))
    return {
        "X": x,
        "W": draw(directions, gates, SIZE),
        "R": draw(directions, gates, HIDDEN),
        "B": draw(directions, 2 * gates),
        "sequence_lens": np.array([5, 1, 3], np.int32),
        "initial_h": state[0],
        "initial_c": state[1],
        "P": draw(directions, 3 * HIDDEN),
    }


def compare(op: str, inputs: str, **attributes: Any) -> None:
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    feeds = arrays(op, directions, bool(attributes.get("layout")))
    names = [name if name in inputs.split() else "" for name in LSTM_INPUTS]
    while not names[-1]:
        names.pop()
    outputs = ["Y", "Y_h", "Y_c"][: 3 if op == "LSTM" else 2]
    node = helper.make_node(op, names, outputs, hidden_size=HIDDEN, **attributes)
    given = {name: feeds[name] for name in names if name}
    proto = model(
        [node],
        [value(name, array.shape, array.dtype) for name, array in given.items()],
        [value(name, [None] * (4 if name == "Y" else 3)) for name in outputs],
    )
    for found, expected in zip(run(proto, given), run_onnxruntime(proto, given), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, strict=True)


@pytest.mark.sweep
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("inputs", ["X W R", "X W R B sequence_lens initial_h"])
def test_directions(op: str, direction: str, inputs: str) -> None:
    compare(op, inputs, direction=direction)


def test_lstm_variants() -> None:
    everything = "X W R B sequence_lens initial_h initial_c P"
    compare("LSTM", everything, direction="bidirectional")
    compare("LSTM", "X W R B initial_h initial_c", clip=0.5)
    compare("LSTM", "X W R B", input_forget=1)
    names = ["Tanh", "HardSigmoid", "Affine"]
    compare(
        "LSTM", "X W R", activations=names, activation_alpha=[0.3, 0.5], activation_beta=[0.4, 0.1]
    )


def test_gru_variants() -> None:
    for flag in (0, 1):
        compare("GRU", "X W R B initial_h", direction="bidirectional", linear_before_reset=flag)
    compare("GRU", "X W R", activations=["Sigmoid", "Relu"])


def test_rnn_variants() -> None:
    compare("RNN", "X W R B", activations=["Relu"], clip=1.0)
    compare("RNN", "X W R", activations=["LeakyRelu", "Elu"], direction="bidirectional")


def tagger(op: str, steps: int, weights: Sequence[str] = ("W", "R", "B")) -> onnx.ModelProto:
    """A layer in both directions, with lengths; only one of the weights need be a constant."""
    feeds = arrays(op, 2, batch_first=False)
    names = [name if name in ("X", *weights, "sequence_lens") else "" for name in LSTM_INPUTS[:5]]
    node = helper.make_node(
        op, names, ["Y", "Y_h"], hidden_size=HIDDEN, direction="bidirectional", name="layer"
    )
    return model(
        [node],
        [value("X", (steps, BATCH, SIZE)), value("sequence_lens", (BATCH,), np.int32)],
        [value("Y", [None] * 4), value("Y_h", [None] * 3)],
        weights={name: feeds[name] for name in weights},
    )


@pytest.mark.parametrize("op", GATES)
def test_the_loop_is_native(op: str) -> None:
    proto, rng = tagger(op, 300), np.random.default_rng(1)
    feeds = {
        "X": rng.standard_normal((300, BATCH, SIZE)).astype(np.float32),
        "sequence_lens": np.array([300, 1, 150], np.int32),
    }
    compiled = tessella.compile(proto)
    found = compiled.run(None, feeds)
    for y, expected in zip(found, run_onnxruntime(proto, feeds), strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5, strict=True)
    kernels = [entry["kernel"] for entry in compiled.explain().ops]
    assert kernels.count("loop") == 2
    assert "host" not in kernels
    assert compiled.as_text("tile").count("tile.call") < 60


@pytest.mark.parametrize("place", ["x86/f16", "x86/bf16"])
def test_a_loop_around_ops_of_another_precision(place: str) -> None:
    """Carried values keep the element type of the model."""
    proto = tagger("GRU", STEPS)
    feeds = {name: arrays("GRU", 2, batch_first=False)[name] for name in ("X", "sequence_lens")}
    compiled = tessella.compile(proto, places=(place, "host"))
    found = compiled.run(None, feeds)
    for y, expected in zip(found, run_onnxruntime(proto, feeds), strict=True):
        np.testing.assert_allclose(y, expected, atol=0.1, strict=True)
    loops = [entry for entry in compiled.explain().ops if entry["op"] == "nn.scan"]
    assert [(loop["kernel"], loop["place"]) for loop in loops] == [("loop", "x86/f32/nchw")] * 2


@pytest.mark.parametrize("flag", [0, 1])
def test_what_does_not_change_is_prepared_before_the_loop(flag: int) -> None:
    """Weights that are inputs are cut and copied once, not in each step."""
    rng = np.random.default_rng(2)
    shapes = {"X": (40, 1, 24), "W": (1, 96, 24), "R": (1, 96, 32)}
    node = helper.make_node(
        "GRU", list(shapes), ["Y", "Y_h"], hidden_size=32, linear_before_reset=flag
    )
    inputs = [value(name, shape) for name, shape in shapes.items()]
    proto = model([node], inputs, [value("Y", [None] * 4), value("Y_h", [None] * 3)])
    feeds = {n: rng.standard_normal(s).astype(np.float32) / 4 for n, s in shapes.items()}
    compiled = tessella.compile(proto)
    found = compiled.run(None, feeds)
    for y, expected in zip(found, run_onnxruntime(proto, feeds), strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5, strict=True)
    text = compiled.as_text("tile")
    step = text[text.index("tile.segment @gru_step_0") : text.index("tile.segment @segment_0")]
    assert "relayout" not in step
    assert not re.search(r"tile.call @slice_\d+\(%R", step)


@pytest.mark.parametrize("op", GATES)
def test_hidden_size_is_that_of_the_weights(op: str) -> None:
    names = LSTM_INPUTS[:3]
    shapes = {name: arrays(op, 1, batch_first=False)[name].shape for name in names}
    node = helper.make_node(op, names, ["Y"], hidden_size=HIDDEN + 1)
    inputs = [value(name, shape) for name, shape in shapes.items()]
    with pytest.raises(ShapeError, match="hidden_size"):
        OnnxSource(model([node], inputs, [value("Y", [None] * 4)])).graph(shapes)


def test_sequences_are_as_long_as_they_are() -> None:
    shapes = {"X": (100_000, 1, 1), "W": (1, 1, 1), "R": (1, 1, 1)}
    node = helper.make_node("RNN", list(shapes), ["Y"], hidden_size=1)
    inputs = [value(name, shape) for name, shape in shapes.items()]
    proto = model([node], inputs, [value("Y", [None] * 4)])
    feeds = {name: np.full(shape, 0.5, np.float32) for name, shape in shapes.items()}
    (found,) = tessella.compile(proto).run(None, feeds)
    np.testing.assert_allclose(found, run_onnxruntime(proto, feeds)[0], rtol=1e-5)


@pytest.mark.sweep
@pytest.mark.parametrize("stage", ["nn", "placed", "tile", "loops"])
def test_a_stage_file_gives_the_same(stage: str, tmp_path: Path) -> None:
    proto = tagger("GRU", STEPS)
    feeds = {name: arrays("GRU", 2, batch_first=False)[name] for name in ("X", "sequence_lens")}
    expected = tessella.compile(proto).run(None, feeds)
    graph = OnnxSource(proto).graph({name: array.shape for name, array in feeds.items()})
    if stage != "nn":
        graph.module = lower(graph, make_options(), stop=stage).stages[stage]
    save_stage(tmp_path / f"m.{stage}", graph.module, graph.weights)
    found = tessella.compile(tmp_path / f"m.{stage}").run(None, feeds)
    for y, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(y, wanted)
