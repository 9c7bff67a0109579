"""The edges of a digit, by a kernel in index notation.

    python examples/tile/edges.py

The Tile program sums products of pixels and weights over the window of each pixel: for changes to
the right, and for changes downwards. Indices outside the image take no part.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

import tessella

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
    """Print a digit, and its edges beside it."""
    image = np.load(DIGITS)["images"][0].reshape(8, 8).astype(np.float32)
    large = np.kron(image, np.ones((2, 2), np.float32))
    for left, right in zip(drawn(large), drawn(edges(large, SOBEL)), strict=True):
        print(f"{left}   {right}")


if __name__ == "__main__":
    main()
