"""Compile a network that reads handwritten digits, run it, and show what the compiler decided.

    python examples/digits/demo.py [FILE.svg]

The picture counts how often each digit is read as each other one. The program needs onnx (for the
reference) and rich (for what it prints) besides tessella.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx.reference import ReferenceEvaluator
from rich.columns import Columns
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

import tessella

sys.path.insert(0, str(Path(__file__).parents[1]))
from drawing import INK, WRONG, Drawing

HERE = Path(__file__).parent
MODEL = HERE / "digits.onnx"
SHOWN = 8

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]

# Linear interpolation from 8 points to 16.
_ENLARGE: npt.NDArray[np.float64] = np.stack(
    [np.interp(np.linspace(0, 7, 16), np.arange(8), row) for row in np.eye(8)], axis=1
)


def main() -> None:
    """Compile, classify, check against the ONNX reference, explain, draw."""
    console = Console()
    images, labels = _held_out()
    console.print(f"[bold]{MODEL.name}[/], and {len(labels)} digits it has not seen in training\n")
    with _stage(console, "Compile"):
        model = tessella.compile(MODEL)
    with _stage(console, f"Classify {len(labels)} digits"):
        logits, seconds = _classify(model, model.get_inputs()[0].name, images)
    with _stage(console, f"Classify {len(labels)} digits with onnx.reference"):
        reference = ReferenceEvaluator(str(MODEL))
        expected, _ = _classify(reference, str(reference.input_names[0]), images)
    console.print()
    console.print(_results(logits, expected, labels, seconds))
    console.print(_kernels(model.explain().ops))
    console.print(_drawings(images, logits.argmax(axis=1), labels))
    _confusion(logits.argmax(axis=1), labels).save(*sys.argv[1:])


def _held_out() -> tuple[Images, Labels]:
    """Images, float32 [N, 1, 8, 8], from 0 to 1; what they show, int64 [N]."""
    with np.load(HERE / "heldout.npz") as archive:
        return archive["images"], archive["labels"]


@contextmanager
def _stage(console: Console, title: str) -> Generator[None]:
    """A spinner while the body runs; then a line with the time that it took."""
    start = time.perf_counter()
    with console.status(f"{title} ..."):
        yield
    console.print(f"[green]✓[/] {title}  [dim]{time.perf_counter() - start:.2f} s[/]")


def _classify(model: Any, name: str, images: Images) -> tuple[Images, float]:
    """Logits of all images, one call each, float32 [N, 10]; the median time of a call, seconds.

    ``model`` is a compiled model or a ReferenceEvaluator: both run as ONNX Runtime does.
    """
    logits: list[Images] = []
    seconds: list[float] = []
    for i in range(len(images)):
        image = images[i : i + 1]
        start = time.perf_counter()
        [output] = model.run(None, {name: image})
        seconds.append(time.perf_counter() - start)
        logits.append(output)
    return np.concatenate(logits), float(np.median(seconds))


def _results(logits: Images, expected: Images, labels: Labels, seconds: float) -> Table:
    """Accuracy of tessella and of the reference, how far they differ, and the time of a call."""
    table = Table.grid(padding=(0, 2))
    ours, theirs = (float(np.mean(y.argmax(axis=1) == labels)) for y in (logits, expected))
    table.add_row("accuracy", f"[bold]{ours:.1%}[/] of {len(labels)}")
    table.add_row("accuracy of onnx.reference", f"{theirs:.1%} of {len(labels)}")
    table.add_row("largest difference of a logit", f"{np.abs(logits - expected).max():.1e}")
    table.add_row("time of a call (median)", f"[bold]{seconds * 1e6:.1f} µs[/]")
    return table


def _kernels(ops: Sequence[Mapping[str, object]]) -> Table:
    """Which kernel computes each op, and where its result lives."""
    table = Table(title="What was compiled", title_justify="left", title_style="bold")
    for column in ("op", "node", "kernel", "place"):
        table.add_column(column, overflow="fold")
    for op in ops:
        table.add_row(*(str(op[key]) for key in ("op", "node", "kernel", "place")))
    return table


def _drawings(images: Images, answers: Labels, labels: Labels) -> Columns:
    """A few digits with their answers: wrong ones first."""
    order = np.argsort(answers == labels, kind="stable")[:SHOWN].tolist()
    drawings = [_drawing(images[i, 0], int(answers[i]), int(labels[i])) for i in order]
    return Columns(drawings, padding=(1, 4))


def _drawing(image: Images, answer: int, label: int) -> Group:
    """One image, float32 [8, 8], drawn with 16x16 half blocks, above what it was read as."""
    enlarged = _ENLARGE @ image @ np.transpose(_ENLARGE)
    ink: list[list[bool]] = np.greater(enlarged, 0.5).tolist()
    rows = (
        "".join(" ▄▀█"[2 * upper + lower] for upper, lower in zip(*pair, strict=True))
        for pair in zip(ink[::2], ink[1::2], strict=True)
    )
    if answer == label:
        return Group(*rows, Text(f"read {answer}", style="green"))
    return Group(*rows, Text(f"read {answer}, is {label}", style="red"))


def _confusion(answers: Labels, labels: Labels) -> Drawing:
    """Draw the confusion matrix: rows are labels, columns are answers."""
    drawing = Drawing(300, 300)
    counts = np.zeros((10, 10), int)
    np.add.at(counts, (labels, answers), 1)
    drawing.squares(0.5 * counts / counts.max(), 40, 40, 24)
    drawing.text("read as", 160, 16, anchor="middle")
    for digit in range(10):
        drawing.text(str(digit), 52 + 24 * digit, 34, anchor="middle")
        drawing.text(str(digit), 30, 57 + 24 * digit, anchor="end")
    for label, answer in np.argwhere(counts):
        colour = INK if label == answer else WRONG
        x, y = 52 + 24 * answer, 56 + 24 * label
        drawing.text(str(counts[label, answer]), x, y, size=11, colour=colour, anchor="middle")
    return drawing


if __name__ == "__main__":
    main()
