"""The process that runs cases. It reads seeds from its standard input, and answers with JSON.

check 17        ->  {"seed": 17, "outcome": "right", "seconds": 0.4, "megabytes": 310}
save 17 folder  ->  {"seed": 17, "outcome": "saved"}
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.fuzz.fuzzer import Fuzzer


def check(fuzzer: Fuzzer, seed: int) -> dict[str, Any]:
    """Run a case and return its outcome."""
    began = time.perf_counter()
    answer: dict[str, Any] = {"seed": seed, "outcome": "failed"}
    try:
        answer["outcome"] = fuzzer.check(fuzzer.case(seed))
    except Exception as error:  # whatever it is
        answer |= {"key": key(error), "error": "".join(traceback.format_exception(error))}
    answer["seconds"] = time.perf_counter() - began
    answer["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return answer


def key(error: Exception) -> str:
    """The kind of an error: its type, and where in the source it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    frame = frames[-1]
    return f"{type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}"


def save(fuzzer: Fuzzer, seed: int, folder: Path, *, reduced: bool) -> dict[str, Any]:
    """Write a case and a smaller one that fails too."""
    folder.mkdir(parents=True, exist_ok=True)
    case = fuzzer.case(seed)
    fuzzer.save(case, folder)
    if reduced:
        smaller = fuzzer.reduce(case)
        if smaller is not case:
            (folder / "reduced").mkdir(exist_ok=True)
            fuzzer.save(smaller, folder / "reduced")
    return {"seed": seed, "outcome": "saved"}


def main(fuzzers: Mapping[str, Fuzzer]) -> None:
    """Answer until there are no more questions."""
    warnings.simplefilter("ignore")
    fuzzer = fuzzers[sys.argv[1]]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing else may get among the answers
    for line in sys.stdin:
        command, seed, *rest = line.split(maxsplit=2)
        if command == "check":
            answer = check(fuzzer, int(seed))
        else:
            answer = save(fuzzer, int(seed), Path(rest[0].strip()), reduced=command == "reduce")
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    # here, as the tests of the runner have fuzzers of their own
    from tests.fuzz.fuzzers import FUZZERS

    main(FUZZERS)
