"""Loops that the statements of a kernel share.

    tile.kernel @softmax(%x: ..) -> (..) attributes {nest = #tile.nest<[4096 by 4]>} {
      %m = tile.contract > [i: 4096 | j: 1024] (%x[i, j]) -> [i] at [i] in a step of i: 4 ...
      %e = tile.contract = [i: 4096, j: 1024] (%x[i, j], %m[i]) -> [i, j] at [i] ...

The statements keep their full ranges. Each iteration of the shared loops runs the statements one
after the other, on its part of the ranges of the indices that ``at`` names. A statement may name
fewer indices than there are loops. It is then in the outer loops only, and runs before or after the
inner loops, as the dependences between statements require (``order.py``).

A result lives in memory as a whole, or within an iteration of some of the loops (`in a step of i:
4`). The memory of such a result holds only the elements that one iteration writes, and only
statements of the same iteration read them.

A shared loop may also run over an index that enumerates blocks of the loop's values. A sum over the
values of the loop is then split into two statements: the first computes the sum of each block in
the iterations, and a later statement sums the blocks:

    %p = tile.contract + [c: 64, j: 8 | i: 64] (%x[64*c + i, j]) -> [c, j] at [c] ...
    %s = tile.contract + [j: 8 | c: 64] (%p[c, j]) -> [j] ...

If the result of a statement lives within an iteration, the statement may run more values of an
index than other statements do, because its readers read neighbouring elements. Elements that two
iterations need are then computed in both:

    %t = tile.contract = [y: 56, x: 56] (%x[y, x]) -> [y, x] at [y: step - 1 by 10]
           in a step of y: 10 x 56 ...
    %d = tile.contract + [y: 56, x: 56 | i: 3] (%t[y + i - 1, x]) -> [y, x] at [y] ...
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation, SSAValue

from tessella.dialects.nn.core import shape_of
from tessella.dialects.tile.access import Linear
from tessella.dialects.tile.bodies import ExtractOp
from tessella.dialects.tile.loop_attributes import NestAttr, SharedLoop, Window
from tessella.dialects.tile.ops import ContractOp
from tessella.dialects.tile.order import positions, steps_in_common
from tessella.support.conditions import decided
from tessella.support.decisions import decided_max, decided_min, known
from tessella.support.sizes import Size, ceil_div, estimated


@dataclass(frozen=True)
class Steps:
    """The values of an index of a statement that the iterations of a shared loop run."""

    loop: SharedLoop
    extent: Size
    """The number of values of the index."""
    window: Window | None = None

    @property
    def block(self) -> int:
        """The number of values of the loop for each value of the index; 1 for an index with a
        window."""
        if self.window is not None or not self.loop.counts(self.extent):
            return 1
        return known(self.loop.extent // self.extent)

    @property
    def step(self) -> int:
        """The number of values of the index that an iteration runs."""
        return self.loop.step // self.block if self.window is None else self.window.size

    @property
    def advance(self) -> int:
        """The distance between the first values of the index in consecutive iterations, if the ends
        of its range do not move them."""
        scale = 1 if self.window is None else self.window.scale
        return scale * self.loop.step // self.block

    @property
    def trips(self) -> Size:
        return self.loop.trips

    @property
    def parallel(self) -> int:
        """The grain by which threads divide the values of the index; 0 for a loop that each thread
        runs completely."""
        return self.loop.parallel // self.block

    @property
    def offset(self) -> int:
        return 0 if self.window is None else self.window.offset

    @property
    def is_moved(self) -> bool:
        """True if the window begins before the range of the index in some iteration, or ends after
        it, so that it is moved into the range."""
        if self.window is None:
            return False
        last = self.window.scale * (self.loop.extent - self.loop.step) + self.window.offset
        low, high = decided_min(self.offset, last), decided_max(self.offset, last)
        return decided(low < 0) or decided(high > self.extent - self.step)

    def first(self, number: int) -> Size:
        """Return the first value of the index in the iteration ``number``."""
        start = decided_min(number * self.loop.step, self.loop.extent - self.loop.step)
        if self.window is None:
            return start // self.block
        first = self.window.scale * start + self.window.offset
        return decided_min(decided_max(first, 0), self.extent - self.step)


def shared_loops(op: ContractOp) -> Mapping[str, Steps]:
    """Return the shared loops around a statement, by the name of its index, outermost first."""
    kernel = op.parent_op()
    nest = kernel.properties.get("nest") if kernel is not None else None
    if op.at is None or not isinstance(nest, NestAttr):
        return {}
    ranges = op.ranges
    loops = zip(op.at_list, nest.data.loops, strict=False)
    return {at.name: Steps(loop, ranges[at.name], at.window) for at, loop in loops}


def asks_ahead(op: ContractOp) -> bool:
    """Return whether the iterations of the shared loops around a statement prefetch its
    operands."""
    kernel = op.parent_op()
    nest = kernel.properties.get("nest") if kernel is not None else None
    return bool(op.at_list) and isinstance(nest, NestAttr) and nest.data.prefetch > 0


def depth(op: Operation | None) -> int:
    """Return the number of shared loops around a statement; 0 for any other op."""
    return len(op.at_list) if isinstance(op, ContractOp) else 0


def steps(op: ContractOp) -> int:
    """Return the number of iterations of the shared loops in which a statement runs, for cost
    estimates."""
    return estimated(prod(loop.trips for loop in shared_loops(op).values()))


def lives_within(value: SSAValue) -> int:
    """Return the number of shared loops, from the outermost, in which a tensor lives only within an
    iteration; 0 if it lives in memory."""
    op = value.owner
    if not isinstance(op, ContractOp) or op.storage is None:
        return 0
    return [at.name for at in op.at_list].index(op.storage.data.step) + 1


def memory_shape(value: SSAValue) -> tuple[Size, ...]:
    """Return the shape of a tensor's memory: the part that one iteration writes if the tensor lives
    within an iteration of shared loops, otherwise the whole tensor."""
    op = value.owner
    if isinstance(op, ContractOp) and op.storage is not None:
        return op.storage.data.shape
    return tuple(shape_of(value))


def written_shape(op: ContractOp, within: int) -> tuple[Size, ...]:
    """Return the shape of the part of its result that a statement writes in one iteration of its
    outermost ``within`` shared loops."""
    shape: list[Size] = list(shape_of(op.res))
    for name, loop in list(shared_loops(op).items())[:within]:
        for dim, form in enumerate(op.out_access):
            if (block := form.coefficient(name)) != 0:
                shape[dim] = block * loop.step
    return tuple(shape)


def blocks_of(form: Linear, name: str, ranges: Mapping[str, Size]) -> int | None:
    """Return the length of the blocks into which the index ``name`` divides the values of ``form``,
    an affine expression; None if the index does not enumerate blocks.

    All other indices are within a block: the length is 8 for ``8*c + i`` if ``i`` has 8 values.
    """
    length = 0
    low = high = form.constant
    for other, coefficient in form.terms:
        if other == name:
            length = coefficient
        elif coefficient < 0:
            low += coefficient * (ranges[other] - 1)
        else:
            high += coefficient * (ranges[other] - 1)
    fits = length > 0 and decided(low >= 0) and decided(high < length)
    return length if fits else None


def counted(form: Linear, ranges: Mapping[str, Size]) -> tuple[str, int] | None:
    """Return the index that enumerates blocks of the values of ``form``, an affine expression, and
    the length of a block: 1 if the expression is a single index. None if no index enumerates
    blocks."""
    if form.single is not None:
        return form.single, 1
    lengths = ((name, blocks_of(form, name, ranges)) for name, _ in form.terms)
    return next(((name, length) for name, length in lengths if length is not None), None)


def can_share(op: ContractOp, name: str) -> bool:
    """Return whether a loop over an index of a statement may be shared with other statements.

    The index must be free, and each iteration must write a part of the result that the index
    enumerates. The statement must not have an `init`, nor extract elements from results of other
    statements.
    """
    ranges = op.ranges
    free = any(index.name == name and not index.reduced for index in op.index_list)
    inner = [x for region in (op.combine, op.post) for x in region.walk()]
    elsewhere = any(
        isinstance(x, ExtractOp) and isinstance(x.source.owner, ContractOp) for x in inner
    )
    return free and _is_written_in_blocks(op, name, ranges) and op.init is None and not elsewhere


def _is_written_in_blocks(op: ContractOp, name: str, ranges: Mapping[str, Size]) -> bool:
    """Return whether an index enumerates all blocks of one dimension of the result, and occurs in
    no other dimension.

    The last block may extend beyond the dimension; that part of it is not written.
    """
    found = [
        (blocks_of(form, name, ranges), extent)
        for form, extent in zip(op.out_access, shape_of(op.res), strict=True)
        if form.coefficient(name)
    ]
    if len(found) != 1:
        return False
    ((length, extent),) = found
    return length is not None and ceil_div(extent, length) == ranges[name]


def can_divide(kernel: Operation, number: int) -> bool:
    """Return whether threads can divide the shared loop ``number`` of a kernel: each thread must
    read only results that it has written itself."""
    statements = [op for op in kernel.regions[0].block.ops if isinstance(op, ContractOp)]
    inside = [op for op in statements if depth(op)]
    position = positions(statements)
    pairs = [(op, use.operation) for op in inside for use in op.res.uses]
    common = [
        steps_in_common(position[op], position[reader])
        for op, reader in pairs
        if isinstance(reader, ContractOp)
    ]
    return min(map(depth, inside), default=0) > number and all(
        within == 0 or within > number for within in common
    )
