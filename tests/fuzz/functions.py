"""Random functions of arrays under ``@jit``, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    """A function, what it is compiled for, and the sizes that it is called with after its own."""

    function: Function
    target: str
    sizes: Sequence[Mapping[int, int]] = ()

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
    made, target = function(random, images=images), random.choice(TARGETS)
    sizes = sorted({n for array in made.arrays for n in array.shape if n > 1})
    changes = [random.randint(1, 5) for _ in range(random.choice((0, 0, 2)))]
    return Trial(made, target, [{n: n + more for n in sizes} for more in changes])


def check(trial: Trial) -> str:
    """Compile, run, compare, for each of its sizes."""
    made = trial.function
    compiled = tessella.jit(lambda *args: made(*args), target=trial.target)
    for each in (made, *map(made.resized, trial.sizes)):
        if each is not None:
            _check(replace(trial, function=each), compiled)
    return "right"


def _check(trial: Trial, compiled: Callable[..., Any]) -> None:
    made, arrays = trial.function, trial.function.arrays
    with np.errstate(all="ignore"):
        wanted = [np.asarray(y) for y in made(*arrays)]
    found = compiled(*arrays)
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
            return
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
        return replace(trial, function=Function(made.arrays, made.taken[:count], [last]))

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
