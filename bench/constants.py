"""Set constants of the tile stage to other values, and count what changes.

    python -m bench.constants [NAME ...] --targets avx512,avx2,neon --json results.json

Each line has, for another value of a constant: the kernels that get other schedules or other shared
loops, and how much longer these take by the model as it is, in the geometric mean and at most. For
a constant of fusion and merging it counts networks. Kernels are those of ``bench.cases`` and of
``NETWORKS``. The model does not know what a constant is about that bounds code, spills or misses:
such a figure is from ``python -m bench.candidates`` or ``bench.kernels`` with the source changed.

A constant needs a row in ``CONSTANTS`` to be evaluated: its module, and the other values.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from typing import Any
from unittest.mock import patch

import onnx
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from bench.cases import GROUPS
from bench.command import Command, show_machine, write_figures
from tessella import targets
from tessella.dialects.graph import CompileContext
from tessella.dialects.structure import structure
from tessella.dialects.tile import CallOp, KernelOp
from tessella.driver.options import make_options
from tessella.driver.pipeline import pipeline
from tessella.frontends.compile import open_source
from tessella.passes.tile.cost import scheduled_seconds, scheduling_passes
from tessella.passes.tile_stage import kernel_passes
from tessella.support import tables
from tessella.tools.measure import geometric_mean
from tests.models import load_model

NETWORKS = (
    *("squeezenet", "shufflenet", "resnet50", "mobilenet_opset18", "efficientnet_b0"),
    *("convnext", "vit", "swin", "gpt2", "unet"),
)


@dataclass(frozen=True)
class Constant:
    """A constant of a module. Other modules must not import it by name."""

    module: str
    name: str
    others: Sequence[Any]
    """The values to compare with."""
    of_programs: bool = False
    """Whether fusion or merging depends on it; otherwise only schedules and shared loops do."""

    @property
    def value(self) -> Any:
        return getattr(import_module(self.module), self.name)


_TILE = "tessella.passes.tile"
_MERGE = "tessella.passes.tile_merge_kernels"

CONSTANTS = {
    f"{row.module.removeprefix('tessella.passes.')}.{row.name}": row
    for row in (
        Constant(f"{_TILE}.model", "LOOP_CYCLES", (0.0, 1.0)),
        Constant(f"{_TILE}.model", "LOAD_CYCLES", (0.0, 0.2)),
        Constant(f"{_TILE}.model", "PANEL_WAYS", (0, 4)),
        Constant(f"{_TILE}.model", "CONFLICT_CYCLES", (0.0, 0.5)),
        Constant(f"{_TILE}.model", "MASK_CYCLES", (0.0, 1.0)),
        Constant(f"{_TILE}.model", "HELD_WEIGHTS", (4, 1 << 20)),
        Constant(f"{_TILE}.body_ops", "EXPENSIVE", ({}, {"math": 24.0, "math.powf": 256.0})),
        Constant(f"{_TILE}.traffic", "HIDDEN", (0.8, 1.0)),
        Constant(f"{_TILE}.traffic", "CACHE_SHARE", (0.5, 1.0)),
        Constant(f"{_TILE}.search", "BUDGET", (12, 1 << 20)),
        Constant(f"{_TILE}.space", "VECTORS", ((8, 4, 2, 1), (8, 7, 6, 5, 4, 3, 2, 1))),
        Constant(f"{_TILE}.space", "MAX_ROWS", (12, 1 << 20)),
        Constant(f"{_TILE}.space", "WINDOW_OPS", (320, 1280)),
        Constant(f"{_TILE}.space", "FAR_UNROLL", (1, 16)),
        Constant(f"{_TILE}.space", "AHEAD", (2, 1 << 20)),
        Constant(f"{_TILE}.space", "AHEAD_ROWS", (6, 1 << 20)),
        Constant(f"{_TILE}.space", "AHEAD_PAIRS", (1, 1 << 20)),
        Constant(f"{_TILE}.space", "TRANSPOSED_BLOCK", (4, 1 << 20)),
        Constant(f"{_TILE}.space", "WINDOW_ROWS", ((), (2,))),
        Constant(f"{_TILE}.space", "MAX_BOUNDARY_TILES", (3, 1 << 20)),
        Constant(f"{_TILE}.space", "LONG_WINDOW", (8, 1 << 20)),
        Constant(f"{_TILE}.constraints", "UNROLLED", (64, 1 << 20)),
        Constant(f"{_TILE}.plan", "MAX_STRIDE", (2, 3)),
        Constant(f"{_TILE}.tiles", "OVERLAPPED", (8, 1 << 20)),
        Constant(f"{_TILE}.vectors", "MAX_WINDOW", (8, 32)),
        Constant(f"{_TILE}.nest", "LEAST_ROWS", (4, 16)),
        Constant(f"{_TILE}.nest", "LEAST_SUMMED", (8, 32)),
        Constant(f"{_TILE}.nest", "FAR_ROWS", (8, 32)),
        Constant(f"{_TILE}.nest", "SHARES", ({"L1": 0.15, "L2": 0.25}, {"L1": 0.6, "L2": 1.0})),
        Constant(f"{_TILE}.nest", "AHEAD", (1, 4)),
        Constant(f"{_TILE}.nest", "COLUMNS", (1, 4)),
        Constant(f"{_TILE}.nest", "FAR_COLUMNS", (2, 16)),
        Constant(f"{_TILE}.running", "BLOCKS", (32, 128)),
        Constant(f"{_TILE}.running", "FEW", (4, 64)),
        Constant(f"{_TILE}.space", "MOST_ALONG", (2, 8)),
        Constant(f"{_TILE}.sums", "FEW", (4, 64)),
        Constant(f"{_TILE}.sums", "LEAST", (2, 32)),
        Constant(f"{_TILE}.nest", "WRITTEN", (1, 6), of_programs=True),
        Constant(f"{_TILE}.sums", "PART", (0.0, 0.5), of_programs=True),
        Constant(_MERGE, "MOST", (8, 32), of_programs=True),
        Constant(_MERGE, "FEW", (2, 8), of_programs=True),
        Constant(_MERGE, "STRIPS", (0.35, 1.0), of_programs=True),
    )
}


@dataclass(frozen=True)
class Row:
    """The effect of another value."""

    constant: str
    value: str
    other: str
    target: str
    changed: int
    of: int
    mean: float
    """The mean ratio of the changed times to the original ones."""
    most: float

    def __str__(self) -> str:
        return (
            f"{self.target}: {self.constant} = {self.other} instead of {self.value} changes "
            f"{self.changed} of {self.of}, which take {self.mean - 1:+.1%} in the mean and "
            f"{self.most - 1:+.1%} at most"
        )


# ** what is scheduled **


@cache
def programs(target: str) -> Sequence[ModuleOp]:
    """Return the programs of cases and networks after kernels are formed."""
    cases = (case.build() for make in GROUPS.values() for case in make())
    return [_program(model, target) for model in (*cases, *map(load_model, NETWORKS))]


def _program(model: onnx.ModelProto, target: str) -> ModuleOp:
    source = open_source(model)
    shapes = {i.name: tuple(d if isinstance(d, int) else 1 for d in i.shape) for i in source.inputs}
    graph = source.graph(shapes)
    ctx, first = CompileContext(graph.weights), type(kernel_passes()[0])
    for _, steps in pipeline(make_options(target=target)):
        for step in steps:
            if isinstance(step, first):
                return graph.module
            step.apply(ctx, graph.module)
    raise AssertionError("the pipeline has the passes on kernels")


@cache
def single_kernels(target: str) -> Sequence[ModuleOp]:
    """Return the distinct kernels of the programs before scheduling, each in a module."""
    found: dict[Hashable, KernelOp] = {}
    scheduling = scheduling_passes(target)
    before = [step for step in kernel_passes(target) if step not in scheduling]
    for program in programs(target):
        for kernel in _kernels(_after(before, program)):
            kernel.sym_name, kernel.code, kernel.nodes = StringAttr("kernel"), None, None
            found.setdefault(structure(kernel), kernel.clone())
    return [ModuleOp([kernel]) for kernel in found.values()]


def forget() -> None:
    """Drop cached programs and kernels."""
    programs.cache_clear()
    single_kernels.cache_clear()


def _after(steps: Sequence[ModulePass], program: ModuleOp) -> ModuleOp:
    """Return a copy of a program after some passes."""
    program = program.clone()
    for step in steps:
        step.apply(Context(), program)
    return program


def _kernels(program: ModuleOp) -> Iterator[KernelOp]:
    yield from (op for op in program.body.block.ops if isinstance(op, KernelOp))


def _seconds(program: ModuleOp, target: str) -> float:
    """Return modelled seconds of the calls of a program; of one call, for a kernel without
    callers."""
    calls = Counter(op.callee_name for op in program.walk() if isinstance(op, CallOp))
    machine = targets.get(target)
    return sum(
        scheduled_seconds(kernel, machine) * calls.get(kernel.sym_name.data, not calls)
        for kernel in _kernels(program)
    )


# ** what changes **


def measure(constant: Constant, target: str) -> Iterator[Row]:
    """Compare each other value of a constant with its own on a target."""
    units = programs(target) if constant.of_programs else single_kernels(target)
    before = _scheduled(units, constant, target)
    times = {i: _seconds(program, target) for i, program in enumerate(before)}
    for other in constant.others:
        with patch(f"{constant.module}.{constant.name}", other):
            after = _scheduled(units, constant, target)
        changed = [
            i for i, (a, b) in enumerate(zip(before, after, strict=True)) if str(a) != str(b)
        ]
        ratios = [_seconds(after[i], target) / times[i] for i in changed]
        yield Row(
            constant.name,
            str(constant.value),
            str(other),
            target,
            len(changed),
            len(units),
            geometric_mean(ratios) if ratios else 1.0,
            max(ratios, default=1.0),
        )


def _scheduled(units: Sequence[ModuleOp], constant: Constant, target: str) -> Sequence[ModuleOp]:
    """Return copies of the units after their passes, without choices cached for another value."""
    tables.forget()
    steps = kernel_passes(target) if constant.of_programs else scheduling_passes(target)
    return [_after(steps, unit) for unit in units]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Command("constants", "Set constants of the tile stage to other values.")
    parser.add_names("constant", CONSTANTS, str.__contains__)
    text = "comma-separated (default: avx512)"
    parser.add_argument("--targets", type=lambda t: t.split(","), default=["avx512"], help=text)
    return parser.parse(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Evaluate and print."""
    options = _parse(arguments)
    where = show_machine()
    rows: list[Row] = []
    for target in options.targets:
        for name in options.names:
            for row in measure(CONSTANTS[name], target):
                rows.append(row)
                print(row, flush=True)
    write_figures(options.json, where, rows=[asdict(row) for row in rows])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
