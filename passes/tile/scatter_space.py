"""The schedules of an indexed write, such as a scatter: its loops in the order of memory, with or
without vector lanes.

    %o = tile.contract + [j: 64 | i: 100 | r: 1000] (%idx[i], %u[i, j]) init %d -> [r, j] schedule
           #tile.schedule<[i, j] reduce [] vector j 8 by 4>

All loops are in the schedule's order, as nothing stays in registers from point to point.
"""

from __future__ import annotations

from collections.abc import Iterator

from tessella.dialects.tile import ContractOp, Schedule
from tessella.dialects.tile.flat import Flat
from tessella.passes.tile.choice import Choice
from tessella.passes.tile.problem import Problem
from tessella.passes.tile.space import element_bits

VECTORS = (4, 2, 1)
"""The numbers of vectors that one iteration of the innermost loop may write; the first one that
fits is used."""


def scatter_choice(problem: Problem) -> Choice:
    """Return the schedule of an indexed write with the fewest modelled cycles."""
    return min(scatter_choices(problem), key=lambda choice: choice.cycles)


def scatter_choices(problem: Problem) -> Iterator[Choice]:
    """Yield the valid schedules of an indexed write, scored."""
    model, flat = problem.model({}), problem.plain
    vectors = (s for name in flat.free for s in _by_lanes(problem, name))
    for s in (Schedule(_order(problem.op, flat, None), ()), *vectors):
        if model.plan(s).misfit(s) is None:
            yield Choice(s, model.estimate(s))


def _by_lanes(problem: Problem, name: str) -> Iterator[Schedule]:
    """Yield the schedule with lanes over an index, if the index moves the result by single
    elements."""
    flat, lanes = problem.plain, problem.target.lanes(element_bits(problem.op))
    index = next(i for i in flat.indices if i.name == name)
    if index.reduced or flat.out.stride(name) != 1 or lanes < 2:
        return
    fits = (n for n in VECTORS if n * lanes <= flat.ranges[name])
    vectors = 1 if name in problem.symbolic else next(fits, 1)
    yield Schedule(_order(problem.op, flat, name), (), name, lanes, vectors)


def _order(op: ContractOp, flat: Flat[int], vector: str | None) -> tuple[str, ...]:
    """Return the order of the loops of an indexed write, outermost first.

    The loops are sorted by their strides through the operands, then through the result. Reduced
    indices keep their order, and lanes are innermost.
    """

    def step(name: str) -> tuple[bool, int, int]:
        read = max((abs(a.stride(name)) for a in flat.accesses[: flat.inputs]), default=0)
        return name != vector, read, abs(flat.out.stride(name))

    reduced = iter([i.name for i in flat.indices if i.reduced])
    inward = {i.name for i in flat.indices if i.reduced}
    ranked = sorted(flat.free, key=step, reverse=True)
    return tuple(next(reduced) if name in inward else name for name in ranked)
