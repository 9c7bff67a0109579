"""Digits, read by the workers of a Dask cluster.

    python examples/dask/digits.py            workers of its own
    python examples/dask/digits.py ADDRESS    those of a scheduler

A model is sent to workers as a pickle, which is its artifact: nothing is compiled there, and they
need tessella and NumPy alone. Where weights are large, send a path, and have workers call
`tessella.load`, which maps the file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
from distributed import Client

import tessella
from tessella.runtime.model import CallableModel

HERE = Path(__file__).parent
DIGITS = HERE.parent / "digits"


def read(images: npt.NDArray[np.float32], model: CallableModel) -> npt.NDArray[np.int64]:
    """The digits on images."""
    return np.array([np.argmax(model(image[None])) for image in images])


def main() -> None:
    """Print a digit for each image."""
    # a worker runs several tasks at once: each on a thread of its own
    model = tessella.compile(DIGITS / "digits.onnx", threads=1)
    images = np.load(DIGITS / "heldout.npz")["images"][:40].reshape(-1, 1, 8, 8)
    address: Any = sys.argv[1] if len(sys.argv) > 1 else None
    with Client(address, **({} if address else {"n_workers": 2, "threads_per_worker": 1})):
        blocks = da.from_array(images.astype(np.float32), chunks=(10, 1, 8, 8))
        found = blocks.map_blocks(read, model, drop_axis=(1, 2, 3), dtype=np.int64)
        print(*found.compute())


if __name__ == "__main__":
    main()
