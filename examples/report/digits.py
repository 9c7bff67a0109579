"""A page about a model: its graph coloured by time, the code of its kernels, and more.

python examples/report/digits.py [FILE.html]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import tessella

DIGITS = Path(__file__).parent.parent / "digits"


def main() -> None:
    """Write the page."""
    path = sys.argv[1] if len(sys.argv) > 1 else "digits.html"
    model = tessella.compile(DIGITS / "digits.onnx")
    image = np.load(DIGITS / "heldout.npz")["images"][0].reshape(1, 1, 8, 8)
    model.report([image.astype(np.float32)], name="digits").save(path)
    print(f"wrote {path}: open it in a browser")


if __name__ == "__main__":
    main()
