"""Rows of an array on the workers of a Dask cluster, one of which dies.

    python examples/scale/with_dask.py

The scheduler gives the tasks of a dead worker to others, and starts another worker. Results are
those of one process, to the bit: a program's result depends neither on the process nor on threads.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

sys.path.insert(0, str(Path(__file__).parent))
from rows import MODULE, Job, Logits, job, step

ROWS = 5


def compute(task: Job) -> Logits:
    """The logits of all images, in blocks of rows."""
    cluster: Any = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster) as client:
        client.upload_file(str(MODULE))
        blocks = da.from_array(task.images, chunks=(ROWS, 1, 8, 8))
        return blocks.map_blocks(
            step,
            task.artifact,
            task.marker,
            drop_axis=(1, 2, 3),
            new_axis=1,
            chunks=(ROWS, 10),
            meta=np.empty((0, 10), np.float32),  # otherwise Dask calls the function to see it
        ).compute()


if __name__ == "__main__":
    with job() as task:
        task.report(compute(task))
