"""Compare the model's choice of schedules with the best of many that are timed.

    python -m bench.candidates [TEXT ...] --limit 160 --repeat 15 --json results.json

For each kernel (those whose names contain a TEXT; all without one), candidates are the register
tiles that ``passes.tile.search`` lists, some known to be good elsewhere, and others with another
order of the loops, unrolling, or blocks for the caches; and where statements share loops, other
steps of these loops, and none. All are compiled, in parallel; then they
are timed, turn by turn, alone, and their results compared. The best of this round and the model's
choice are timed once more against each other.

What is timed is the kernel without the conversions around it, but with the copies of operands that
its schedule asks for.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial

import onnx

from bench.cases import (
    attention,
    batched_matmul,
    convolution,
    layer_norm,
    matmul,
    pool,
    softmax,
    workload,
)
from bench.command import Command, show_machine, write_figures
from bench.native import Array, Kernel, Memory
from bench.schedules import (
    Candidate,
    Compiled,
    Rejected,
    candidates,
    compile_candidate,
    operands_of,
    problem_of,
    try_candidate,
)
from tessella.tools.measure import geometric_mean, interleave, relative_error

GOAL = 0.93
"""The least speed of the model's choice relative to the best candidate, in the geometric mean."""

FINALISTS = 5
TURN = 0.001
"""The least seconds of a candidate's turn."""

TOLERANCE = 1e-4
"""The largest difference between the results of schedules, which sum in different orders."""

KERNELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "product 512x512x512": partial(matmul, 512, 512, 512),
    "product 128x3072x768": partial(matmul, 128, 3072, 768),
    "product 127x771x513": partial(matmul, 127, 771, 513),
    "product 12x128x64x128 of variables": partial(batched_matmul, 12, 128, 64, 128),
    "conv 3x3 64->64 of 56x56": partial(
        convolution, (1, 64, 56, 56), (64, 64, 3, 3), pads=[1, 1, 1, 1]
    ),
    "conv 1x1 256->64 of 56x56": partial(convolution, (1, 256, 56, 56), (64, 256, 1, 1)),
    "conv 7x7/2 3->64 of 224x224": partial(
        convolution, (1, 3, 224, 224), (64, 3, 7, 7), pads=[3, 3, 3, 3], strides=[2, 2]
    ),
    "conv 3x3 37->51 of 29x29": partial(
        convolution, (1, 37, 29, 29), (51, 37, 3, 3), pads=[1, 1, 1, 1]
    ),
    "depthwise 3x3 144 of 56x56": partial(
        convolution, (1, 144, 56, 56), (144, 1, 3, 3), "Clip", pads=[1, 1, 1, 1], group=144
    ),
    "depthwise 3x3/2 67 of 57x57": partial(
        convolution,
        *((1, 67, 57, 57), (67, 1, 3, 3), "Clip"),
        pads=[1, 1, 1, 1],
        strides=[2, 2],
        group=67,
    ),
    "max pool 3x3/2 64 of 112x112": partial(
        pool,
        *("MaxPool", (1, 64, 112, 112)),
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
        strides=[2, 2],
    ),
    "average pool 3x3 83 of 35x35": partial(
        pool, "AveragePool", (1, 83, 35, 35), kernel_shape=[3, 3], pads=[1, 1, 1, 1]
    ),
    "softmax of 4096x1024": partial(softmax, (4096, 1024)),
    "layer norm of 4096x1024": partial(layer_norm, (4096, 1024)),
    "attention 12x128x64": partial(attention, 12, 128, 64),
    "attention 12x1024x64": partial(attention, 12, 1024, 64),
    "conv 3x3 64->64 of 224x224": partial(
        convolution, (1, 64, 224, 224), (64, 64, 3, 3), pads=[1, 1, 1, 1]
    ),
}


# ** timing **


@dataclass
class Result:
    """The result for a kernel. Times are in milliseconds; ratios of times are at most 1."""

    name: str
    flops: int
    timed: int
    rejected: dict[str, str]
    """Candidates that could not be compiled, and why."""
    wrong: list[str]
    """Candidates with results that differ from those of the model's choice."""
    choice: str
    choice_ms: float
    best: str
    best_ms: float
    all_ms: dict[str, float]
    """Times of the first round, by schedule."""

    @property
    def ratio(self) -> float:
        """The speed of the model's choice relative to the best candidate."""
        return self.best_ms / self.choice_ms


