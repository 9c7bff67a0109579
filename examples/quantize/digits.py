"""A network in 8 bits: how many digits it still reads, and the error of each op.

    python examples/quantize/digits.py [FILE.svg]

The ranges of activations are those of some of the images. The others are read by both networks.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

import tessella
from tessella.runtime.model import CallableModel

sys.path.insert(0, str(Path(__file__).parents[1]))
from drawing import INK, Drawing

DIGITS = Path(__file__).parent.parent / "digits"
SAMPLES = 40
SCALE = 9000
"""Pixels of an error of 1."""
LATER = "#8aa9cf"


def right(model: CallableModel, images: npt.NDArray[np.float32], labels: list[int]) -> int:
    """The number of images that a model reads right."""
    return sum(int(model(x[None]).argmax()) == y for x, y in zip(images, labels, strict=True))


def main() -> None:
    """Print how many digits each network reads, and draw the errors of the one in 8 bits."""
    with np.load(DIGITS / "heldout.npz") as archive:
        images, labels = archive["images"], archive["labels"].tolist()
    samples = [{"image": image[None]} for image in images[:SAMPLES]]
    quantized = tessella.quantize(DIGITS / "digits.onnx", samples)
    networks = {"f32": DIGITS / "digits.onnx", "int8": quantized.model}
    unseen = images[SAMPLES:], labels[SAMPLES:]
    for name, network in networks.items():
        print(f"{name:4} reads {right(tessella.compile(network), *unseen)} of {len(unseen[1])}")
    rows = [row for row in quantized.report(threads=1).rows if row.own_error is not None]
    drawing = Drawing(560, 44 + 34 * len(rows))
    drawing.text("error of each op in 8 bits: alone, and with the errors of all before it", 10, 20)
    for number, row in enumerate(rows):
        y = 40 + 34 * number
        drawing.text(f"{row.op} {row.node}", 210, y + 14, size=11, anchor="end")
        for error, colour, top in ((row.own_error, INK, y), (row.error, LATER, y + 11)):
            drawing.bar(220, top, SCALE * (error or 0), 9, colour=colour)
            drawing.text(f"{error or 0:.1%}", 226 + SCALE * (error or 0), top + 8, size=9)
    drawing.save(*sys.argv[1:])


if __name__ == "__main__":
    main()
