"""`examples/language`: its gradients, and that the file computes what the network does."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import tessella
from bench.accuracy import ALPHABET
from tests.models import run_onnxruntime

EXAMPLE = Path(__file__).parents[2] / "examples" / "language"


@pytest.fixture(scope="module")
def train() -> Any:
    """The module train.py."""
    spec = importlib.util.spec_from_file_location("language_train", EXAMPLE / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_gradients_are_those_of_differences(train: Any) -> None:
    network = train.Network()
    network.weights = {name: w.astype(np.float64) for name, w in network.weights.items()}
    network.gradients = {name: np.zeros_like(w) for name, w in network.weights.items()}
    rng = np.random.default_rng(0)
    tokens, wanted = rng.integers(0, len(ALPHABET), (2, 2, train.WINDOW))
    network.loss(tokens, wanted)
    gradients = {name: gradient.copy() for name, gradient in network.gradients.items()}
    for name, weight in network.weights.items():
        at = (tokens[0, 3], 5) if name == "tokens" else tuple(rng.integers(0, weight.shape))
        before, losses = weight[at], []
        for step in (1e-5, -1e-5):
            weight[at] = before + step
            losses.append(network.loss(tokens, wanted))
        weight[at] = before
        slope = (losses[0] - losses[1]) / 2e-5
        assert gradients[name][at] == pytest.approx(slope, rel=1e-3, abs=1e-8), name


def test_training_lowers_the_loss_and_the_file_computes_the_same(
    train: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    network, text = train.Network(), train.encoded("the quick brown fox. " * 40)
    tokens, wanted = next(train.batches(text, 1))
    before = network.loss(tokens, wanted)
    train.train(network, text, 60)
    assert network.loss(tokens, wanted) < 0.7 * before
    (logits,) = run_onnxruntime(train.exported(network.weights), {"characters": tokens[:1]})
    shifted = logits - logits.max(axis=-1, keepdims=True)
    chances = np.exp(shifted) / np.exp(shifted).sum(axis=-1, keepdims=True)
    right = np.take_along_axis(chances, wanted[:1, :, None], axis=-1)
    assert -np.log(right).mean() == pytest.approx(network.loss(tokens[:1], wanted[:1]), rel=1e-3)


def test_the_file_is_small_and_runs(train: Any) -> None:
    path = EXAMPLE / "language.onnx"
    assert path.stat().st_size < 300_000
    assert train.ALPHABET == ALPHABET
    feeds = {
        "characters": train.encoded((EXAMPLE / "heldout.txt").read_text())[None, : train.WINDOW]
    }
    (expected,) = run_onnxruntime(onnx.load(path), feeds)
    np.testing.assert_allclose(tessella.compile(path)(feeds["characters"]), expected, atol=1e-3)
