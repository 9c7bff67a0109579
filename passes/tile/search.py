"""The search for the schedule of a statement.

Candidates are register tiles (``space.py``). Each has a lower bound of its cycles, which is much
cheaper to compute than the model's estimate. The search scores candidates in the order of their
bounds, and ends when no bound is below the best cycles, or when its budget is spent. The pick's
costs and the schedules come from the same search.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator
from dataclasses import replace
from math import inf, prod

from tessella.dialects.elements import element_of
from tessella.dialects.tile import ContractOp, KernelOp, Schedule
from tessella.dialects.tile.nest import asks_ahead, lives_within, steps
from tessella.passes.tile.choice import Choice
from tessella.passes.tile.estimates import bytes_in
from tessella.passes.tile.model import CostModel
from tessella.passes.tile.partial import partial_sums
from tessella.passes.tile.plan import streams
from tessella.passes.tile.problem import Problem
from tessella.passes.tile.scatter_space import scatter_choice, scatter_choices
from tessella.passes.tile.space import (
    TileFamily,
    along_running,
    can_go_on,
    element_bits,
    families,
    scalar_choice,
)
from tessella.passes.tile.statement_key import statement_key
from tessella.passes.tile.tiles import ends_of
from tessella.passes.tile.traffic import room
from tessella.support.tables import of_compilations, remembered
from tessella.targets import Target

BUDGET = 24
"""The most candidates that are scored (`python -m bench.constants search`)."""
KEPT = 4096
"""The most choices that a compilation caches for equal statements."""

_CHOICES: dict[Hashable, Choice] = of_compilations(512)  # some 7 KB each


def best_schedule(
    op: ContractOp, kernel: KernelOp, target: Target, *, shared: bool = False
) -> Choice:
    """Return the schedule of a statement with the fewest modelled cycles.

    With ``shared``, constants are packed in panels that programs for any number of rows share. The
    statement does not change: callers apply ``Choice.schedule`` and ``Choice.places``. Choices are
    cached: a statement equal to an earlier one, such as one that was estimated to pick a kernel, is
    not searched again.
    """
    key = statement_key(op, kernel), target, shared
    return remembered(_CHOICES, key, KEPT, lambda: _search(Problem(op, kernel, target, shared)))


def _search(problem: Problem) -> Choice:
    if problem.op.is_scatter:
        return scatter_choice(problem)
    best = _in_order(problem, _blocked(problem, _best_tile(problem)))
    flat = problem.model(best.places).flat
    partial = partial_sums(problem.op, flat, best.schedule, problem.product)
    if partial is not None and partial[0] in problem.symbolic:
        partial = None
    prefetch = _prefetches(problem, best) or _streams(problem, best)
    rows = problem.symbolic.get(best.schedule.rows)
    ends = () if rows is None else ends_of(rows, best.schedule.row_tile)
    schedule = replace(best.schedule, partial=partial, prefetch=prefetch, ends=ends)
    return replace(best, schedule=schedule)


def all_choices(op: ContractOp, kernel: KernelOp, target: Target) -> Iterator[Choice]:
    """Yield every valid schedule of a statement with its estimate, without blocks for the
    caches."""
    problem, copying = Problem(op, kernel, target), True
    if op.is_scatter:
        yield from scatter_choices(problem)
        return
    for family, height in _tiles(problem):
        choice = family.choice(height)
        if choice is None:
            continue
        copying = copying and choice.copies > 0
        yield choice
    if copying:
        yield scalar_choice(problem)


def _tiles(problem: Problem) -> Iterator[tuple[TileFamily, int]]:
    """Yield the valid register tiles of a statement: a family, and the number of rows."""
    for family in families(problem):
        yield from ((family, height) for height in family.heights())


def _best_tile(problem: Problem) -> Choice:
    ranked = sorted(
        (family.bound(height), rank, family, height)
        for rank, (family, height) in enumerate(_tiles(problem))
    )
    best: tuple[float, int, Choice] | None = None
    for bound, rank, family, height in ranked[:BUDGET]:
        if best is not None and bound > best[0]:
            break
        choice = family.choice(height, best[0] if best is not None else inf)
        if choice is not None:
            entry = (choice.cycles, rank, choice)
            best = entry if best is None or entry[:2] < best[:2] else best
    if best is None:
        return scalar_choice(problem)
    if best[2].copies:  # scalars copy nothing
        return min(best[2], scalar_choice(problem), key=lambda choice: choice.cycles)
    return best[2]


def _blocked(problem: Problem, choice: Choice) -> Choice:
    """Return the choice with one free index divided into blocks, for which operands stay in a
    cache, if blocks reduce memory traffic; otherwise the choice itself."""
    if problem.op.is_map or choice.schedule.vector is None or not choice.estimate.memory:
        return choice
    model = problem.model(choice.places)
    whole = {*problem.reaches, *problem.symbolic}
    schedules = [choice.schedule, *_with_blocks(model, choice.schedule, whole)]
    traffics = [model.traffic.cycles(s) for s in schedules]
    best = min(range(len(schedules)), key=lambda i: max(traffics[i].values()))
    estimate = replace(choice.estimate, traffic=traffics[best])
    return replace(choice, schedule=schedules[best], estimate=estimate)


def _in_order(problem: Problem, choice: Choice) -> Choice:
    """Return the choice with its loops in the memory order of the result, the running index's loop
    among them. The choice itself is returned if the statement fits into the second-level cache, or
    cannot run so.

    In the other orders, register tiles visit rows that lie far apart in memory.
    """
    op, s, model = problem.op, choice.schedule, problem.model(choice.places)
    flat = model.flat
    moved = sum(bytes_in(value) for value in op.tensors)
    if flat.running is None or not can_go_on(op) or s.vector not in flat.free:
        return choice
    if moved <= room(problem.target.l2) or choice.places:
        return choice
    order = sorted((*flat.free, flat.running), key=lambda name: -abs(flat.out.stride(name)))
    reduction = tuple(name for name in s.reduction if name != flat.running)
    schedule = Schedule(
        tuple(order), reduction, s.vector, s.lanes, vectors=along_running(s.vectors)
    )
    return replace(choice, schedule=schedule, estimate=model.estimate(schedule), penalty=1.0)


def _with_blocks(model: CostModel, s: Schedule, whole: Container[str]) -> Iterator[Schedule]:
    """Yield the schedule with one free index in blocks, for each index that may be divided and each
    block size.

    The vector index is divided only if an input is a window, whose cache lines other rows read
    again.
    """
    flat, tiles = model.flat, {s.rows: s.row_tile, s.vector: s.width}
    for name in s.order:
        if name in flat.pinned or name in whole:
            continue
        size = tiles.get(name, 1)
        if name == s.vector:
            if not model.has_windows(s):
                continue
            size //= 2
        while size * 2 < flat.ranges[name]:
            size *= 2
            yield replace(s, blocks=((name, size),))


def _prefetches(problem: Problem, choice: Choice) -> bool:
    """Return whether register tiles should prefetch the packed panel after the one that they share.

    The second-level cache must have room for both panels. Weights come from memory, as the other
    weights of the program have displaced them from the caches.
    """
    s, model = choice.schedule, problem.model(choice.places)
    flat = model.flat
    if s.vector is None or s.vector not in flat.free:
        return False
    panels = [o for o in model.plan(s).read if o.is_panel]
    inside = s.order[s.order.index(s.vector) + 1 :]
    tiles = prod(-(-flat.ranges[n] // (s.row_tile if n == s.rows else 1)) for n in inside)
    points = prod(flat.ranges[n] for n in flat.reduced)
    size = points * s.width * element_bits(problem.op) // 8
    room = 2 * size <= problem.target.l2
    return bool(panels) and room and tiles > 1 and flat.ranges[s.vector] > s.width


def _streams(problem: Problem, choice: Choice) -> bool:
    """Return whether the operands of a reduction should be prefetched, as they stream from memory.

    No cache holds these operands, and no iteration of shared loops prefetches them. Elementwise
    statements also wait for their stores, and would gain nothing.
    """
    op, flat = problem.op, problem.model(choice.places).flat
    if op.is_map or asks_ahead(op):
        return False
    read = {op.tensors[i] for i in streams(op, flat, choice.schedule.vector)}
    points = steps(op) * prod(flat.ranges.values())
    moved = (
        min(bytes_in(value), points * element_of(value.type).size)
        for value in read
        if not lives_within(value)
    )
    return sum(moved) > problem.target.l3 // 2
