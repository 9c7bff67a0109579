"""Digits, read by a program that was written for ONNX Runtime: its import is all that changed.

python examples/session/digits.py [FILE.svg]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import tessella as ort  # instead of: import onnxruntime as ort

sys.path.insert(0, str(Path(__file__).parents[1]))
from drawing import Drawing

DIGITS = Path(__file__).parent.parent / "digits"


def main() -> None:
    """Print a digit for each image, and draw both."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    session = ort.InferenceSession(str(DIGITS / "digits.onnx"), options, providers=providers)
    name = session.get_inputs()[0].name
    images = np.load(DIGITS / "heldout.npz")["images"][:20].astype(np.float32)
    found = [session.run(None, {name: image[None]})[0].argmax() for image in images]
    print(*found)
    drawing = Drawing(10 + 10 * 58, 10 + 2 * 76)
    for number, (image, digit) in enumerate(zip(images[:, 0], found, strict=True)):
        x, y = 10 + 58 * (number % 10), 10 + 76 * (number // 10)
        drawing.squares(image, x, y, 6)
        drawing.text(str(digit), x + 24, y + 64, size=14, anchor="middle")
    drawing.save(*sys.argv[1:])


if __name__ == "__main__":
    main()
