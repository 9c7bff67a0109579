"""Train a small language model on the pages of `docs/`, character by character, in NumPy, and write
``language.onnx``.

The file is already here; this takes some minutes on two cores:

    python examples/language/train.py --steps 4000

It is a transformer of two layers, 48 wide, on windows of 64 characters. ``heldout.txt`` is a page
that it does not see: the pages of today may differ from those that the model was trained on.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Floats = npt.NDArray[np.float32]
Tokens = npt.NDArray[np.int64]
Back = Callable[[Floats], Floats]
"""From the gradient of a result to that of its operand; gradients of weights are added up."""

HERE = Path(__file__).parent
DOCS = HERE.parent.parent / "docs"
HELD_OUT = HERE / "heldout.txt"
UNSEEN = "picking.md"
"""The page that ``heldout.txt`` is from."""

ALPHABET = "\n" + "".join(map(chr, range(32, 127)))
WINDOW, WIDTH, HEADS, LAYERS = 64, 48, 4, 2
BATCH, RATE, EPSILON = 32, 3e-3, 1e-5
MASK = np.where(np.tri(WINDOW, dtype=np.bool_), 0, -1e4).astype(np.float32)
SCALE = 1 / math.sqrt(WIDTH / HEADS)


def encoded(text: str) -> Tokens:
    """The numbers of characters; those that the alphabet lacks count as `?`."""
    numbers = {character: i for i, character in enumerate(ALPHABET)}
    return np.array([numbers.get(character, numbers["?"]) for character in text])


# ** the network, forwards and backwards **


class Network:
    """Weights by name, and their gradients."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.weights: dict[str, Floats] = {}
        for name, shape in _shapes().items():
            fan_in = shape[0] if len(shape) == 2 else 1
            spread = 0.02 if name in ("tokens", "positions") else 1 / math.sqrt(fan_in)
            values = rng.standard_normal(shape) * spread if len(shape) == 2 else np.zeros(shape)
            values = np.ones(shape) if name.endswith("scale") else values
            self.weights[name] = values.astype(np.float32)
        self.gradients = {name: np.zeros_like(w) for name, w in self.weights.items()}

    def loss(self, tokens: Tokens, wanted: Tokens) -> float:
        """The mean cross entropy, in nats; the gradients are those of it."""
        for gradient in self.gradients.values():
            gradient.fill(0)
        logits, back = self._logits(tokens)
        shifted = logits - logits.max(axis=-1, keepdims=True)
        chances = np.exp(shifted)
        chances /= chances.sum(axis=-1, keepdims=True)
        right = np.take_along_axis(chances, wanted[..., None], axis=-1)
        np.put_along_axis(chances, wanted[..., None], right - 1, axis=-1)
        back(chances / wanted.size)
        return float(-np.log(right).mean())

    def _logits(self, tokens: Tokens) -> tuple[Floats, Callable[[Floats], None]]:
        x = self.weights["tokens"][tokens] + self.weights["positions"]
        backs: list[Back] = []
        for i in range(LAYERS):
            for step in (self._attend, self._think):
                x, back = step(f"{i}", x)
                backs.append(back)
        x, back = self._norm("last", x)
        logits, from_logits = self._linear("head", x)
        backs += [back, from_logits]

        def all_back(dy: Floats) -> None:
            for each in reversed(backs):
                dy = each(dy)
            np.add.at(self.gradients["tokens"], tokens, dy)
            self.gradients["positions"] += dy.sum(axis=0)

        return logits, all_back

    def _linear(self, name: str, x: Floats) -> tuple[Floats, Back]:
        w = self.weights[f"{name}.weight"]

        def back(dy: Floats) -> Floats:
            rows = dy.reshape(-1, dy.shape[-1])
            self.gradients[f"{name}.weight"] += x.reshape(-1, x.shape[-1]).T @ rows
            self.gradients[f"{name}.bias"] += rows.sum(axis=0)
            return dy @ w.T

        return x @ w + self.weights[f"{name}.bias"], back

    def _norm(self, name: str, x: Floats) -> tuple[Floats, Back]:
        """Layer normalization."""
        scale, shift = self.weights[f"{name}.scale"], self.weights[f"{name}.shift"]
        centred = x - x.mean(axis=-1, keepdims=True)
        root = np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + np.float32(EPSILON))
        unit = centred / root

        def back(dy: Floats) -> Floats:
            self.gradients[f"{name}.scale"] += (dy * unit).sum(axis=(0, 1))
            self.gradients[f"{name}.shift"] += dy.sum(axis=(0, 1))
            dunit = dy * scale
            dunit -= dunit.mean(axis=-1, keepdims=True)
            return (dunit - unit * (dunit * unit).mean(axis=-1, keepdims=True)) / root

        return unit * scale + shift, back

    def _think(self, layer: str, x: Floats) -> tuple[Floats, Back]:
        """The residual block of two products."""
        normed, from_norm = self._norm(f"{layer}.norm2", x)
        wide, from_wide = self._linear(f"{layer}.wide", normed)
        y, from_narrow = self._linear(f"{layer}.narrow", np.maximum(wide, 0))

        def back(dy: Floats) -> Floats:
            return dy + from_norm(from_wide(from_narrow(dy) * (wide > 0)))

        return x + y, back

    def _attend(self, layer: str, x: Floats) -> tuple[Floats, Back]:
        """The residual block of causal attention."""
        normed, from_norm = self._norm(f"{layer}.norm1", x)
        packed, from_packed = self._linear(f"{layer}.qkv", normed)
        q, k, v = map(_split, np.split(packed, 3, axis=-1))
        scores = q @ k.swapaxes(-1, -2) * np.float32(SCALE) + MASK
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        y, from_out = self._linear(f"{layer}.out", _join(weights @ v))

        def back(dy: Floats) -> Floats:
            heads = _split(from_out(dy))
            dv, dweights = weights.swapaxes(-1, -2) @ heads, heads @ v.swapaxes(-1, -2)
            mean = (dweights * weights).sum(axis=-1, keepdims=True)
            dscores = weights * (dweights - mean) * np.float32(SCALE)
            parts = dscores @ k, dscores.swapaxes(-1, -2) @ q, dv
            return dy + from_norm(from_packed(np.concatenate([*map(_join, parts)], axis=-1)))

        return x + y, back


