"""Reduce in two statements over indices that lie on both sides of a free one in memory.

    %s = tile.contract + [c: 512 | n: 512, x: 16] (%x[n, c, x]) -> [c]
    ->
    %p = tile.contract + [n: 512, c: 512 | x: 16] (%x[n, c, x]) -> [n, c]
    %s = tile.contract + [c: 512 | n: 512] (%p[n, c]) -> [c]

In one statement, the loops over the reduced indices run inside the free ones, and jump to another
page, where the hardware has prefetched nothing. The first of two statements reads memory in order.
The tile model, plus the cycles that the jumps cost, decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.ir import Block, SSAValue

from tessella.dialects.elements import element_of
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.core import Tensor, shape_of, tensor, tensor_type
from tessella.dialects.place import PlaceAttr, place_of, placed, precision_of
from tessella.dialects.tile import ContractOp, KernelOp, Linear, scalar_region, yielded
from tessella.dialects.tile.flat import Flat, flatten
from tessella.dialects.tile.merge import merge_indices
from tessella.passes.kinds import KernelPass
from tessella.passes.tile.estimates import bytes_in
from tessella.passes.tile.rebuild import inputs_of, posts_of, reads_points
from tessella.passes.tile.search import best_schedule
from tessella.support.decisions import known
from tessella.support.sizes import symbols_of
from tessella.targets import Target

LINE_CYCLES = 40
"""Cycles of each of the first lines after a jump, beyond the second cache level."""
FIRST_LINES = 4
"""The number of lines that are read after a jump before the hardware prefetches the next ones."""


@dataclass(frozen=True)
class TileSplitSumsPass(KernelPass):
    """Split reductions that jump through memory, where that takes fewer cycles."""

    name = "tile-split-sums"
    stages = ("tile",)

    def rewrite(self, kernel: KernelOp, target: Target) -> None:
        if kernel.nest is not None:
            return
        for op in kernel.statements:
            found = _split_of(op, target)
            if found is None:
                continue
            outer, jumps = found
            if _cycles(kernel, op, (), target) + jumps > _cycles(kernel, op, outer, target):
                _split(op, outer)


def _split_of(op: ContractOp, target: Target) -> tuple[Sequence[str], float] | None:
    """Return the indices to reduce in a second statement, and the cycles that the unsplit statement
    waits after its jumps; None if a split cannot help."""
    plain = op.schedule is None and op.init is None and not reads_points(op.combine)
    if op.is_map or op.running_index is not None:
        return None
    if not plain or len(op.inputs) != 1 or bytes_in(op.inputs[0]) <= target.l2:
        return None
    flat = flatten(op)
    if flat.constraints or symbols_of(flat.ranges.values()):
        return None
    numbers, size = flat.with_sizes(known), element_of(op.inputs[0].type).size
    steps = {n: abs(numbers.accesses[0].stride(n)) * size for n in numbers.ranges}
    free = [steps[n] for n in numbers.free if steps[n]]
    outer = [n for n in numbers.reduced if free and steps[n] > min(free)]
    inner = [numbers.ranges[n] for n in numbers.reduced if n not in outer and steps[n]]
    if not inner or not outer or min(steps[n] for n in outer) < target.page:
        return None
    return outer, _waited(numbers, prod(inner) * size, size, target)


def _waited(flat: Flat[int], run: int, size: int, target: Target) -> float:
    """Return the cycles that a reduction waits because the hardware has prefetched nothing after
    each jump to another page, if it reads ``run`` contiguous bytes between two jumps."""
    jumps = prod(flat.ranges.values()) * size / run
    return jumps * min(FIRST_LINES, run / target.cache_line) * LINE_CYCLES


def _cycles(kernel: KernelOp, op: ContractOp, outer: Sequence[str], target: Target) -> float:
    """Return the modelled cycles of a statement, split if there are ``outer`` indices; the kernel
    does not change."""
    number, copy = [*kernel.statements].index(op), kernel.clone()
    statements: Sequence[ContractOp] = [copy.statements[number]]
    if outer:
        statements = _split(statements[0], outer)
    for each in statements:
        merge_indices(each)
    return sum(best_schedule(each, copy, target).cycles for each in statements)


def _split(op: ContractOp, outer: Sequence[str]) -> list[ContractOp]:
    """Replace a statement by two: the reduction of its inner indices, and that of the ``outer``
    ones. Returns both."""
    posts = posts_of(op)
    post = op.detach_region(op.post) if op.post_block is not None else None
    combine = op.detach_region(op.combine)
    kind, element = op.aggregation.data, yielded(combine.block).type
    free = [index for index in op.index_list if not index.reduced]
    over = [index for index in op.index_list if index.name in outer]
    inner = [index for index in op.index_list if index.reduced and index.name not in outer]
    access = (*(Linear.of(index.name) for index in over), *op.out_access)
    kept = [replace(index, reduced=False) for index in over]
    part = ContractOp(
        kind, [*kept, *free, *inner], inputs_of(op), access,
        _type(op, [known(index.range) for index in over], combine.block), combine,
        parts=op.part_count,
    )  # fmt: skip
    total = ContractOp(
        kind, [*free, *over], [(part.res, access)], op.out_access, tensor_type(op.res),
        scalar_region([element], _first), post_inputs=posts, post=post, parts=op.part_count,
    )  # fmt: skip
    block = op.parent_block()
    assert block is not None
    block.insert_ops_before([part, total], op)
    op.res.replace_all_uses_with(total.res)
    total.res.name_hint = op.res.name_hint
    op.detach()
    op.erase()
    return [part, total]


def _first(_: Block, arguments: Sequence[SSAValue]) -> SSAValue:
    return arguments[0]


def _type(op: ContractOp, sizes: Sequence[int], combine: Block) -> Tensor:
    """Return the type of the result of the first statement, which reduces only the inner
    indices."""
    element, place = yielded(combine).type, place_of(op.res.type)
    type = tensor(element, [*sizes, *shape_of(op.res)])
    if place is None:
        return type
    return placed(type, PlaceAttr.get(place.device.data, precision_of(element), NCHW))
