"""Random programs whose sizes stay open, against those for the sizes as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from tests.fuzz.fuzzer import TARGETS, Fuzzer
from tests.generators.nn_programs import OPEN, program
from tests.generators.nn_sketch import Program
from tests.open import check_open, drawn_sizes

KINDS = (np.float32, np.float32, np.float32, np.int64, np.int32, np.int8, np.float64)


@dataclass(frozen=True)
class Trial:
    """A program, sizes of its symbols, and what it is compiled for."""

    program: Program
    sizes: Sequence[Mapping[str, int]]
    target: str
    exact: bool


def draw(random: Random) -> Trial:
    """A program of exact ops on small integers, or of others."""
    exact = random.random() < 0.7
    dtype = random.choice(KINDS) if exact else np.float32
    host = random.random() < 0.1
    count = random.randint(1, 6)
    # not every program has an input with a symbol in its shape
    tries = (program(random, dtype, count, exact=exact, host=host, symbols=OPEN) for _ in range(20))
    made = next(made for made in tries if made.symbols)
    return Trial(made, [*drawn_sizes(made, 6, random)], random.choice(TARGETS), exact)


def check(trial: Trial) -> str:
    """It is compiled once for each range, and gives what the programs for the sizes give."""
    atol = 0.0 if trial.exact else 1e-5 * trial.program.scale
    check_open(trial.program, trial.sizes, target=trial.target, atol=atol)
    return "right"


def save(trial: Trial, folder: Path) -> None:
    """The program and the sizes."""
    (folder / "program.txt").write_text(f"{trial.target}\n{trial.program}{trial.sizes}\n")
    (folder / "program.nn").write_text(f"{trial.program.graph().module}\n")


FUZZER = Fuzzer(
    "open",
    "Random programs whose sizes stay open, against programs for one size.",
    draw,
    check,
    save,
    sample=9,
)
