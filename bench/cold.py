"""Load and run a model once, in a process that does nothing else: ``bench.models`` starts it.

    python -m bench.cold PEER MODEL.onnx FEEDS.npz THREADS

It prints one line of JSON: seconds until the model is ready, imports included (but not NumPy's);
seconds of the first call; the peak of its memory, in bytes. Or only ``failure``, a text.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tessella.tools.measure import peak_memory
from tessella.tools.peers import Feeds, load


def measure(peer: str, model: Path, feeds: Path, threads: int) -> dict[str, Any]:
    """Run this module in a new process without caches of earlier ones, and return its output.

    Raises RuntimeError if the peer fails, even if its process dies.
    """
    with TemporaryDirectory() as cache:
        result = subprocess.run(
            [sys.executable, "-m", "bench.cold", peer, str(model), str(feeds), str(threads)],
            env={**os.environ, "XDG_CACHE_HOME": cache, "TESSELLA_CACHE": "off"},
            capture_output=True,
            text=True,
        )
    if result.returncode != 0:
        raise RuntimeError(f"exit status {result.returncode} in a process of its own")
    figures = json.loads(result.stdout.splitlines()[-1])
    if "failure" in figures:
        raise RuntimeError(figures["failure"])
    return figures


def main(peer: str, model: str, feeds: str, threads: str) -> None:
    """Measure in this process, and print."""
    with np.load(feeds) as archive:
        arrays = {name: archive[name] for name in archive.files}
    try:
        figures = _measure_here(peer, Path(model), arrays, int(threads))
    except Exception as error:  # the parent process must be told about any failure
        figures = {"failure": f"{type(error).__name__}: {error}"}
    print(json.dumps(figures))


def _measure_here(peer: str, model: Path, feeds: Feeds, threads: int) -> dict[str, Any]:
    start = time.perf_counter()
    run = load(peer, model, threads)
    ready = time.perf_counter()
    run(feeds)
    done = time.perf_counter()
    return {
        "compile_s": ready - start,
        "first_call_s": done - ready,
        "peak_bytes": peak_memory(),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
