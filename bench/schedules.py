"""The nests of a kernel and the schedules of a statement, and the code under each."""

from __future__ import annotations

import functools
import itertools
import math
import random
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.passes import ModulePass

from bench.native import Array, Code, compile_kernels
from tessella import targets
from tessella.dialects.layout import Layout
from tessella.dialects.nn.core import dtype_of, shape_of, tensor_type
from tessella.dialects.tile import (
    ContractOp,
    KernelOp,
    Nest,
    NestAttr,
    Schedule,
    ScheduleAttr,
)
from tessella.dialects.tile.check_nest import is_valid
from tessella.dialects.tile.flat import layout_of
from tessella.dialects.tile.merge import merge_indices, with_places
from tessella.driver.build.pipeline import pipeline
from tessella.driver.options import CheckedOptions, make_options
from tessella.driver.stages.stage_file import stage_context
from tessella.frontends.compile import open_source
from tessella.passes.tile.choice import Choice
from tessella.passes.tile.search import all_choices
from tessella.passes.tile.storage import store_results
from tessella.passes.tile_merge_indices import TileMergeIndicesPass
from tessella.passes.tile_parallelize import TileParallelizePass
from tessella.passes.tile_schedule import TileSchedulePass, set_schedule
from tessella.support.decisions import known, known_all

KNOWN_TILES = {
    16: ((6, 4), (7, 4), (8, 3), (9, 3), (12, 2), (13, 2), (14, 2), (6, 2), (24, 1), (28, 1)),
    8: ((6, 2), (4, 3), (12, 1), (5, 2), (3, 4)),
    4: ((8, 2), (6, 4), (4, 4), (8, 3), (12, 2)),
}
"""Register tiles, rows x vectors, that libraries use, by lanes: such as 6x64 of AVX-512."""

_UNROLLS = (1, 2, 4)
_STEPS = (1 / 8, 1 / 4, 1 / 2, 3 / 4, 3 / 2, 2, 4, 8)

MAX_TEXT = 600_000
"""The most characters of LLVM IR of a candidate; more takes LLVM many seconds."""


@dataclass(frozen=True)
class Problem:
    """A statement to schedule; it can be sent to another process."""

    text: str
    """The module before its statements are scheduled."""
    kernel: str
    statement: int
    """Which of the kernel's statements it is: the one with the most points."""
    options: CheckedOptions


@dataclass(frozen=True)
class Candidate:
    """Decisions that differ from the model's; None is the model's own."""

    choice: Choice | None = None
    """The schedule of the problem's statement."""
    nest: Nest | None = None
    """The loops that the kernel's statements share; without loops, they run one after another."""

    def __str__(self) -> str:
        return str(ScheduleAttr(self.choice.schedule) if self.choice is not None else self.nest)


@dataclass(frozen=True)
class Compiled:
    """A problem's code under a schedule."""

    kernel: Code
    layouts: tuple[Layout, ...]
    """The layouts of the kernel's operands."""
    copies: tuple[Code, ...]
    """Kernels that copy operands into these layouts."""
    schedule: str


def problem_of(model: onnx.ModelProto, target: str | None = None) -> Problem:
    """Return the statement of a model with the most points; activations are channels-last."""
    arch = targets.resolve(target or "native").arch
    options = make_options(places=(f"{arch}/f32/nhwc",), target=target)
    source = open_source(model)
    shapes = {i.name: tuple(d for d in i.shape if isinstance(d, int)) for i in source.inputs}
    graph = source.graph(shapes)
    ctx = stage_context(graph.weights)
    for step in _passes(options)[0]:
        step.apply(ctx, graph.module)
    found = [
        (_points(op), kernel.sym_name.data, number)
        for kernel in _kernels(graph.module).values()
        for number, op in enumerate(kernel.statements)
    ]
    _, name, number = max(found, key=lambda entry: entry[0])
    return Problem(str(graph.module), name, number, options)


