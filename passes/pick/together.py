"""The estimated time of a few ops together, outside any function."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tessella.dialects.nn.core import NnOp
from tessella.kernels.cost import CALL
from tessella.passes.pick.by_cost import ProblemBuilder, fuses
from tessella.passes.pick.candidates import Candidate
from tessella.passes.pick.kernel_cost import Prices
from tessella.passes.pick.rivals import without_rivals
from tessella.passes.pick.scratch import scratch_group
from tessella.passes.pick.selection import solve
from tessella.passes.tile.cost import cost_after
from tessella.passes.tile_stage import kernel_passes

Group = Sequence[NnOp]


def seconds_together(options: Mapping[NnOp, Sequence[Candidate]], prices: Prices) -> float:
    """Return the least cost of the ops in seconds, including the conversions between them.
    ``options`` lists the ops, operands first.

    Elementwise ops that join their producer are estimated with it, as one kernel.
    """
    left = without_rivals(options, prices, math.inf)
    builder = ProblemBuilder(prices)
    problem = builder.build_alone(left)
    choice = solve(problem).choice
    chosen = {op: listed[choice[builder.nodes[op]]] for op, listed in left.items()}
    free = [[0.0] * len(costs) for costs in problem.costs]
    conversions = replace(problem, costs=free, pairs=()).total(choice)
    groups = _groups(builder, left, chosen)
    return conversions + sum(_seconds(group, chosen, prices) for group in groups)


def _groups(
    builder: ProblemBuilder,
    options: Mapping[NnOp, Sequence[Candidate]],
    chosen: Mapping[NnOp, Candidate],
) -> Sequence[Group]:
    """Return the groups of ops that become one kernel each."""
    groups: dict[NnOp, list[NnOp]] = {}
    for op in options:
        producer = builder.joined(op, options)
        is_joined = producer is not None and _join(chosen[producer], chosen[op])
        groups[op] = groups[producer] if is_joined and producer is not None else []
        groups[op].append(op)
    return list({id(group): group for group in groups.values()}.values())


def _join(producer: Candidate, consumer: Candidate) -> bool:
    has_statements = all(c.kernel.lower is not None for c in (producer, consumer))
    return has_statements and fuses(producer, consumer)


def _seconds(group: Group, chosen: Mapping[NnOp, Candidate], prices: Prices) -> float:
    if len(group) == 1:
        [op] = group
        return prices.of(op).price(chosen[op].kernel, chosen[op].place)
    sites = [(op, chosen[op].kernel, chosen[op].place) for op in group]
    found = cost_after(kernel_passes(shared=prices.shared), scratch_group(sites), prices.target)
    seconds = CALL + found.seconds
    if prices.function is None:
        return seconds
    # The caller's function knows single kernels only.
    price = sum(prices.of(op).price(kernel, place) for op, kernel, place in sites)
    return (
        seconds * price / sum(prices.of(op).seconds(kernel, place) for op, kernel, place in sites)
    )
