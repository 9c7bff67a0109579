"""Set constants of the compiler to other values, and count what changes.

    python -m bench.constants [NAME ...] --targets avx512,avx2,neon --json results.json

Each line has, for another value of a constant: the kernels that get other schedules or other shared
loops, and how much longer these take by the model as it is, in the geometric mean and at most. For
a constant of the pick, of fusion and of merging it counts networks; for one of the lowering, the
kernels that get other code, and its ops. Kernels are those of ``bench.cases``, of ``bench.ops`` at
the size of the second level of cache, and of ``NETWORKS``.
The model does not know what a constant is about that bounds code, spills or misses: such a figure
is from ``python -m bench.candidates`` or ``bench.kernels`` with the source changed.

A constant needs a row in ``CONSTANTS`` to be evaluated: its module, and the other values.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass
from functools import cache, partial
from importlib import import_module
from itertools import dropwhile, takewhile
from typing import Any
from unittest.mock import patch

import onnx
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from bench.cases import GROUPS
from bench.command import Command, show_machine, write_figures
from bench.op_cases import OPS
from tessella import targets
from tessella.dialects.graph import CompileContext
from tessella.dialects.structure import structure
from tessella.dialects.tile import CallOp, KernelOp
from tessella.driver.build.pipeline import pipeline
from tessella.driver.options import make_options
from tessella.frontends.compile import open_source
from tessella.lowering.tile_to_loops import ConvertTileToLoopsPass
from tessella.passes.pick_kernels import PickKernelsPass
from tessella.passes.tile import conversions
from tessella.passes.tile.conversions import ConversionCost
from tessella.passes.tile.cost import scheduled_seconds, scheduling_passes
from tessella.passes.tile_stage import kernel_passes
from tessella.support import tables
from tessella.tools.measure import geometric_mean
from tessella.tools.peers import Feeds
from tests.models import load_model

NETWORKS = (
    *("squeezenet", "shufflenet", "resnet50", "mobilenet_opset18", "efficientnet_b0"),
    *("convnext", "vit", "swin", "gpt2", "unet"),
)

OP_BYTES = 512 << 10
"""The bytes of the inputs and outputs of single ops."""


@dataclass(frozen=True)
class Constant:
    """A constant of a module. Other modules must not import it by name."""

    module: str
    name: str
    others: Sequence[Any]
    """The values to compare with."""
    scope: str = "schedules"
    """The passes that depend on it: one of ``SCOPES``."""

    @property
    def value(self) -> Any:
        return getattr(import_module(self.module), self.name)


def _scaled(factor: float) -> dict[tuple[str, bool], ConversionCost]:
    """Return all costs of conversions times a factor."""
    return {
        key: ConversionCost(*(factor * part for part in astuple(cost)))
        for key, cost in conversions.COSTS.items()
    }


_PASSES, _TILE, _LOWERING = "tessella.passes", "tessella.passes.tile", "tessella.lowering"
_MERGE, _FUSE = f"{_PASSES}.tile_merge_kernels", f"{_PASSES}.fuse_elementwise"
_PARALLEL = f"{_PASSES}.tile_parallelize"

CONSTANTS = {
    f"{row.module.removeprefix('tessella.').removeprefix('passes.')}.{row.name}": row
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
        Constant(f"{_TILE}.space", "PAGED_BLOCK", (4, 16, 1 << 20)),
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
        Constant(
            f"{_TILE}.sums", "BLOCKS", ((*range(16, 33),), (*range(128, 257),)), scope="kernels"
        ),
        Constant(f"{_TILE}.conversions", "WIDENED_VECTOR", (0.5, 2.0)),
        Constant(f"{_TILE}.conversions", "WIDENED_GROUP", (1.0, 6.0)),
        Constant(f"{_TILE}.conversions", "COSTS", (_scaled(0.5), _scaled(2.0))),
        Constant(f"{_TILE}.sums", "FEW", (4, 64)),
        Constant(f"{_TILE}.sums", "LEAST", (2, 32)),
        Constant(f"{_TILE}.nest", "WRITTEN", (1, 6), scope="kernels"),
        Constant(f"{_TILE}.sums", "PART", (0.0, 0.5), scope="kernels"),
        Constant(f"{_TILE}.selections", "READ", (1.0, 4.0), scope="networks"),
        Constant(f"{_TILE}.selections", "TRIED", (30.0, 120.0), scope="networks"),
        Constant(f"{_TILE}.selections", "RULED", (7.0, 28.0), scope="networks"),
        Constant(f"{_TILE}.selections", "JOINED", (2.0, 8.0), scope="networks"),
        Constant(f"{_TILE}.sorting", "COMPARED", (2.5, 10.0)),
        Constant(f"{_TILE}.sorting", "TRIED", (30.0, 120.0)),
        Constant(f"{_TILE}.sorting", "MOVED", (3.5, 14.0)),
        Constant(f"{_TILE}.sorting", "EXCHANGED", (2.0, 8.0)),
        Constant(f"{_TILE}.sorting", "SPREAD", (4.0, 16.0)),
        Constant(f"{_TILE}.sorting", "DIGIT", (2.5, 10.0)),
        Constant(f"{_TILE}.sorting", "SLOT", (1.0, 4.0)),
        Constant(f"{_TILE}.sorting", "FOUND", (2.0, 8.0)),
        Constant(f"{_TILE}.sorting", "DIGITS", ((8,), (11,))),
        Constant(f"{_TILE}.scatter_cycles", "PLACE_CYCLES", (1.0, 4.0)),
        Constant(f"{_TILE}.scatter_space", "VECTORS", ((1,), (8, 4, 2, 1))),
        Constant(f"{_TILE}.parallel", "WORTH", (1, 4), scope="networks"),
        Constant(_MERGE, "MOST", (8, 32), scope="kernels"),
        Constant(_MERGE, "FEW", (2, 8), scope="kernels"),
        Constant(_MERGE, "STRIPS", (0.35, 1.0), scope="kernels"),
        Constant(f"{_PASSES}.tile_split_sums", "LINE_CYCLES", (0, 80), scope="kernels"),
        Constant(f"{_PASSES}.tile_split_sums", "FIRST_LINES", (2, 8), scope="kernels"),
        Constant(f"{_TILE}.model", "EXTRACT_OPS", (1.0, 4.0)),
        Constant(f"{_TILE}.model", "PLACE_OPS", (1.0, 4.0)),
        Constant(_FUSE, "MAX_OPS", (40, 640), scope="networks"),
        Constant(_FUSE, "RECOMPUTED", (0, 32), scope="networks"),
        Constant(f"{_PASSES}.pick.by_cost", "TOLERANCE", (1.0, 1.3), scope="networks"),
        Constant(_PARALLEL, "WAKES", (1, 4), scope="networks"),
        Constant(_PARALLEL, "BRIEF", (5, 20), scope="networks"),
        Constant(f"{_TILE}.parallel", "THREADS", ((2, 4), (16, 32)), scope="networks"),
        Constant(f"{_LOWERING}.statement", "FEW", (0.5, 1.0), scope="loops"),
        Constant(f"{_LOWERING}.statement", "HELD", (12, 48), scope="loops"),
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
    """The mean ratio of the changed times to the original ones; in ``loops``, of ops."""
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
    return _all_until(type(kernel_passes()[0]), target)


@cache
def networks(target: str) -> Sequence[ModuleOp]:
    """Return the programs before kernels are picked."""
    return _all_until(PickKernelsPass, target)


def _all_until(last: type[ModulePass], target: str) -> Sequence[ModuleOp]:
    """Return the programs of all models before a pass of the pipeline."""
    return [_until(last, model, feeds, target) for model, feeds in _models()]


def _models() -> Iterator[tuple[onnx.ModelProto, Feeds]]:
    """Yield each model, with inputs on whose values shapes may depend."""
    yield from ((case.build(), {}) for make in GROUPS.values() for case in make())
    for op in OPS.values():
        n = op.fitted(OP_BYTES)
        yield op.model(n), op.feeds(n)
    yield from ((load_model(name), {}) for name in NETWORKS)


def _until(last: type[ModulePass], model: onnx.ModelProto, feeds: Feeds, target: str) -> ModuleOp:
    """Return the program before a pass of the pipeline."""
    source = open_source(model)
    shapes = {i.name: tuple(d if isinstance(d, int) else 1 for d in i.shape) for i in source.inputs}
    determining = {name: feeds[name] for name in source.determining if name in feeds}
    graph = source.graph(shapes, determining)
    ctx = CompileContext(graph.weights)
    for step in takewhile(lambda step: not isinstance(step, last), _steps(target)):
        step.apply(ctx, graph.module)
    return graph.module


def _steps(target: str) -> Sequence[ModulePass]:
    return [step for _, steps in pipeline(make_options(target=target)) for step in steps]


def _between(first: type[ModulePass], end: type[ModulePass], target: str) -> Sequence[ModulePass]:
    """Return the passes of the pipeline from one on, and before another one."""
    found = dropwhile(lambda step: not isinstance(step, first), _steps(target))
    return list(takewhile(lambda step: not isinstance(step, end), found))


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


@cache
def scheduled(target: str) -> Sequence[ModuleOp]:
    """Return the programs before they are lowered to loops."""
    return _all_until(ConvertTileToLoopsPass, target)


def forget() -> None:
    """Drop cached programs and kernels."""
    for kept in (networks, programs, single_kernels, scheduled):
        kept.cache_clear()


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


def _ops(program: ModuleOp, target: str) -> float:
    return sum(1 for _ in program.walk())


@dataclass(frozen=True)
class Scope:
    """The programs or kernels that a constant changes, and the passes that read it."""

    units: Callable[[str], Sequence[ModuleOp]]
    steps: Callable[[str], Sequence[ModulePass]]
    cost: Callable[[ModuleOp, str], float]


SCOPES = {
    "schedules": Scope(single_kernels, scheduling_passes, _seconds),
    "kernels": Scope(programs, kernel_passes, _seconds),
    "networks": Scope(
        networks, partial(_between, PickKernelsPass, ConvertTileToLoopsPass), _seconds
    ),
    "loops": Scope(scheduled, lambda target: [ConvertTileToLoopsPass()], _ops),
}


# ** what changes **


def measure(constant: Constant, target: str) -> Iterator[Row]:
    """Compare each other value of a constant with its own on a target."""
    scope = SCOPES[constant.scope]
    before = _changed(scope, target)
    times = {i: scope.cost(program, target) for i, program in enumerate(before)}
    for other in constant.others:
        with patch(f"{constant.module}.{constant.name}", other):
            after = _changed(scope, target)
        changed = [
            i for i, (a, b) in enumerate(zip(before, after, strict=True)) if str(a) != str(b)
        ]
        ratios = [scope.cost(after[i], target) / times[i] for i in changed]
        yield Row(
            constant.name,
            str(constant.value),
            str(other),
            target,
            len(changed),
            len(before),
            geometric_mean(ratios) if ratios else 1.0,
            max(ratios, default=1.0),
        )


def _changed(scope: Scope, target: str) -> Sequence[ModuleOp]:
    """Return copies of the units after their passes, without choices cached for another value."""
    units = scope.units(target)
    tables.forget()
    return [_after(scope.steps(target), unit) for unit in units]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Command("constants", "Set constants of the compiler to other values.")
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
