"""Digits, read by their nearest neighbours: a function on NumPy arrays that tessella compiles.

    python examples/jit/neighbours.py

Half of the images are known, and the others get the digit of most of the five nearest ones. The
first call compiles; `lower` shows what it compiled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import tessella as ts
from tessella import jit

DIGITS = Path(__file__).parent.parent / "digits" / "heldout.npz"
NEAREST = 5


@jit
def votes(images: Any, known: Any, digits: Any) -> Any:
    """The votes for each digit: ``digits`` has a row for each known image, with a one at its
    digit."""
    distances = (known * known).sum(axis=-1) - 2.0 * (images @ known.T)
    nearest = ts.argsort(distances, axis=-1)[:, :NEAREST]
    return ts.take(digits, nearest, axis=0).sum(axis=1)


def main() -> None:
    """Print how many of the unknown images are read right."""
    data = np.load(DIGITS)
    images = data["images"].reshape(len(data["images"]), -1).astype(np.float32)
    labels = data["labels"]
    half = len(images) // 2
    ones = np.eye(10, dtype=np.float32)[labels[:half]]
    found = votes(images[half:], images[:half], ones).argmax(axis=-1)
    right = (found == labels[half:]).mean()
    print(f"{right:.1%} of {len(found)} digits are right")


if __name__ == "__main__":
    main()
