"""Random programs: native code against the interpreter."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from tests.fuzz.fuzzer import TARGETS, Fuzzer
from tests.generators.nn_programs import program
from tests.generators.nn_sketch import Program
from tests.native import check as compare

KINDS = (np.float32, np.float32, np.float32, np.int64, np.int32, np.int8, np.float64)


@dataclass(frozen=True)
class Trial:
    """A program, and what it is compiled for."""

    program: Program
    target: str
    exact: bool
    native: bool
    """True if all of its ops have native kernels."""


def draw(random: Random) -> Trial:
    """A program of exact ops on small integers, or of others; in some, ops run in NumPy."""
    exact, host = random.random() < 0.75, random.random() < 0.15
    dtype = random.choice(KINDS) if exact else np.float32
    made = program(random, dtype, random.randint(1, 6), exact=exact, host=host)
    return Trial(made, random.choice(TARGETS), exact, not host)


def check(trial: Trial) -> str:
    """Exact programs give the same numbers, however their sums are ordered."""
    made = trial.program
    rtol, atol = (0.0, 0.0) if trial.exact else (1e-4, 1e-5 * made.scale)
    compare(made.graph, made.inputs, target=trial.target, rtol=rtol, atol=atol, native=trial.native)
    return "right"


def save(trial: Trial, folder: Path) -> None:
    """The program and its inputs."""
    (folder / "program.txt").write_text(f"{trial.target}\n{trial.program}\n")
    (folder / "program.nn").write_text(f"{trial.program.graph().module}\n")
    np.savez(folder / "inputs.npz", **trial.program.inputs)  # pyright: ignore[reportArgumentType]


FUZZER = Fuzzer(
    "programs",
    "Random programs as native code, against the interpreter.",
    draw,
    check,
    save,
    sample=48,
)
