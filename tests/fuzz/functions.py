"""Random functions of arrays under ``@jit``, against NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import tessella
from tests.fuzz import rounding
from tests.fuzz.elements import Array
from tests.fuzz.fuzzer import TARGETS, Fuzzer, WrongError, first_failing
from tests.fuzz.rounding import Noise
from tests.generators.jit_functions import Function, function

_CODES = {np.dtype(np.float32): 1, np.dtype(np.float64): 11}


@dataclass(frozen=True)
class Trial:
    """A function, and what it is compiled for."""

    function: Function
    target: str

    def wide(self, noise: Noise) -> list[Array]:
        """The results in float64, with errors put in."""

        def spoil(result: Array, beside: Sequence[Array], dtype: np.dtype[Any]) -> Array:
            if dtype.kind != "f":
                return result
            return noise(result, float(np.finfo(dtype).eps), rounding.least([result, *beside]))

        with np.errstate(all="ignore"):
            return self.function.wide(spoil)


def draw(random: Random) -> Trial:
    """A trial."""
    images = random.random() < 0.25
    return Trial(function(random, images=images), random.choice(TARGETS))


def check(trial: Trial) -> str:
    """Compile, run, compare."""
    made, arrays = trial.function, trial.function.arrays
    with np.errstate(all="ignore"):
        wanted = [np.asarray(y) for y in made(*arrays)]
    found = tessella.jit(lambda *args: made(*args), target=trial.target)(*arrays)
    for y, want in zip(found, wanted, strict=True):
        if (y.dtype, y.shape) != (want.dtype, want.shape):
            raise WrongError(f"{y.dtype}{list(y.shape)}, not {want.dtype}{list(want.shape)}")
    codes = [_CODES.get(want.dtype, 1) for want in wanted]
    for expected in (rounding.expected, rounding.more_expected):
        wrong = [
            (i, right.wrong(_wide(y)) & replace(right, array=_wide(want)).wrong(_wide(y)))
            for i, (y, want, right) in enumerate(
                zip(found, wanted, expected(trial.wide, codes), strict=True)
            )
        ]
        if not any(each.any() for _, each in wrong):
            return "right"
    i, each = next((i, each) for i, each in wrong if each.any())
    at = tuple(int(n) for n in np.argwhere(each)[0])
    raise WrongError(
        f"result {i}{list(at)}: {found[i][at]!r}, not {wanted[i][at]!r}; "
        f"{each.sum()} of {each.size} elements are wrong"
    )


def _wide(y: Array) -> Array:
    return y.astype(np.float64) if y.dtype.kind == "f" else y


def reduce(trial: Trial) -> Trial:
    """The first steps that fail."""
    made = trial.function

    def first(count: int) -> Trial:
        last = len(made.arrays) + count - 1
        return Trial(Function(made.arrays, made.taken[:count], [last]), trial.target)

    smaller = (first(count) for count in range(1, len(made.taken) + 1))
    return first_failing(check, smaller, trial)


def save(trial: Trial, folder: Path) -> None:
    """The traced program and the arrays."""
    made = trial.function
    np.savez(folder / "inputs.npz", *made.arrays)
    lowered = tessella.jit(lambda *args: made(*args), target=trial.target).lower(*made.arrays)
    (folder / "case.txt").write_text(f"{trial.target}\n\n{lowered.as_text('nn')}\n")


FUZZER = Fuzzer(
    "jit", "Random functions under @jit, against NumPy.", draw, check, save, reduce, sample=6
)