def _shapes() -> dict[str, tuple[int, ...]]:
    """The shapes of all weights, by name."""
    products = {"head": (WIDTH, len(ALPHABET))}
    norms = ["last"]
    for i in range(LAYERS):
        products |= {f"{i}.qkv": (WIDTH, 3 * WIDTH), f"{i}.out": (WIDTH, WIDTH)}
        products |= {f"{i}.wide": (WIDTH, 4 * WIDTH), f"{i}.narrow": (4 * WIDTH, WIDTH)}
        norms += [f"{i}.norm1", f"{i}.norm2"]
    return {
        "tokens": (len(ALPHABET), WIDTH),
        "positions": (WINDOW, WIDTH),
        **{f"{name}.weight": shape for name, shape in products.items()},
        **{f"{name}.bias": shape[1:] for name, shape in products.items()},
        **{f"{name}.{part}": (WIDTH,) for name in norms for part in ("scale", "shift")},
    }


def _split(x: Floats) -> Floats:
    """[batch, window, width] -> [batch, heads, window, width of a head]"""
    return x.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2)


def _join(x: Floats) -> Floats:
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


# ** training **


def batches(text: Tokens, steps: int, seed: int = 0) -> Iterator[tuple[Tokens, Tokens]]:
    """Windows at random places, and the characters that follow each of theirs."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        starts = rng.integers(0, len(text) - WINDOW - 1, BATCH)
        windows = text[starts[:, None] + np.arange(WINDOW + 1)]
        yield windows[:, :-1], windows[:, 1:]


def train(network: Network, text: Tokens, steps: int) -> None:
    """Adam, with a rate that rises for 100 steps and then falls to 0."""
    means = {name: np.zeros_like(w) for name, w in network.weights.items()}
    squares = {name: np.zeros_like(w) for name, w in network.weights.items()}
    begun, smooth = time.perf_counter(), math.log(len(ALPHABET))
    for step, (tokens, wanted) in enumerate(batches(text, steps), 1):
        smooth += (network.loss(tokens, wanted) - smooth) / min(step, 50)
        rate = RATE * min(1, step / 100) * (1 + math.cos(math.pi * step / steps)) / 2
        for name, weight in network.weights.items():
            gradient = network.gradients[name]
            means[name] += 0.1 * (gradient - means[name])
            squares[name] += 0.01 * (np.square(gradient) - squares[name])
            corrected = squares[name] / (1 - 0.99**step)
            weight -= rate / (1 - 0.9**step) * means[name] / (np.sqrt(corrected) + 1e-8)
        if step % 250 == 0:
            elapsed = time.perf_counter() - begun
            print(
                f"{step}: {smooth / math.log(2):.3f} bits a character, {elapsed:.0f} s", flush=True
            )


# ** the file **


class _Graph:
    """Nodes of the ONNX model; each method appends some and returns the name of their value."""

    def __init__(self, weights: Mapping[str, Floats]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants = [numpy_helper.from_array(w, name) for name, w in weights.items()]

    def node(self, op: str, *operands: str, name: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, list(operands), [name], name, **attributes))
        return name

    def constant(self, name: str, values: npt.ArrayLike) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def linear(self, name: str, x: str) -> str:
        product = self.node("MatMul", x, f"{name}.weight", name=f"{name}/product")
        return self.node("Add", product, f"{name}.bias", name=name)

    def norm(self, name: str, x: str) -> str:
        operands = (x, f"{name}.scale", f"{name}.shift")
        return self.node("LayerNormalization", *operands, name=name, axis=-1, epsilon=EPSILON)

    def heads(self, name: str, x: str, perm: list[int]) -> str:
        shaped = self.node("Reshape", x, "split", name=f"{name}/shaped")
        return self.node("Transpose", shaped, name=name, perm=perm)

    def attention(self, layer: str, x: str) -> str:
        packed = self.linear(f"{layer}.qkv", self.norm(f"{layer}.norm1", x))
        parts = [f"{layer}.{part}" for part in "qkv"]
        self.nodes.append(helper.make_node("Split", [packed], parts, axis=-1, num_outputs=3))
        perms = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        q, k, v = (self.heads(f"{p}/heads", p, perm) for p, perm in zip(parts, perms, strict=True))
        scores = self.node("MatMul", q, k, name=f"{layer}.scores")
        scaled = self.node("Mul", scores, "scale", name=f"{layer}.scaled")
        masked = self.node("Add", scaled, "mask", name=f"{layer}.masked")
        weights = self.node("Softmax", masked, name=f"{layer}.weights", axis=-1)
        mixed = self.node("MatMul", weights, v, name=f"{layer}.mixed")
        joined = self.node("Transpose", mixed, name=f"{layer}.joined", perm=[0, 2, 1, 3])
        flat = self.node("Reshape", joined, "join", name=f"{layer}.flat")
        return self.node("Add", x, self.linear(f"{layer}.out", flat), name=f"{layer}.attended")

    def block(self, layer: str, x: str) -> str:
        x = self.attention(layer, x)
        wide = self.linear(f"{layer}.wide", self.norm(f"{layer}.norm2", x))
        y = self.linear(f"{layer}.narrow", self.node("Relu", wide, name=f"{layer}.relu"))
        return self.node("Add", x, y, name=f"{layer}.done")


def exported(weights: Mapping[str, Floats]) -> onnx.ModelProto:
    """int64 [1, window] to logits, float32 [1, window, characters]."""
    graph = _Graph(weights)
    graph.constant("split", np.array([1, WINDOW, HEADS, WIDTH // HEADS]))
    graph.constant("join", np.array([1, WINDOW, WIDTH]))
    graph.constant("scale", np.float32(SCALE))
    graph.constant("mask", MASK)
    x = graph.node("Gather", "tokens", "characters", name="embedded")
    x = graph.node("Add", x, "positions", name="placed")
    for i in range(LAYERS):
        x = graph.block(f"{i}", x)
    logits = graph.linear("head", graph.norm("last", x))
    characters = helper.make_tensor_value_info("characters", TensorProto.INT64, [1, WINDOW])
    shape = [1, WINDOW, len(ALPHABET)]
    output = helper.make_tensor_value_info(logits, TensorProto.FLOAT, shape)
    made = helper.make_graph(graph.nodes, "language", [characters], [output], graph.constants)
    opsets = [helper.make_opsetid("", 18)]
    model = helper.make_model(made, opset_imports=opsets, ir_version=8, producer_name="tessella")
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    """Train, and write the model."""
    parser = argparse.ArgumentParser(description="Train a language model on the documentation.")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("-o", dest="output", type=Path, default=HERE / "language.onnx")
    options = parser.parse_args()
    pages = [page for page in sorted(DOCS.glob("*.md")) if page.name != UNSEEN]
    network = Network()
    train(network, encoded("\n".join(page.read_text() for page in pages)), options.steps)
    options.output.write_bytes(exported(network.weights).SerializeToString())


if __name__ == "__main__":
    main()
