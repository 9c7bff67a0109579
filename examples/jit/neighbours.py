"""Digits, read by their nearest neighbours: a function on NumPy arrays that tessella compiles.

    python examples/jit/neighbours.py [FILE.svg]

Half of the images are known, and the others get the digit of most of the five nearest ones. The
first call compiles; `lower` shows the program. The picture has the images whose neighbours disagree
most.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import tessella as ts
from tessella import jit

sys.path.insert(0, str(Path(__file__).parents[1]))
from drawing import INK, WRONG, Drawing

DIGITS = Path(__file__).parent.parent / "digits" / "heldout.npz"
NEAREST, SHOWN = 5, 5


@jit
def votes(images: Any, known: Any, digits: Any) -> Any:
    """The votes for each digit, and the nearest images: ``digits`` has a row for each known image,
    with a one at its digit."""
    distances = (known * known).sum(axis=-1) - 2.0 * (images @ known.T)
    nearest = ts.argsort(distances, axis=-1)[:, :NEAREST]
    return ts.take(digits, nearest, axis=0).sum(axis=1), nearest


def main() -> None:
    """Print how many of the unknown images are read right, and draw the least certain ones."""
    with np.load(DIGITS) as data:
        images, labels = data["images"].reshape(-1, 64), data["labels"]
    half = len(images) // 2
    ones = np.eye(10, dtype=np.float32)[labels[:half]]
    found, nearest = votes(images[half:], images[:half], ones)
    read = found.argmax(axis=-1)
    right = (read == labels[half:]).mean()
    print(f"{right:.1%} of {len(found)} digits are right")
    drawing = Drawing(10 + 78 * (NEAREST + 1) + 20, 10 + 88 * SHOWN)
    for row, at in enumerate(found.max(axis=-1).argsort(kind="stable")[:SHOWN]):
        digits = [read[at], *labels[nearest[at]]]
        for column, image in enumerate([half + at, *nearest[at]]):
            x, y = 10 + 78 * column + 20 * (column > 0), 10 + 88 * row
            colour = INK if digits[column] == labels[half + at] else WRONG
            drawing.squares(images[image].reshape(8, 8), x, y, 8)
            drawing.text(str(digits[column]), x + 32, y + 79, colour=colour, anchor="middle")
    drawing.save(*sys.argv[1:])


if __name__ == "__main__":
    main()
