"""Accuracy of trained networks in narrow numbers: the digits and the language model of `examples/`.

    python -m bench.accuracy [NAME ...] --json results.json

Some of the held-out data calibrates the quantised models, and the rest is measured: how many
digits, or next characters, get the highest probability, and the mean of ``-log2`` of the
probability of the right one, in bits. The table of docs/quantize.md has the figures.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import tessella
from bench.command import Command, show_machine, write_figures
from tessella.driver.model.model import Model
from tessella.targets import native
from tessella.targets.table import family_of
from tessella.tools.measure import Array

EXAMPLES = Path(__file__).parent.parent / "examples"
ALPHABET = "\n" + "".join(map(chr, range(32, 127)))
"""The language model's alphabet; other characters count as `?`."""

CALIBRATED = 40
"""Held-out samples that calibrate and are not measured."""

Sample = Mapping[str, Array]


@dataclass(frozen=True)
class Task:
    """A trained network, and held-out data."""

    model: Path
    samples: Sequence[Sample]
    wanted: Sequence[Array]
    """The correct classes of each sample."""


@dataclass(frozen=True)
class Row:
    """A network in a precision."""

    network: str
    precision: str
    right: float
    """The fraction of correct top-1 predictions."""
    bits: float
    """The mean of ``-log2`` of the probability of the correct class."""


def _digits() -> Task:
    with np.load(EXAMPLES / "digits" / "heldout.npz") as archive:
        images, labels = archive["images"], archive["labels"]
    samples = [{"image": image[None]} for image in images]
    path = EXAMPLES / "digits" / "digits.onnx"
    return Task(path, samples, list(labels[:, None]))


def _language() -> Task:
    text = (EXAMPLES / "language" / "heldout.txt").read_text()
    numbers = {character: i for i, character in enumerate(ALPHABET)}
    tokens = np.array([numbers.get(character, numbers["?"]) for character in text])
    path = EXAMPLES / "language" / "language.onnx"
    window = onnx.load(path).graph.input[0].type.tensor_type.shape.dim[1].dim_value
    starts = range(0, len(tokens) - window, window)
    samples = [{"characters": tokens[None, start : start + window]} for start in starts]
    wanted = [tokens[start + 1 : start + window + 1] for start in starts]
    return Task(path, samples, wanted)


TASKS: Mapping[str, Callable[[], Task]] = {"digits": cache(_digits), "language": cache(_language)}


def _quantized(task: Task, **settings: Any) -> Model:
    narrow = tessella.quantize(str(task.model), task.samples[:CALIBRATED], **settings)
    return tessella.compile(narrow.model, threads=1)


def _stored(task: Task, element: str) -> Model:
    """Store all tensors in 16 bits."""
    places = [f"{family_of(native()).name}/{element}"]
    return tessella.compile(str(task.model), places=places, threads=1)


PRECISIONS: Mapping[str, Callable[[Task], Model]] = {
    "f32": lambda task: tessella.compile(str(task.model), threads=1),
    "f16": partial(_stored, element="f16"),
    "bf16": partial(_stored, element="bf16"),
    "int8": _quantized,
    "int8, error budget 0.1": partial(_quantized, error_budget=0.1),
    "int8, one scale a weight": partial(_quantized, per_channel=False),
    "int8, dynamic": partial(_quantized, dynamic=True),
}


def measure(network: str, precision: str) -> Row:
    """Return the figures of a network in a precision."""
    task = TASKS[network]()
    model = PRECISIONS[precision](task)
    outputs = [model.run(None, sample)[0] for sample in task.samples[CALIBRATED:]]
    wanted = np.concatenate(task.wanted[CALIBRATED:])
    logits = np.concatenate(outputs).astype(np.float64).reshape(len(wanted), -1)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    logarithms = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    bits = -np.take_along_axis(logarithms, wanted[:, None], axis=-1).mean() / np.log(2)
    right = (logits.argmax(axis=-1) == wanted).mean()
    return Row(network, precision, float(right), float(bits))


def table(rows: Sequence[Row]) -> list[str]:
    """Return the figures as lines of Markdown, one for each precision."""
    networks = list(dict.fromkeys(row.network for row in rows))
    found = {(row.network, row.precision): row for row in rows}
    titles = (f"{name}: right | {name}: bits" for name in networks)
    lines = [f"| | {' | '.join(titles)} |", f"|---|{'---|---|' * len(networks)}"]
    for precision in dict.fromkeys(row.precision for row in rows):
        each = (found[name, precision] for name in networks)
        cells = (f"{row.right:.2%} | {row.bits:.4f}" for row in each)
        lines.append(f"| {precision} | {' | '.join(cells)} |")
    return lines


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Command("accuracy", "What trained networks lose in narrow numbers.")
    parser.add_names("network", TASKS)
    return parser.parse(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table as Markdown."""
    options = _parse(arguments)
    where = show_machine()
    rows = [measure(name, precision) for name in options.names for precision in PRECISIONS]
    print("", *table(rows), sep="\n")
    write_figures(options.json, where, rows=[asdict(row) for row in rows])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