class _Run:
    """A compiled candidate with its buffers."""

    def __init__(self, compiled: Compiled, memory: Memory) -> None:
        self.schedule = compiled.schedule
        self.output = len(compiled.layouts)
        self.kernel = Kernel(compiled.kernel, memory.of(compiled.kernel, compiled.layouts))
        self.copies = [Kernel(code, memory.of(code)) for code in compiled.copies]

    def __call__(self) -> None:
        for copy in self.copies:
            copy()
        self.kernel()

    def result(self) -> Array:
        """The kernel's result."""
        self.kernel()
        return self.kernel.buffers[self.output].copy()


def measure(
    name: str, model: onnx.ModelProto, limit: int, repeat: int, pool: Executor | None = None
) -> Result:
    """Compile all candidates of a model's kernel, and time them one after another."""
    problem = problem_of(model)
    listed = candidates(problem, limit)
    attempt = functools.partial(try_candidate, problem)
    # Wait for all results: nothing may run beside timed code.
    attempts = list(pool.map(attempt, listed)) if pool else [attempt(c) for c in listed]
    compiled = [attempt for attempt in attempts if isinstance(attempt, Compiled)]
    memory = Memory(operands_of(problem))
    chosen = _Run(compile_candidate(problem, Candidate()), memory)
    expected = chosen.result()
    runs = [_Run(each, memory) for each in compiled]
    right = [run for run in runs if _equal(run.result(), expected)]
    first = _times([chosen, *right], max(1, repeat // 5))
    finalists = sorted(right, key=lambda run: first[run])[:FINALISTS]
    times = _times([chosen, *finalists], repeat)
    best = min(times, key=lambda run: times[run])
    return Result(
        name=name,
        flops=workload(model).flops,
        timed=len(right),
        rejected={a.schedule: a.reason for a in attempts if isinstance(a, Rejected)},
        wrong=[run.schedule for run in runs if run not in right],
        choice=chosen.schedule,
        choice_ms=times[chosen] * 1e3,
        best=best.schedule,
        best_ms=times[best] * 1e3,
        all_ms={run.schedule: seconds * 1e3 for run, seconds in first.items()},
    )


def _equal(found: Array, expected: Array) -> bool:
    return relative_error([found], [expected]) <= TOLERANCE


def _times(runs: Sequence[_Run], repeat: int) -> dict[_Run, float]:
    """Return median seconds of each run."""
    names = {str(number): run for number, run in enumerate(runs)}
    timings = interleave(names, repeat=repeat, warmup=1, turn=TURN)
    return {run: timings[name].median for name, run in names.items()}


# ** the command line **


def _show(result: Result) -> str:
    rate = f", {result.flops / result.choice_ms / 1e6:.0f} GFLOP/s" if result.flops else ""
    wrong = f"\n  WRONG RESULTS: {'; '.join(result.wrong)}" if result.wrong else ""
    return (
        f"{result.name}: {result.ratio:.0%} of the best of {result.timed} candidates"
        f" ({len(result.rejected)} have no code)\n"
        f"  choice {result.choice_ms * 1e3:9.1f} us  {result.choice}{rate}\n"
        f"  best   {result.best_ms * 1e3:9.1f} us  {result.best}{wrong}"
    )


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Command("candidates", "Compare the model's choices with others.")
    parser.add_names("kernel", KERNELS, str.__contains__)
    parser.add_argument("--limit", type=int, default=160, help="candidates of each (default: 160)")
    parser.add_repeat(15)
    parser.add_argument("--jobs", type=int, default=2, help="processes that compile (default: 2)")
    return parser.parse(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a candidate's results differ from the others'."""
    options = _parse(arguments)
    where = show_machine()
    results: list[Result] = []
    context = multiprocessing.get_context("spawn")  # LLVM is loaded in this process already
    with ProcessPoolExecutor(options.jobs, mp_context=context) as workers:
        for name in options.names:
            results.append(measure(name, KERNELS[name](), options.limit, options.repeat, workers))
            print(f"\n{_show(results[-1])}", flush=True)
    mean = geometric_mean([result.ratio for result in results])
    verdict = "met" if mean >= GOAL else "missed"
    print(f"\ngeometric mean {mean:.1%} of the best; goal {GOAL:.0%}: {verdict}")
    rows = [asdict(result) | {"ratio": result.ratio} for result in results]
    write_figures(options.json, where, geometric_mean=mean, rows=rows)
    return int(any(result.wrong for result in results))


if __name__ == "__main__":
    raise SystemExit(main())
