"""Unlabelled digits in ten clusters, by k-means: each round is a call of a compiled function.

    python examples/clusters/digits.py [FILE.svg]

A round finds the nearest centre of each image by one product of matrices, and moves the centres to
the means of their images by a segment operation.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tessella as ts
from tessella import jit

sys.path.insert(0, str(Path(__file__).parents[1]))
from drawing import Drawing

DIGITS = Path(__file__).parent.parent / "digits" / "heldout.npz"
CLUSTERS, ROUNDS = 10, 20

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


@jit
def nearest(images: Any, centres: Any) -> Any:
    """The number of the centre that is nearest to each image."""
    return ((centres * centres).sum(axis=-1) - 2.0 * (images @ centres.T)).argmin(axis=-1)


@jit
def moved(images: Any, centres: Any) -> Any:
    """The means of the images of each centre."""
    return ts.segment_mean(images, nearest(images, centres), CLUSTERS)


def clusters(images: Images) -> tuple[Images, Labels]:
    """The centres, and the cluster of each image."""
    centres = images[:: len(images) // CLUSTERS][:CLUSTERS]
    for _ in range(ROUNDS):
        centres = moved(images, centres)
    return centres, nearest(images, centres)


def main() -> None:
    """Draw the centres, each with the digit of most of its images and their number."""
    with np.load(DIGITS) as archive:
        images, labels = archive["images"].reshape(-1, 64), archive["labels"]
    centres, found = clusters(images)
    drawing, right = Drawing(10 + 74 * CLUSTERS, 112), 0
    for number, centre in enumerate(centres):
        counts = np.bincount(labels[found == number], minlength=10)
        digit, x = int(counts.argmax()), 10 + 74 * number
        drawing.squares(centre.reshape(8, 8), x, 10, 8)
        drawing.text(str(digit), x + 32, 90, size=14, anchor="middle")
        drawing.text(f"{counts[digit]} of {counts.sum()}", x + 32, 105, size=10, anchor="middle")
        right += counts[digit]
    print(f"{right} of {len(labels)} images are in a cluster of their digit")
    drawing.save(*sys.argv[1:])


if __name__ == "__main__":
    main()
