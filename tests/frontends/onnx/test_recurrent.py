"""Recurrent layers in all their variants, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tessella.frontends.onnx import OnnxSource
from tessella.support.errors import UnsupportedError
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


def test_long_sequences_are_refused() -> None:
    shapes = {"X": (100_000, 1, 1), "W": (1, 1, 1), "R": (1, 1, 1)}
    node = helper.make_node("RNN", list(shapes), ["Y"], hidden_size=1)
    inputs = [value(name, shape) for name, shape in shapes.items()]
    with pytest.raises(UnsupportedError, match="100000 steps"):
        OnnxSource(model([node], inputs, [value("Y", [None] * 4)])).graph(shapes)
