"""The dot product instructions that can compute a statement, and the operands that are widened for
them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tessella.dialects.place import PlaceAttr
from tessella.dialects.tile import Dot
from tessella.dialects.tile.bodies import yielded
from tessella.dialects.tile.nest import shared_loops, steps
from tessella.dialects.tile.summed import SummedProduct
from tessella.kernels.cost import CALL
from tessella.passes.tile.blocks import sums_blocks
from tessella.passes.tile.conversions import widening_shuffles
from tessella.passes.tile.cycles import copy_cycles
from tessella.passes.tile.packing import argument_of, can_relayout, is_decoded, packed_as
from tessella.passes.tile.problem import Problem
from tessella.targets.instructions import of_product


def dots(problem: Problem) -> Iterator[tuple[str, Dot]]:
    """Yield the dot product instructions that can compute a statement, fastest first, each with the
    name of the index that runs over the lanes."""
    product = problem.product
    found = None if product is None else product.elements
    if product is None or found is None:
        return
    a, b, accumulated = (element.name for element in found)
    pairs = [
        (vector, index)
        for index in problem.plain.reduced
        if _runs_in_groups(problem, index)
        for vector in problem.plain.free
        if _runs_over_lanes(problem, vector, index)
    ]
    for row in of_product(a, b, accumulated, problem.target):
        if not _sums_all(problem, product) and (
            row.m > 1 or not sums_blocks(problem.op, product, problem.plain)
        ):
            continue
        for vector, index in pairs:
            if not found.accumulated.is_float or _is_padded(problem, vector, index, row.k):
                yield vector, Dot(index, row.name)


def _sums_all(problem: Problem, product: SummedProduct) -> bool:
    """Return whether a statement sums its products unchanged, neither scaled nor converted."""
    return yielded(problem.op.combine.block) == product.op.results[0]


def widened(problem: Problem, dot: Dot, vector: str, width: int) -> dict[int, PlaceAttr]:
    """Return the operands that are copied with the instruction's element type, by number, among
    those that all lanes share.

    Tiles of ``width`` results read such an operand so often that one copy takes less time than
    widening each group of values when it is read.
    """
    found: dict[int, PlaceAttr] = {}
    target, constant = problem.target, problem.kernel.is_constant
    packed, points = packed_as(element=dot.row.takes), prod(problem.plain.ranges.values())
    for i, a in enumerate(problem.plain.accesses[: problem.plain.inputs]):
        argument = argument_of(problem.op, problem.kernel, i)
        if argument is None or a.lane_stride(vector) or not a.lane_stride(dot.index):
            continue
        if not dot.row.widens(a.element.name) or is_decoded(problem.op, i):
            continue
        reads = steps(problem.op) * points / width / dot.row.k
        widening = reads * widening_shuffles(1, by_vector=False) / target.shuffle_ports
        copying = copy_cycles(argument, packed, target) + CALL * target.ghz * 1e9
        if constant(argument.index) or widening > copying:
            found[i] = packed
    return found


def _runs_in_groups(problem: Problem, index: str) -> bool:
    """Return whether a dot product instruction can sum a reduced index in groups of its values.

    The index must have a known number of values. No constraint, body or shared loop may use it.
    """
    flat = problem.plain
    return (
        flat.ranges[index] > 1
        and index not in {*flat.pinned, *problem.symbolic, *problem.reaches}
        and index not in shared_loops(problem.op)
    )


def _runs_over_lanes(problem: Problem, vector: str, index: str) -> bool:
    """Return whether the lanes of a dot product instruction can run over the free index ``vector``.

    The result must have stride 1 along it. Operands that do not move with it must have contiguous
    groups, and the others must be packable in groups.
    """
    flat = problem.plain
    return (
        flat.ranges[vector] > 1
        and vector not in {*flat.pinned, *problem.symbolic, *problem.reaches}
        and flat.out.lane_stride(vector) == 1
        and all(_is_readable(problem, i, vector, index) for i in range(flat.inputs))
    )


def _is_padded(problem: Problem, vector: str, index: str, k: int) -> bool:
    """Return whether every group of ``k`` values that an instruction sums is complete or padded
    with zeros.

    The last group of a constant is padded with zeros; the last group of a copied operand is not.
    """
    if problem.plain.ranges[index] % k == 0:
        return True
    moving = (i for i, a in enumerate(problem.plain.accesses[:2]) if a.lane_stride(vector))
    arguments = (argument_of(problem.op, problem.kernel, i) for i in moving)
    return all(a is not None and problem.kernel.is_constant(a.index) for a in arguments)


def _is_readable(problem: Problem, operand: int, vector: str, index: str) -> bool:
    a, op = problem.plain.accesses[operand], problem.op
    if a.lane_stride(vector) == 0:
        return a.lane_stride(index) in (0, 1)
    if a.lane_stride(index) == 0:
        return can_relayout(op, problem.kernel, operand, vector)
    forms = op.input_accesses[operand]
    return (
        can_relayout(op, problem.kernel, operand, vector)
        and sum(f.coefficient(index) != 0 for f in forms) == 1
        and any(f.single == index for f in forms)
    )