def compile_candidate(problem: Problem, candidate: Candidate) -> Compiled:
    """Return the code of a candidate.

    Raises any error of lowering, and ValueError if the code would be too large.
    """
    module = _module(problem.text).clone()
    kernel = _kernels(module)[problem.kernel]
    statement = kernel.statements[problem.statement]
    if candidate.nest is not None:
        _set_nest(kernel, candidate.nest)
    if candidate.choice is not None:
        merge_indices(statement)
        chosen = candidate.choice
        set_schedule(statement, chosen.schedule, chosen.places, problem.options.arch)
    before = set(_kernels(module))
    ctx = stage_context()
    schedule, layouts, after = "", tuple[Layout, ...](), before
    for step in _passes(problem.options)[1]:
        step.apply(ctx, module)
        if isinstance(step, TileSchedulePass):
            nest = "" if kernel.nest is None else f"{kernel.nest} "
            schedule = f"{nest}{statement.schedule}"
            layouts = tuple(map(layout_of, kernel.body.block.args))
            after = set(_kernels(module))
    names = {problem.kernel, *(after - before)}
    most = MAX_TEXT if candidate != Candidate() else None
    codes = compile_kernels(module, targets.resolve(problem.options.target), names, most)
    main = codes.pop(problem.kernel)
    return Compiled(main, layouts, tuple(codes.values()), schedule)


@dataclass(frozen=True)
class Rejected:
    """A candidate without code."""

    schedule: str
    reason: str


def try_candidate(problem: Problem, candidate: Candidate) -> Compiled | Rejected:
    """Return the code, or why there is none: not every schedule can be lowered."""
    try:
        return compile_candidate(problem, candidate)
    except Exception as error:
        reason = "".join(traceback.format_exception_only(error)).strip()
        return Rejected(str(candidate), reason)


def _passes(options: CheckedOptions) -> tuple[list[ModulePass], list[ModulePass]]:
    """The passes up to the merging of indices for the first schedules, and from there on. Threads
    divide nothing: a kernel is one function then, which one thread runs."""
    passes = [
        step
        for _, steps in pipeline(options)
        for step in steps
        if not isinstance(step, TileParallelizePass)
    ]
    first = next(i for i, step in enumerate(passes) if isinstance(step, TileMergeIndicesPass))
    return passes[:first], passes[first:]


@functools.lru_cache(maxsize=1)
def _module(text: str) -> ModuleOp:
    return Parser(stage_context(), text).parse_module()


def _kernels(module: ModuleOp) -> dict[str, KernelOp]:
    return {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, KernelOp)}


def _points(op: ContractOp) -> int:
    return math.prod(known_all(index.range for index in op.index_list))


def operands_of(problem: Problem) -> list[Array]:
    """Return random arrays for the kernel's operands, in dimension order."""
    rng = np.random.default_rng(0)
    arguments = _kernels(_module(problem.text))[problem.kernel].body.block.args
    arrays: list[Array] = []
    for argument in arguments:
        dtype = dtype_of(tensor_type(argument).element_type)
        arrays.append(rng.standard_normal(shape_of(argument)).astype(dtype))
    return arrays


# ** which candidates **


def candidates(problem: Problem, limit: int) -> list[Candidate]:
    """Return up to ``limit`` candidates, deterministically: other nests, then schedules of the
    statement."""
    others = [Candidate(nest=nest) for nest in nests(problem)][:limit]
    return others + [Candidate(choice) for choice in choices(problem, limit - len(others))]


def nests(problem: Problem) -> list[Nest]:
    """Return other steps of the loops that a kernel's statements share, and no sharing."""
    kernel = _kernels(_module(problem.text).clone())[problem.kernel]
    if kernel.nest is None:
        return []
    found, own = [Nest(())], kernel.nest.data
    for number, loop in enumerate(own.loops):
        extent = known(loop.extent)
        steps = {max(1, round(loop.step * factor)) for factor in _STEPS} | {extent}
        for step in sorted(steps - {loop.step}):
            loops = (*own.loops[:number], replace(loop, step=step), *own.loops[number + 1 :])
            nest = replace(own, loops=loops)
            if step <= extent:
                _set_nest(kernel, nest)
                if is_valid(kernel, kernel.nest):
                    found.append(nest)
                _set_nest(kernel, own)
    return found


