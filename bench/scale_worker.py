"""A worker of `tessella batch` that is measured: ``bench.scale`` starts it.

    python -m bench.scale_worker ARTIFACT BLOCK COUNT

It runs the block once, prints a line, and waits for a line. Then it runs the block COUNT times, and
prints JSON: the seconds, and the bytes of the block and its result. It ends with its standard
input.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from tessella.tools.batch.engines import BlockWorker


def main(artifact: str, file: str, count: str) -> None:
    """Measure in this process, and print."""
    block = Path(file).read_bytes()
    worker = BlockWorker(artifact, threads=1)
    found = worker.run(block)
    if isinstance(found, str):
        raise SystemExit(found)
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.perf_counter(), time.process_time()
    for _ in range(int(count)):
        worker.run(block)
    ended = time.perf_counter(), time.process_time()
    seconds, processor_seconds = (end - start for start, end in zip(began, ended, strict=True))
    figures = {
        "seconds": seconds,
        "processor_seconds": processor_seconds,
        "bytes": len(block) + len(found),
    }
    print(json.dumps(figures), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
