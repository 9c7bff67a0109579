"""Random ONNX graphs, compiled for some target and places, against computing in float64.

An answer is wrong where it is further away than rounding errors explain (``rounding.py``), and
where ONNX Runtime is not as far away from ``onnx.reference`` itself.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

import tessella
from tessella.driver.options import CompileOptions, Options
from tests.fuzz import rounding
from tests.fuzz.elements import FLOATS, Array, wide
from tests.fuzz.fuzzer import TARGETS, Fuzzer, WrongError, first_failing
from tests.fuzz.graphs import Case, draw_case
from tests.fuzz.oracles import runtime_results
from tests.fuzz.rounding import Expected
from tests.fuzz.rows import ROWS

BLOCKED = ("x86/f32/nchw16c", "x86/f32", "x86", "host")
NARROW = ("x86/bf16", "host")
NARROWED = ("x86/bf16", "x86/f32", "host")


@dataclass(frozen=True)
class Trial:
    """A graph, and how it is compiled."""

    case: Case
    options: CompileOptions


def draw(random: Random) -> Trial:
    """A trial."""
    case = draw_case(random, ROWS)
    options = CompileOptions(target=random.choice(TARGETS))
    match random.randrange(10):
        case 0:
            options["places"] = BLOCKED
        case 1:
            options["places"] = ("host",)
        case 2:
            options["options"] = Options(pick="grade")
        case 3:
            options["places"] = NARROW
            case = replace(case, stored=FLOATS[TensorProto.BFLOAT16])
        case 4:
            options["places"], options["options"] = NARROWED, Options(pick="grade")
            case = replace(case, stored=FLOATS[TensorProto.BFLOAT16])
        case _:
            pass
    return Trial(case, options)


def check(trial: Trial) -> str:
    """Compile, run, compare."""
    found = compiled(trial)
    case = trial.case
    codes = [code for _, code in case.results]
    for (name, _), y, right in zip(case.results, found, expectations(case), strict=True):
        if (y.shape, y.dtype) != (right.array.shape, right.array.dtype):
            text = f"{y.dtype}{list(y.shape)}, not {right.array.dtype}{list(right.array.shape)}"
            raise WrongError(f"{name} is {text}")
    careful = None
    for i, right in enumerate(expectations(case)):
        if right.wrong(found[i]).any():
            careful = careful or rounding.more_expected(case.run, codes)
            if careful[i].wrong(found[i]).any():
                return _judge(trial, found, careful, i)
    return "right"


def expectations(case: Case) -> list[Expected]:
    """Return the expected results."""
    return rounding.expected(case.run, [code for _, code in case.results])


def compiled(trial: Trial) -> list[Array]:
    """The results of compiled code."""
    case = trial.case
    with redirect_stderr(io.StringIO()):
        model = tessella.compile(case.model(), **trial.options)
        found = model.run([name for name, _ in case.results], case.feeds)
    return [wide(np.asarray(y)) for y in found]


def _judge(trial: Trial, found: Sequence[Array], right: Sequence[Expected], i: int) -> str:
    """Raise what is wrong with a result, unless ONNX Runtime is wrong too."""
    case = trial.case
    theirs = runtime_results(case.model(), case.feeds)
    if theirs is not None and right[i].wrong(wide(theirs[i])).any():
        return "undecided"
    wrong = right[i].wrong(found[i])
    at = tuple(int(n) for n in np.argwhere(wrong)[0])
    raise WrongError(
        f"{case.results[i][0]}{list(at)}: {found[i][at]!r}, not {right[i].array[at]!r} "
        f"+- {right[i].tolerance[at]:.2g}; {wrong.sum()} of {wrong.size} elements are wrong; "
        f"onnxruntime {'agrees with the reference' if theirs else 'has no such ops'}"
    )


def reduce(trial: Trial) -> Trial:
    """The first steps that fail."""
    counts = range(1, len(trial.case.steps))
    smaller = (replace(trial, case=trial.case.up_to(count)) for count in counts)
    return first_failing(check, smaller, trial)


def save(trial: Trial, folder: Path) -> None:
    """The model, its inputs, and how it was compiled."""
    onnx.save(trial.case.model(), folder / "model.onnx")
    feeds: dict[str, Any] = dict(trial.case.feeds)
    np.savez(folder / "inputs.npz", **feeds)
    text = onnx.printer.to_text(trial.case.model())
    (folder / "case.txt").write_text(f"{trial.options}\n\n{text}\n")


FUZZER = Fuzzer(
    "onnx",
    "Random ONNX graphs, against onnx.reference and ONNX Runtime.",
    draw,
    check,
    save,
    reduce,
    sample=12,
)