def _set_nest(kernel: KernelOp, nest: Nest) -> None:
    """Make the statements share these loops, whose indices they know, or none."""
    if nest.loops:
        kernel.nest = NestAttr(nest)
        store_results(kernel)
        return
    kernel.nest = None
    for op in kernel.statements:
        op.at = op.storage = None


def choices(problem: Problem, limit: int) -> list[Choice]:
    """Return up to ``limit`` candidates, deterministically.

    They are known tiles, then half of the model's own list, then variations of both.
    """
    kernel = _kernels(_module(problem.text).clone())[problem.kernel]
    statement = kernel.statements[problem.statement]
    merge_indices(statement)
    listed = list(all_choices(statement, kernel, targets.resolve(problem.options.target)))
    known = list(_known(statement, listed))
    varied = [new for choice in (*known, *listed) for new in _variations(statement, choice)]
    rng = random.Random(0)
    rng.shuffle(listed)
    rng.shuffle(varied)
    half = max(limit - len(known), 0) // 2
    ordered = (*known, *listed[:half], *varied, *listed[half:])
    distinct = {(c.schedule, str(c.places)): c for c in ordered}
    return list(distinct.values())[:limit]


def _known(op: ContractOp, listed: Iterable[Choice]) -> Iterator[Choice]:
    """Yield the known register tiles over each index of rows, whether or not the model lists
    them."""
    seen: set[tuple[str | None, str | None, int]] = set()
    for choice in listed:
        s = choice.schedule
        key = (s.vector, s.rows, s.vectors)
        if s.rows is None or key in seen:
            continue
        seen.add(key)
        for row_tile, vectors in KNOWN_TILES.get(s.lanes, ()):
            if vectors == s.vectors and row_tile <= _ranges(op, choice)[s.rows]:
                # the unrolling was meant for the fewer rows of the listed choice
                unroll = min(s.unroll, _UNROLLS[-1])
                yield replace(choice, schedule=replace(s, row_tile=row_tile, unroll=unroll))


def _variations(op: ContractOp, choice: Choice) -> Iterator[Choice]:
    """Yield the choice with other loop orders, other unrolling, and blocks."""
    s = choice.schedule
    axes = (_orders(s), _reductions(s), _UNROLLS, ((), *_blocks(op, choice)))
    for order, reduction, unroll, blocks in itertools.product(*axes):
        yield replace(
            choice,
            schedule=replace(s, order=order, reduction=reduction, unroll=unroll, blocks=blocks),
        )


def _orders(s: Schedule) -> list[tuple[str, ...]]:
    """Return the order itself, and with the vectors' loop outermost or innermost."""
    others = tuple(name for name in s.order if name != s.vector)
    if s.vector not in s.order:
        return [s.order, s.order[::-1]]
    assert s.vector is not None
    orders = (s.order, (s.vector, *others), (*others, s.vector), (*others[::-1], s.vector))
    return list(dict.fromkeys(orders))


def _reductions(s: Schedule) -> list[tuple[str, ...]]:
    """Return the order of the reduced indices, and the one with the first of them innermost."""
    return list(dict.fromkeys((s.reduction, (*s.reduction[1:], *s.reduction[:1]))))


def _blocks(op: ContractOp, choice: Choice) -> Iterator[tuple[tuple[str, int], ...]]:
    """Yield one free index in blocks, of 2 and of 8 steps."""
    s = choice.schedule
    ranges, pinned = _ranges(op, choice), with_places(op, choice.places).pinned
    for name in s.order:
        if name == s.vector or name in pinned:
            continue
        step = s.row_tile if name == s.rows else 1
        yield from (((name, n * step),) for n in (2, 8) if n * step < ranges[name])


def _ranges(op: ContractOp, choice: Choice) -> Mapping[str, int]:
    ranges = with_places(op, choice.places).ranges
    return {name: known(size) for name, size in ranges.items()}
