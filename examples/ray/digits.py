"""Digits, read by the workers of a Ray cluster.

    python examples/ray/digits.py

A model is put into Ray's store once, as a pickle, which is its artifact: nothing is compiled on
workers, and they need tessella and NumPy alone. An actor unpickles it once for all its batches.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import ray

import tessella
from tessella.runtime.model import CallableModel

HERE = Path(__file__).parent
DIGITS = HERE.parent / "digits"

Images = npt.NDArray[np.float32]


class Reader:
    """An actor that reads digits; Ray's `map_batches` takes such a class, too."""

    def __init__(self, model: CallableModel) -> None:
        self.model = model

    def read(self, images: Images) -> npt.NDArray[np.int64]:
        """The digits on images, which are in Ray's store and cannot be written to."""
        return np.array([np.argmax(self.model(image[None])) for image in images])


def main() -> None:
    """Print a digit for each image."""
    # an actor has one core
    model = tessella.compile(DIGITS / "digits.onnx", threads=1)
    images = np.load(DIGITS / "heldout.npz")["images"][:40].reshape(-1, 1, 8, 8)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    known = ray.put(model)
    actors = [ray.remote(Reader).remote(known) for _ in range(2)]
    parts = np.array_split(images.astype(np.float32), len(actors))
    pairs = zip(actors, parts, strict=True)
    found = ray.get([actor.read.remote(part) for actor, part in pairs])
    print(*np.concatenate(found))
    ray.shutdown()


if __name__ == "__main__":
    main()
