"""Digits, read by a program that was written for ONNX Runtime: its import is all that changed.

python examples/session/digits.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tessella as ort  # instead of: import onnxruntime as ort

DIGITS = Path(__file__).parent.parent / "digits"


def main() -> None:
    """Print a digit for each image."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    session = ort.InferenceSession(str(DIGITS / "digits.onnx"), options, providers=providers)
    name = session.get_inputs()[0].name
    images = np.load(DIGITS / "heldout.npz")["images"][:20].astype(np.float32)
    found = [session.run(None, {name: image[None]})[0].argmax() for image in images]
    print(*found)


if __name__ == "__main__":
    main()
