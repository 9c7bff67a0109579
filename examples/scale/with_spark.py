"""Rows of a data frame on the executors of Spark by `mapInPandas`, with a Python worker that dies.

    python examples/scale/with_spark.py        needs Java, 17 or later

Spark runs the task of a dead worker again: `local[2, 4]` means two cores, and four attempts for
each task. Results are those of one process, to the bit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parent))
from rows import MODULE, Job, Logits, job, step

pd: Any = import_module("pandas")  # it has no types
SCHEMA = "row long, logits array<float>"
PARTS = 4


def compute(task: Job) -> Logits:
    """The logits of all images, in the order of the column `row`: Spark keeps none."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers have its packages
    builder: Any = SparkSession.builder
    session = builder.master("local[2, 4]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.sparkContext.addPyFile(str(MODULE))
    artifact, marker = task.artifact, task.marker

    def add_logits(parts: Iterator[Any]) -> Iterator[Any]:
        """The logits of a partition, a data frame at a time."""
        for part in parts:
            images = np.array(part["image"].tolist(), np.float32).reshape(-1, 1, 8, 8)
            found = step(images, artifact, marker)
            yield pd.DataFrame({"row": part["row"], "logits": found.tolist()})

    pixels = [image.ravel().tolist() for image in task.images]
    table = session.createDataFrame(pd.DataFrame({"row": range(len(pixels)), "image": pixels}))
    found = table.repartition(PARTS).mapInPandas(add_logits, SCHEMA).orderBy("row").toPandas()
    session.stop()
    return np.array(found["logits"].tolist(), np.float32)


if __name__ == "__main__":
    with job() as task:
        task.report(compute(task))
