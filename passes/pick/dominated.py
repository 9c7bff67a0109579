"""Elimination of candidates that cannot be part of the best choice.

A candidate is eliminated if another candidate of the op always costs less, even if all values
around it are converted to and from its places. A lower bound on the eliminated candidate's cost is
enough, so it is never estimated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tessella.dialects.nn.core import NnOp
from tessella.dialects.nn.elementwise import ElementwiseOp
from tessella.kernels.cost import CALL, bytes_of, moving
from tessella.passes.base import is_constant
from tessella.passes.pick.candidates import Candidate
from tessella.passes.pick.kernel_cost import OpCost, Prices, conversion_seconds

Options = Mapping[NnOp, Sequence[Candidate]]


def without_dominated(options: Options, prices: Prices) -> dict[NnOp, list[Candidate]]:
    """Return the candidates of each op without those that cannot be part of the best choice. An op
    with measured kernels keeps all."""
    return {op: _undominated(prices.of(op), listed) for op, listed in options.items()}


def _undominated(cost: OpCost, listed: Sequence[Candidate]) -> list[Candidate]:
    at_least = {c: cost.least_price(c.kernel, c.place) for c in listed}
    first = min(listed, key=lambda c: (c.rank, at_least[c]))
    slower = [c for c in listed if at_least[c] > at_least[first]]
    if not slower or any(cost.measured(c.kernel, c.place) is not None for c in listed):
        return [*listed]
    price = cost.price(first.kernel, first.place)
    dominated = {c for c in slower if at_least[c] >= price + _around(cost, first, c)}
    return [c for c in listed if c not in dominated]


def _around(cost: OpCost, first: Candidate, other: Candidate) -> float:
    """Return an upper bound on the seconds to substitute one candidate for another.

    Operands and results are converted, and readers no longer take the result from registers.
    """
    op, target, count = cost.op, cost.target, len(cost.op.operands)
    wanted = list(zip(other.wants, first.wants, strict=True))
    read = sum(
        conversion_seconds(value, outer, inner, target)
        for value, (outer, inner) in zip(op.operands, wanted, strict=False)
        if not is_constant(value)
    )
    written = sum(
        conversion_seconds(value, inner, outer, target)
        for value, (outer, inner) in zip(op.results, wanted[count:], strict=True)
    )
    fused = sum(
        CALL + moving(bytes_of(value), bytes_of(value), target)
        for value in op.results
        if any(isinstance(use.operation, ElementwiseOp) for use in value.uses)
    )
    return read + written + fused
