"""Load a model and call it once: ``bench.compile`` and ``bench.ship`` start it.

    python -m bench.first PEER MODEL FEEDS.npz

It prints one line of JSON: when the answer was there, on the clock that all processes share, and
the peak of its memory in bytes. It ends with its standard input. It imports no more than the peer
needs.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from tessella.tools.measure import peak_memory
from tessella.tools.peers import load


def main(peer: str, model: str, feeds: str) -> None:
    """Measure in this process, and print."""
    with np.load(feeds) as archive:
        arrays = {name: archive[name] for name in archive.files}
    load(peer, Path(model), 1)(arrays)
    print(json.dumps({"answered": time.perf_counter(), "peak_bytes": peak_memory()}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
