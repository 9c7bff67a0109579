"""Loops that the statements of a kernel share.

    tile.kernel @softmax(%x: ..) -> (..) attributes {nest = #tile.nest<[4096 by 4]>} {
      %m = tile.contract > [i: 4096 | j: 1024] (%x[i, j]) -> [i] at [i] in a step of i: 4 ...
      %e = tile.contract = [i: 4096, j: 1024] (%x[i, j], %m[i]) -> [i, j] at [i] ...

The statements keep their full ranges. Each step of the shared loops runs statements in turn, on a
part of the indices that ``at`` names. A statement that names fewer indices than there are loops is
in the outer ones alone: between two runs of the inner ones, before or after them, as statements
need each other's results (``order.py``).

A result lives in memory, as a whole, or in a step of some of the loops, with room for what one step
writes, if only statements of that step read it: `in a step of i: 4`.

An index that counts blocks of a loop's values is in it too. So a sum over a shared loop is one of
each block, which steps make, and then one over the blocks:

    %p = tile.contract + [c: 64, j: 8 | i: 64] (%x[64*c + i, j]) -> [c, j] at [c] ...
    %s = tile.contract + [j: 8 | c: 64] (%p[c, j]) -> [j] ...

A statement whose result lives within a step may run more of an index than others count, as its
readers look at neighbours. What two steps need is then computed in both:

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
from tessella.dialects.tile.attributes import NestAttr, SharedLoop, Window
from tessella.dialects.tile.bodies import ExtractOp
from tessella.dialects.tile.ops import ContractOp
from tessella.dialects.tile.order import positions, steps_in_common
from tessella.support.conditions import decided
from tessella.support.decisions import decided_max, decided_min, known
from tessella.support.sizes import Size, ceil_div, estimated


@dataclass(frozen=True)
class Steps:
    """The values of an index that the iterations of a shared loop run."""

    loop: SharedLoop
    extent: Size
    """The index's range."""
    window: Window | None = None

    @property
    def block(self) -> int:
        """The number of the loop's values for each value of an index without a window."""
        if self.window is not None or not self.loop.counts(self.extent):
            return 1
        return known(self.loop.extent // self.extent)

    @property
    def step(self) -> int:
        """The number of values that an iteration runs."""
        return self.loop.step // self.block if self.window is None else self.window.size

    @property
    def advance(self) -> int:
        """The distance between the first values of consecutive iterations, within the range."""
        scale = 1 if self.window is None else self.window.scale
        return scale * self.loop.step // self.block

    @property
    def trips(self) -> Size:
        return self.loop.trips

    @property
    def parallel(self) -> int:
        """The grain by which threads divide the values; 0 for a loop that each thread runs
        completely."""
        return self.loop.parallel // self.block

    @property
    def offset(self) -> int:
        return 0 if self.window is None else self.window.offset

    @property
    def is_moved(self) -> bool:
        """Whether a window begins before the index's range in some iteration, or ends after it."""
        if self.window is None:
            return False
        last = self.window.scale * (self.loop.extent - self.loop.step) + self.window.offset
        low, high = decided_min(self.offset, last), decided_max(self.offset, last)
        return decided(low < 0) or decided(high > self.extent - self.step)

    def first(self, number: int) -> Size:
        """Return the first value in an iteration."""
        start = decided_min(number * self.loop.step, self.loop.extent - self.loop.step)
        if self.window is None:
            return start // self.block
        first = self.window.scale * start + self.window.offset
        return decided_min(decided_max(first, 0), self.extent - self.step)


def shared_loops(op: ContractOp) -> Mapping[str, Steps]:
    """Return the shared loops of a statement, by index."""
    kernel = op.parent_op()
    nest = kernel.properties.get("nest") if kernel is not None else None
    if op.at is None or not isinstance(nest, NestAttr):
        return {}
    ranges = op.ranges
    loops = zip(op.at_list, nest.data.loops, strict=False)
    return {at.name: Steps(loop, ranges[at.name], at.window) for at, loop in loops}


def asks_ahead(op: ContractOp) -> bool:
    """Return whether the iterations of its kernel's shared loops prefetch a statement's
    operands."""
    kernel = op.parent_op()
    nest = kernel.properties.get("nest") if kernel is not None else None
    return bool(op.at_list) and isinstance(nest, NestAttr) and nest.data.prefetch > 0


def depth(op: Operation | None) -> int:
    """Return the number of its kernel's shared loops around a statement."""
    return len(op.at_list) if isinstance(op, ContractOp) else 0


def steps(op: ContractOp) -> int:
    """Return how many times the shared loops run a statement, for costs."""
    return estimated(prod(loop.trips for loop in shared_loops(op).values()))


def lives_within(value: SSAValue) -> int:
    """Return in how many shared loops' iterations a tensor lives; 0 if it lives in memory."""
    op = value.owner
    if not isinstance(op, ContractOp) or op.storage is None:
        return 0
    return [at.name for at in op.at_list].index(op.storage.data.step) + 1


def memory_shape(value: SSAValue) -> tuple[Size, ...]:
    """Return the shape of a tensor in memory: that of one iteration's part if it lives in a
    step."""
    op = value.owner
    if isinstance(op, ContractOp) and op.storage is not None:
        return op.storage.data.shape
    return tuple(shape_of(value))


def written_shape(op: ContractOp, within: int) -> tuple[Size, ...]:
    """Return the shape of what a statement writes in one iteration of this many shared loops."""
    shape: list[Size] = list(shape_of(op.res))
    for name, loop in list(shared_loops(op).items())[:within]:
        for dim, form in enumerate(op.out_access):
            if (block := form.coefficient(name)) != 0:
                shape[dim] = block * loop.step
    return tuple(shape)


def blocks_of(form: Linear, name: str, ranges: Mapping[str, Size]) -> int | None:
    """Return the length of the blocks that an index enumerates in a form; None if it enumerates
    none.

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
    """Return the index that enumerates blocks of a dimension, and their length: 1 if it is
    alone."""
    if form.single is not None:
        return form.single, 1
    lengths = ((name, blocks_of(form, name, ranges)) for name, _ in form.terms)
    return next(((name, length) for name, length in lengths if length is not None), None)


def can_share(op: ContractOp, name: str) -> bool:
    """Return whether a loop over a free index may be shared.

    Each iteration must write a part of the output that the index enumerates.
    """
    ranges = op.ranges
    free = any(index.name == name and not index.reduced for index in op.index_list)
    inner = [x for region in (op.combine, op.post) for x in region.walk()]
    elsewhere = any(
        isinstance(x, ExtractOp) and isinstance(x.source.owner, ContractOp) for x in inner
    )
    return free and _is_written_in_blocks(op, name, ranges) and op.init is None and not elsewhere


def _is_written_in_blocks(op: ContractOp, name: str, ranges: Mapping[str, Size]) -> bool:
    """Return whether an index enumerates all blocks of one dimension of the result.

    The part of the last block beyond the dimension is not written.
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
    """Return whether threads can divide a shared loop: each must read only what it has written
    itself."""
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
