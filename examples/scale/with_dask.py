"""Rows of a data set on the workers of a Dask cluster, one of which dies.

    python examples/scale/with_dask.py

The scheduler gives the tasks of a dead worker to others, and starts another worker. Results are
those of one process, to the bit: a program's result depends neither on the process nor on threads.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

sys.path.insert(0, str(Path(__file__).parent))
from rows import Images, Logits, artifact, batch, die_once, images

ROWS = 5


def step(block: Images, path: str, marker: str) -> Logits:
    """A block's logits; the first worker that comes here dies."""
    die_once(marker)
    return batch(block, path)


def main() -> None:
    """Print how many rows differ from those of one process."""
    data = images()
    with tempfile.TemporaryDirectory() as folder:
        path, marker = artifact(Path(folder)), str(Path(folder, "died"))
        cluster: Any = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
        with cluster, Client(cluster) as client:
            client.upload_file(str(Path(__file__).parent / "rows.py"))
            blocks = da.from_array(data, chunks=(ROWS, 1, 8, 8))
            found = blocks.map_blocks(
                step,
                path,
                marker,
                drop_axis=(1, 2, 3),
                new_axis=1,
                chunks=(ROWS, 10),
                dtype=np.float32,
                meta=np.empty((0, 10), np.float32),
            ).compute()
        died = Path(marker).exists()
        differing = int((found != batch(data, path)).any(axis=1).sum())
    print(f"{len(found)} rows, {differing} differ, {'a' if died else 'no'} worker died")


if __name__ == "__main__":
    main()
