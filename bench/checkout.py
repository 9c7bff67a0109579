"""A process that compiles and times models with the tessella of one checkout.

``bench.regression`` starts it by its path, as the checkout may be too old to have it. It answers
each line of JSON on its standard input with one on its standard output:

    {"compile": "model.onnx", "feeds": "feeds.npz"}  ->  {"seconds": 0.1}
    {"calls": 20}                                    ->  {"seconds": 0.002}, one call on average
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def main() -> None:
    """Serve requests until standard input ends."""
    import tessella  # the checkout's own, whose folder is on the path

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # printed text must not mix with answers
    call: Callable[[], object] | None = None
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        if "compile" in request:
            with np.load(request["feeds"]) as archive:
                feeds = {name: archive[name] for name in archive.files}
            start = time.perf_counter()
            model = tessella.compile(request["compile"], threads=1)
            seconds = time.perf_counter() - start
            call = _bound(model, feeds)
            call()
        else:
            assert call is not None, "a model is compiled first"
            seconds = _time(call, request["calls"])
        answers.write(json.dumps({"seconds": seconds}) + "\n")
        answers.flush()


def _bound(model: Any, feeds: dict[str, Any]) -> Callable[[], object]:
    return lambda: model.run(None, feeds)


def _time(call: Callable[[], object], calls: int) -> float:
    """Return the seconds of one call, after untimed calls that refill the caches."""
    for _ in range(calls):
        call()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


if __name__ == "__main__":
    main()
