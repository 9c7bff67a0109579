"""Every pass alone: programs by the interpreter before and after each pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
from xdsl.passes import ModulePass

from tessella.dialects.graph import CompileContext, Graph
from tessella.dialects.interpret import interpret
from tessella.dialects.verify import verify
from tessella.driver.build.pipeline import pipeline
from tessella.driver.options import CheckedOptions, Options, make_options
from tessella.driver.specialise.by_value import specialised
from tessella.frontends.onnx import OnnxSource
from tessella.passes.eliminate_identities import EliminateIdentitiesPass
from tessella.passes.fold_constants import FoldConstantsPass
from tessella.passes.fuse_elementwise import FuseElementwisePass
from tessella.passes.fuse_patterns import FusePatternsPass
from tessella.passes.infer_shapes import InferShapesPass
from tessella.passes.insert_conversions import InsertConversionsPass
from tessella.passes.pick_kernels import PickKernelsPass
from tests.fuzz.elements import Array, wide
from tests.fuzz.fuzzer import Fuzzer, WrongError
from tests.fuzz.graphs import draw_case
from tests.fuzz.onnx_graphs import expectations
from tests.fuzz.rounding import Expected, more_expected
from tests.fuzz.rows import ROWS
from tests.generators.nn_programs import program
from tests.generators.nn_sketch import Program

TARGETS = ("avx512", "avx2", "sse", "neon")
OPTIONAL = {
    *("infer-shapes", "fold-constants", "eliminate-identities", "fuse-patterns"),
    *("fold-batch-norm", "move-casts", "fuse-elementwise"),
}
"""Passes that others do not need."""
KINDS = (np.float32, np.float32, np.int64, np.int32, np.float64)


@dataclass(frozen=True)
class Trial:
    """A program, what it should give, and the passes."""

    graph: Callable[[], Graph]
    inputs: Mapping[str, Array]
    expected: Callable[[], Sequence[Expected]]
    careful: Callable[[], Sequence[Expected]]
    options: CheckedOptions
    passes: Sequence[ModulePass] = field(default_factory=list[ModulePass])


def draw(random: Random) -> Trial:
    """A program of exact ops on small integers, or a graph of ONNX."""
    options = make_options(
        target=random.choice(TARGETS),
        options=Options(pick=random.choice(("cost", "cost", "grade"))),
    )
    steps = [step for _, steps in pipeline(options)[:2] for step in steps]
    kept = [s for s in steps if s.name not in OPTIONAL or random.random() < 0.75]
    if random.random() < 0.5:
        made = program(random, random.choice(KINDS), random.choice((1, 2, 4, 6)), host=True)

        def exact() -> list[Expected]:
            results = [wide(y) for y in interpret(made.graph(), made.inputs)]
            ones = [np.ones(y.shape, np.bool_) for y in results]
            return [Expected(y, np.zeros(y.shape), k) for y, k in zip(results, ones, strict=True)]

        return Trial(made.graph, made.inputs, exact, exact, options, kept)
    case = draw_case(random, ROWS, most=10)
    codes = [code for _, code in case.results]
    source = OnnxSource(case.model())
    graph, inputs = specialised(source, case.feeds)
    if graph.rest is not None:  # the passes see a part of the program
        return draw(random)
    return Trial(
        lambda: specialised(source, case.feeds)[0],
        inputs,
        lambda: expectations(case),
        lambda: more_expected(case.run, codes),
        options,
        kept,
    )


def check(trial: Trial) -> str:
    """After each pass the program gives what it gave before all of them."""
    expected = trial.expected()
    for name, results in runs(trial):
        for i, (y, right) in enumerate(zip(results, expected, strict=True)):
            if (y.shape, y.dtype) != (right.array.shape, right.array.dtype):
                raise WrongError(f"after {name}, result {i} is {y.dtype}{list(y.shape)}")
            if right.wrong(y).any():
                expected = trial.careful()
            wrong = expected[i].wrong(y)
            if wrong.any():
                if name == "import":
                    return "undecided"
                raise WrongError(f"after {name}, {wrong.sum()} of {y.size} elements are wrong")
    return "right"


def runs(trial: Trial) -> Iterator[tuple[str, list[Array]]]:
    """The results after each pass."""
    graph = trial.graph()
    ctx = CompileContext(graph.weights)
    yield "import", _results(graph, trial)
    for step in trial.passes:
        step.apply(ctx, graph.module)
        verify(graph.module)
        yield step.name, _results(graph, trial)


def _results(graph: Graph, trial: Trial) -> list[Array]:
    with np.errstate(all="ignore"):
        return [wide(y) for y in interpret(graph, trial.inputs)]


def save(trial: Trial, folder: Path) -> None:
    """The program, and after which pass it is another."""
    graph = trial.graph()
    (folder / "program.nn").write_text(f"{graph.module}\n")
    np.savez(folder / "inputs.npz", **trial.inputs)  # pyright: ignore[reportArgumentType]
    passes = ",".join(step.name for step in trial.passes)
    (folder / "case.txt").write_text(f"{trial.options}\n{passes}\n")


# ** bits **

PATTERNS = ("fc", "transposed-operand", "channel-shuffle", "batched-transpose", "relu", "clip")
"""Patterns that only name what is there."""

SAME_BITS: Mapping[str, Sequence[ModulePass]] = {
    "infer": [InferShapesPass()],
    "fold": [FoldConstantsPass()],
    "fold little": [FoldConstantsPass(limit=64)],
    "eliminate": [EliminateIdentitiesPass()],
    "fuse exactly": [FusePatternsPass(only=PATTERNS)],
    "place": [PickKernelsPass(), InsertConversionsPass(), FuseElementwisePass()],
    "place on the host": [PickKernelsPass(places=("host",)), InsertConversionsPass()],
}
"""Passes that change neither a number nor the sign of a zero."""


@dataclass(frozen=True)
class BitsTrial:
    """A program, and passes by their name in the table."""

    program: Program
    passes: str


def draw_bits(random: Random) -> BitsTrial:
    """A program, which may round."""
    dtype, exact = random.choice(((np.float32, True), (np.int64, True), (np.float32, False)))
    made = program(random, dtype, random.randint(1, 6), exact=exact)
    return BitsTrial(made, random.choice([*SAME_BITS]))


def check_bits(trial: BitsTrial) -> str:
    """The results have the same bits before and after the passes."""
    before, after = trial.program.graph(), trial.program.graph()
    ctx = CompileContext(after.weights)
    for step in SAME_BITS[trial.passes]:
        step.apply(ctx, after.module)
    with np.errstate(all="ignore"):
        pairs = zip(*(interpret(g, trial.program.inputs) for g in (after, before)), strict=True)
    for y, wanted in pairs:
        np.testing.assert_array_equal(y, wanted, strict=True)
        np.testing.assert_array_equal(np.signbit(y), np.signbit(wanted))
    return "right"


def save_bits(trial: BitsTrial, folder: Path) -> None:
    """The program, its inputs, and the passes."""
    (folder / "program.nn").write_text(f"{trial.program.graph().module}\n")
    np.savez(folder / "inputs.npz", **trial.program.inputs)  # pyright: ignore[reportArgumentType]
    (folder / "case.txt").write_text(f"{trial.passes}\n")


FUZZER = Fuzzer("passes", "Every pass alone, by the interpreter.", draw, check, save, sample=40)
BITS_FUZZER = Fuzzer(
    "bits",
    "Passes that keep every bit, by the interpreter.",
    draw_bits,
    check_bits,
    save_bits,
    sample=100,
)
