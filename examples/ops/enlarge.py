"""A small image enlarged by single ops: each call compiles its op once, and runs it.

    python examples/ops/enlarge.py [FILE.svg]

`tessella.ops` has each op of the compiler as a function of arrays, without a model and without
`jit`. Here, `resize` interpolates pixels, `sub` and `relu` remove light grey, and `mul` and `min`
raise the contrast.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tessella import ops

sys.path.insert(0, str(Path(__file__).parents[1]))
from drawing import Drawing

DIGITS = Path(__file__).parent.parent / "digits" / "heldout.npz"
FACTOR, GREY, CONTRAST = 4, np.float32(0.35), np.float32(4)

Image = npt.NDArray[np.float32]


def enlarged(image: Image) -> Image:
    """An image with FACTOR times as many rows and columns, interpolated."""
    sizes = tuple(FACTOR * size for size in image.shape)
    return np.asarray(ops.resize(image, sizes=sizes, scales=(FACTOR, FACTOR), mode="linear"))


def sharpened(image: Image) -> Image:
    """An image in black and white, with a narrow grey edge."""
    dark = ops.relu(ops.sub(image, GREY))
    return np.asarray(ops.min(ops.mul(dark, CONTRAST), np.float32(1)))


def main() -> None:
    """Draw some digits, each enlarged and sharpened."""
    images = np.load(DIGITS)["images"][:3, 0]
    drawing = Drawing(len(images) * 106 + 10, 328)
    for number, image in enumerate(images):
        x, large = 10 + 106 * number, enlarged(image)
        drawing.squares(image, x, 10, 96 / 8)
        drawing.squares(large, x, 116, 96 / len(large))
        drawing.squares(sharpened(large), x, 222, 96 / len(large))
    drawing.save(*sys.argv[1:])


if __name__ == "__main__":
    main()
