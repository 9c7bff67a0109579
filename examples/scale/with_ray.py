"""Rows of an array in tasks of a Ray cluster, one of whose workers dies.

    python examples/scale/with_ray.py

Ray runs the task of a dead worker again on another one, up to three times. Results are those of one
process, to the bit. For tables, `tessella.ray.Predictor` is a class for `map_batches`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import ray

sys.path.insert(0, str(Path(__file__).parent))
from rows import MODULE, Job, Logits, job, step

PARTS = 8


def compute(task: Job) -> Logits:
    """The logits of all images, in as many tasks as there are parts."""
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"py_modules": [str(MODULE)]},
    )
    remote = ray.remote(max_retries=3)(step)
    parts = np.array_split(task.images, PARTS)
    found = ray.get([remote.remote(part, task.artifact, task.marker) for part in parts])
    ray.shutdown()
    return np.concatenate(found)


if __name__ == "__main__":
    with job() as task:
        task.report(compute(task))
