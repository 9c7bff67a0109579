"""The edges of a digit, by a kernel in index notation.

    python examples/tile/edges.py [FILE.svg]

The Tile program sums products of pixels and weights over the window of each pixel: for changes to
the right, and for changes downwards. Indices outside the image take no part.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

import tessella

sys.path.insert(0, str(Path(__file__).parents[1]))
from drawing import Drawing

DIGITS = Path(__file__).parent.parent / "digits" / "heldout.npz"
SHADES = " .:-=+*#%@"

edges = tessella.tile("""
    function (P[Y, X], W[I, J]) -> (E) {
        H[y, x : Y, X] = +(P[y + i - 1, x + j - 1] * W[i, j]);
        V[y, x : Y, X] = +(P[y + i - 1, x + j - 1] * W[j, i]);
        E = sqrt(H * H + V * V);
    }
""")
SOBEL = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.float32) / 8


def drawn(image: npt.NDArray[np.float32]) -> list[str]:
    """The rows of an image, two characters for each pixel."""
    steps = (image / image.max() * (len(SHADES) - 1)).astype(int)
    return ["".join(SHADES[step] * 2 for step in row) for row in steps]


def main() -> None:
    """Print a digit and its edges beside it, and draw some more."""
    images = np.kron(np.load(DIGITS)["images"][:6, 0], np.ones((1, 2, 2), np.float32))
    found = [edges(image, SOBEL) for image in images]
    for left, right in zip(drawn(images[0]), drawn(found[0]), strict=True):
        print(f"{left}   {right}")
    drawing = Drawing(10 + 106 * len(images), 222)
    for number, (image, edge) in enumerate(zip(images, found, strict=True)):
        drawing.squares(image, 10 + 106 * number, 10, 6)
        drawing.squares(edge / edge.max(), 10 + 106 * number, 116, 6)
    drawing.save(*sys.argv[1:])


if __name__ == "__main__":
    main()
