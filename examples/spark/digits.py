"""Digits, read by the executors of Spark.

    python examples/spark/digits.py

A model is broadcast as a pickle, which is its artifact: nothing is compiled on executors, and they
need tessella and NumPy alone. It is unpickled once in each Python process.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import SparkSession

import tessella

HERE = Path(__file__).parent
DIGITS = HERE.parent / "digits"


def main() -> None:
    """Print a digit for each image."""
    # Spark runs a task on each core
    model = tessella.compile(DIGITS / "digits.onnx", threads=1)
    images = np.load(DIGITS / "heldout.npz")["images"][:40].reshape(-1, 1, 8, 8)
    session = SparkSession.builder.master("local[2]").appName("digits").getOrCreate()
    known: Any = session.sparkContext.broadcast(model)

    def read(part: Iterator[npt.NDArray[np.float32]]) -> Iterator[int]:
        """The digits on the images of a partition."""
        for image in part:
            yield int(np.argmax(known.value(image[None])))

    rows = session.sparkContext.parallelize([*images.astype(np.float32)], 4)
    print(*rows.mapPartitions(read).collect())
    session.stop()


if __name__ == "__main__":
    main()
