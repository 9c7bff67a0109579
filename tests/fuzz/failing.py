"""Fuzzers whose cases fail in all the ways there are."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

from tests.fuzz import worker
from tests.fuzz.fuzzer import Fuzzer, WrongError


def _case(random: Random) -> float:
    return random.random()


def _failing(case: float) -> str:
    raise WrongError(f"{case} is wrong")


def _crashing(case: float) -> str:
    os.abort()


def _hanging(case: float) -> str:
    time.sleep(60)
    return "too late"


def _save(case: float, folder: Path) -> None:
    (folder / "case.txt").write_text(str(case))


CHECKS = {"failing": _failing, "crashing": _crashing, "hanging": _hanging}
FUZZERS = {name: Fuzzer(name, "", _case, check, _save, seconds=1) for name, check in CHECKS.items()}

if __name__ == "__main__":
    worker.main(FUZZERS)
