"""The space of schedules: register tiles over a vector index, each with its packing, unrolling and
loop order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, takewhile
from math import prod
from operator import mul

from xdsl.dialects.builtin import i1

from tessella.dialects.elements import element_of, find_element
from tessella.dialects.place import PlaceAttr
from tessella.dialects.tile import ContractOp, Dot, ExtractOp, Schedule
from tessella.dialects.tile.flat import Flat
from tessella.dialects.tile.nest import steps
from tessella.dialects.tile.reach import GRANULE
from tessella.passes.tile.blocks import scale_indices
from tessella.passes.tile.choice import Choice
from tessella.passes.tile.cycles import copy_cycles
from tessella.passes.tile.dots import dots, widened
from tessella.passes.tile.model import CostModel
from tessella.passes.tile.packing import argument_of
from tessella.passes.tile.plan import extracts_along, multiplies_rows, plan_accesses
from tessella.passes.tile.problem import Problem
from tessella.passes.tile.vectors import (
    interleaved_rows,
    interleaving_rows,
    sharing_rows,
    transposing_rows,
    vector_indices,
    window_rows,
)
from tessella.support.sizes import bounds_of, ceil_div, estimated, symbols_of

# `python -m bench.constants space` prints how the choices of its kernels change with these
# constants.

VECTORS = (8, 6, 4, 3, 2, 1)
"""The numbers of vectors of a register tile that are tried, most first (`python -m bench.constants
space`)."""
MAX_ROWS = 16
"""The most rows of a register tile, which bounds its code."""
MOST_OF_FEW = 8
"""The most rows of a register tile if the number of rows is symbolic and may be small: every
smaller number then has a tail tile.

Two tiles of 8 cover all rows of the range of few rows (`driver/specialise/open_sizes.py`).
"""
WINDOW_OPS = 640
"""The most instructions of an unrolled window."""
FAR_UNROLL = 2
"""The most unrolled points of a loop in which each point reads another page: more would slow down
1x1 convolutions of row-major images."""
AHEAD = 3
"""LLVM is assumed to load one in this number of a reduction point's vectors during the previous
point. Each of these takes a register: with too few spare ones, unrolled products spill."""
AHEAD_ROWS = 12
"""LLVM is assumed to load one in this number of a point's row elements during the previous point:
with fewer spare registers, products of 14x2 spill their sums."""
AHEAD_PAIRS = 2
"""As ``AHEAD_ROWS``, for machines on which LLVM loads the elements of two points at once, such as
AArch64."""
TRANSPOSED_BLOCK = 8
"""Vectors in a block of in-register transposes (`python -m bench.constants space`)."""
PAGED_BLOCK = 8
"""The size of a block of an index, each value of which an elementwise statement reads in another
page (`python -m bench.constants space`)."""
WINDOW_ROWS = (2, 4)
"""The numbers of rows of an elementwise statement's register tile that share loads, as in stencils
written as sums of slices."""
MOST_ALONG = 4
"""The most vectors of a tile along a running index: each takes a dozen instructions."""
MAX_BOUNDARY_TILES = 6
"""The number of unrolled boundary tiles above which a choice is penalised, as their code is long
for long filters."""
LONG_WINDOW = 16
"""The number of values of a reduced index whose unrolled code counts as one boundary tile."""


def along_running(vectors: int) -> int:
    """Return the number of vectors of results in a tile whose loop over the running index is inside
    or outside the tile's loops: ``vectors``, but at most ``MOST_ALONG``."""
    return min(vectors, MOST_ALONG)


def scalar_choice(problem: Problem) -> Choice:
    """Return the schedule without a vector index."""
    order = loop_order(problem.op, problem.plain, None, None)
    reduction = sorted(problem.plain.reduced, key=lambda name: name != problem.plain.running)
    schedule = Schedule(order, tuple(reduction))
    return Choice(schedule, problem.model({}).estimate(schedule))


def element_bits(op: ContractOp) -> int:
    """Return the element width from which the number of lanes of a vector follows: 64 if all
    tensors of the statement have 64-bit elements, otherwise 32."""
    return 64 if all(element_of(v.type).bits == 64 for v in op.tensors) else 32


def widest_bits(op: ContractOp) -> int:
    """Return the width of the widest element that a statement reads, computes with or writes.

    Conditions do not count. Index values are as wide as ``element_bits``.
    """
    blocks = [op.combine.block, *([op.post_block] if op.post_block is not None else [])]
    computed = [r.type for block in blocks for inner in block.ops for r in inner.results]
    elements = map(find_element, (*(v.type for v in op.tensors), *(t for t in computed if t != i1)))
    return max(32 if e is None else e.bits for e in elements)


@dataclass(frozen=True)
class TileFamily:
    """A set of register tiles that have the same vectors, and differ only in their number of
    rows."""

    problem: Problem
    vector: str
    lanes: int
    rows: str | None
    vectors: int = 1
    narrow: TileFamily | None = None
    """The family of tiles with one vector, which differs only in the width of its panels; None if
    this is that family."""
    panel: int = 0
    """The width of the panels of constants, in vectors; 0 if they are as wide as tiles."""
    dot: Dot | None = None
    """The dot product instruction that computes the statement; None without one."""
    copying: bool = False
    """True if variable operands that tiles could read in place are copied into panels."""

    @property
    def op(self) -> ContractOp:
        return self.problem.op

    @property
    def plain(self) -> Flat[int]:
        return self.problem.plain

    @property
    def _indices(self) -> set[str | None]:
        return {self.vector, self.rows} - {None}

    def heights(self) -> Iterator[int]:
        """Yield the numbers of rows for which a tile fits into the registers.

        If several numbers divide the rows into equally many tiles, only the least of them is
        yielded, as its tiles differ least in size.
        """
        model = self._outline._model
        if not self._indices <= set(model.flat.ranges):
            return
        if self.op.is_map:
            yield from self._map_heights()
            return
        most = model.most_rows(self._lowest)
        if self.rows is None:
            yield from range(1, min(1, most) + 1)
            return
        extent = self.plain.ranges[self.rows]
        tiles = [ceil_div(extent, n) for n in range(1, min(MAX_ROWS, extent, most) + 1)]
        few = self._has_few_rows
        yield from (
            n
            for n in range(2, len(tiles) + 1)
            if (n == 2 or tiles[n - 1] < tiles[n - 2]) and (n <= MOST_OF_FEW or not few)
        )

    def _map_heights(self) -> Iterator[int]:
        if self.rows is None:
            yield 1
        elif self.plain.out.lane_stride(self.vector) != 1:
            yield self.plain.ranges[self.rows]
        elif self._is_transposed:
            few = MOST_OF_FEW if self._has_few_rows else self.lanes
            yield min(self.lanes, few, self.plain.ranges[self.rows])
        elif self.rows in interleaved_rows(self.op, self.plain, self.vector):
            yield self.plain.ranges[self.rows]
        else:
            yield from (n for n in WINDOW_ROWS if n <= self.plain.ranges[self.rows])

    @property
    def _has_few_rows(self) -> bool:
        """True if the range of the rows' index is symbolic, and may be less than ``MAX_ROWS``."""
        rows = self.problem.symbolic.get(self.rows)
        return rows is not None and bounds_of(rows)[0] < MAX_ROWS

    @cached_property
    def _is_transposed(self) -> bool:
        return plan_accesses(self.op, self.plain, self.vector, self.rows).has_transposes

    def bound(self, height: int) -> float:
        """Return a lower bound on the cycles of the tile with ``height`` rows."""
        return self._bounds(height) * self._penalty(height) + self._outline._copies

    @cached_property
    def _bounds(self) -> Callable[[int], float]:
        return self._outline._model.bounds(self._lowest)

    def choice(self, height: int, most: float = math.inf) -> Choice | None:
        """Return the schedule with ``height`` rows, and its estimate.

        Returns None if the estimate is more than ``most`` cycles, if the schedule cannot be lowered
        for some values of symbols, or if the packed layouts merge indices that stay separate in
        those for tiles of one vector.
        """
        model, tile = self._model, self._tile(height)
        if not {*tile.order, *tile.reduction} <= set(model.flat.ranges):
            return None
        if not self.problem.fits(tile, self._places):
            return None
        schedule = replace(tile, unroll=self._unroll(tile))
        penalty, copies = self._penalty(height), self._outline._copies
        choice = Choice(schedule, model.computing(schedule), self._places, penalty, copies)
        if choice.cycles > most:
            return None
        estimate = replace(choice.estimate, traffic=model.traffic.cycles(schedule))
        return replace(choice, estimate=estimate)

    @property
    def _outline(self) -> TileFamily:
        return self.narrow or self

    def _tile(self, height: int) -> Schedule:
        return replace(self._lowest, row_tile=height)

    @cached_property
    def _lowest(self) -> Schedule:
        """The schedule with one row, not unrolled."""
        if self.narrow is not None:
            return replace(self.narrow._lowest, vectors=self.vectors)
        return Schedule(
            order=loop_order(self.op, self._flat, self.vector, self.rows),
            reduction=self._reduction(),
            vector=self.vector,
            lanes=self.lanes,
            vectors=self.vectors,
            rows=self.rows,
            blocks=self._transposed_blocks() or self._paged_blocks(),
            dot=self.dot,
        )

    @cached_property
    def _places(self) -> Mapping[int, PlaceAttr]:
        if self.vector not in self.plain.free:
            return {}
        width = (self.panel or self.vectors) * self.lanes
        places = self.problem.packed(self.vector, self.rows, width, self.dot, copying=self.copying)
        if self.dot is None:
            return places
        return {**places, **widened(self.problem, self.dot, self.vector, width)}

    @cached_property
    def _model(self) -> CostModel:
        return self.problem.model(self._places)

    @property
    def _flat(self) -> Flat[int]:
        return self._model.flat

    @cached_property
    def _copies(self) -> float:
        """The cycles to pack the operands that are not constants. In shared loops, these cycles are
        divided by the number of iterations."""
        return sum(self._copy(operand, place) for operand, place in self._places.items())

    def _copy(self, operand: int, place: PlaceAttr) -> float:
        kernel, target = self.problem.kernel, self.problem.target
        argument = argument_of(self.op, kernel, operand)
        if argument is None or kernel.is_constant(argument.index):
            return 0.0
        return copy_cycles(argument, place, target) / steps(self.op)

    def _penalty(self, height: int) -> float:
        cut = sum(-(-each.rows // height) * each.weight for each in self._outline._boundary_rows)
        return 1.0 + max(0, cut - MAX_BOUNDARY_TILES)

    @cached_property
    def _boundary_rows(self) -> list[BoundaryRows]:
        return list(_boundary_rows(self.plain, self.rows)) if self.rows is not None else []

    def _reduction(self) -> tuple[str, ...]:
        """Return the order of the reduced indices, outermost first.

        The running index comes first; then the indices whose loops are bounded by constraints, as
        those loops are not unrolled; then the indices that count blocks with scales. Indices along
        which rows share loads are innermost, so that loaded vectors stay in registers for the
        shortest time. Among equals, the index with the largest stride is outermost.
        """
        model = self._model
        lowest = Schedule((), (), self.vector, rows=self.rows, dot=self.dot)
        bounded, shared = model.bounded(lowest), model.shared(lowest)
        inputs = self._flat.accesses[: self._flat.inputs]

        running, product = self._flat.running, self.problem.product
        blocks = set[str]() if product is None else scale_indices(product, self._flat)

        def position(name: str) -> tuple[bool, bool, bool, bool, int]:
            step = max((abs(a.stride(name)) for a in inputs), default=0)
            inside = name not in bounded, name not in blocks, name in shared
            return name != running, *inside, -step

        return tuple(sorted(self._flat.reduced, key=position))

    def _transposed_blocks(self) -> tuple[tuple[str, int], ...]:
        """Return, for a statement that is transposed in registers, the vector index and its block
        size: in such blocks, a cache line stays in the cache until all of it has been read. Empty
        if no block is needed."""
        size, extent = TRANSPOSED_BLOCK * self.lanes, self.plain.ranges[self.vector]
        if not self.op.is_map or self.rows is None or extent <= size or not self._is_transposed:
            return ()
        even = -(-extent // -(-extent // size))
        return ((self.vector, -(-even // self.lanes) * self.lanes),)

    def _paged_blocks(self) -> tuple[tuple[str, int], ...]:
        """Return, as a pair of an index and a block size, a block for an elementwise statement in
        which each vector loop reads another memory page, if the next outer loop continues these
        pages. Empty if there is none."""
        order = loop_order(self.op, self._flat, self.vector, self.rows)
        if not self.op.is_map or self.rows is not None or len(order) < 3:
            return ()
        (around, name, last), ranges = order[-3:], self.plain.ranges
        held = {*self.plain.pinned, *self.problem.symbolic, *self.problem.reaches}
        if last != self.vector or ranges[name] <= PAGED_BLOCK or name in held:
            return ()
        page = self.problem.target.page
        apart = any(
            a.lane_stride(self.vector) == 1
            and a.stride(around) == ranges[self.vector]
            and a.stride(name) * a.element.size >= page
            for a in self._flat.accesses[: self._flat.inputs]
        )
        return ((name, PAGED_BLOCK),) if apart else ()

    def _unroll(self, s: Schedule) -> int:
        """Return the number of points of the innermost reduction loops that are unrolled: all
        points of a window, or a power of two.

        It is one if an instruction sums products on its own before they reach the accumulator, as
        LLVM would keep the sums of several points in registers that the tile needs. The exception
        are integers packed in words: all values of a word are unrolled, as shifts then have
        constant distances.
        """
        model = self._model
        if self.op.is_map or self.vector in self._flat.reduced:
            return 1
        if s.dot is not None and s.dot.row.sums:
            return self._decoded
        body = s.row_tile * s.vectors * self._instructions * 3 // 2 + 1
        # Unrolled positions of a window share loads. Those of other operands share only broadcasts,
        # which would be spilled.
        largest = WINDOW_OPS if model.has_windows(s) else self.problem.target.loop_ops
        bounded = model.bounded(s)
        inside = takewhile(lambda name: name not in bounded, reversed(s.reduction))
        extents = [model.trips(s, name) for name in inside]
        whole = 1
        for points in accumulate(extents, mul):
            if points * body > largest:
                break
            whole = points
        full = model.registers(s) + self._ahead(s) >= self.problem.target.vector_registers
        complete = whole == prod(model.trips(s, name) for name in s.reduction)
        if full and not (complete and model.apart(s)):
            return 1
        most = max(1, self.problem.target.loop_ops // body)
        if model.page_cycles(s) > 1:
            most = min(most, FAR_UNROLL)
        return min(prod(extents), max(whole, 1 << (most.bit_length() - 1)))

    @property
    def _decoded(self) -> int:
        """The number of values that the product decodes from a word."""
        product, ranges = self.problem.product, self._flat.ranges
        indices = frozenset[str]() if product is None else product.decoding_indices
        return prod(ranges.get(name, 1) for name in indices)

    @property
    def _instructions(self) -> int:
        """The number of instructions of a point: that of the ops in the body if it reads at
        computed positions, otherwise 1."""
        ops = [*self.op.combine.block.ops]
        return len(ops) if any(isinstance(op, ExtractOp) for op in ops) else 1

    def _ahead(self, s: Schedule) -> int:
        """Return the number of registers that hold data which LLVM loads early, for the next point
        of an unrolled reduction: some of the point's vectors, and some elements of its rows."""
        in_pairs = self.problem.target.loads_pairs and not self._model.has_windows(s)
        return s.vectors // AHEAD + s.row_tile // (AHEAD_PAIRS if in_pairs else AHEAD_ROWS)


def families(problem: Problem) -> Iterator[TileFamily]:
    """Yield the families of register tiles of a statement, those with the most vectors first."""
    op, lanes = problem.op, problem.target.lanes
    bits, widest = element_bits(op), widest_bits(op)
    for vector, dot in dots(problem):
        yield from _families(problem, lanes(bits), [vector], dot=dot)
    if widest < bits:  # more lanes of narrower elements, but without in-register transposes
        yield from _families(problem, lanes(widest), transposing=False)
    yield from _families(problem, lanes(bits))


def _families(
    problem: Problem,
    lanes: int,
    indices: Sequence[str] | None = None,
    *,
    transposing: bool = True,
    dot: Dot | None = None,
) -> Iterator[TileFamily]:
    op, flat = problem.op, problem.plain
    for vector in vector_indices(op, problem.kernel, flat) if indices is None else indices:
        if vector == flat.running and flat.ranges[vector] < lanes:
            continue  # most lanes of a vector would be invalid
        gathered = op.is_map and bool(plan_accesses(op, flat, vector, None).gathered())
        if not transposing and (gathered or flat.ranges[vector] < lanes):
            continue
        if gathered and bounds_of(problem.symbolic.get(vector, lanes))[0] < lanes:
            continue  # partial vectors are not transposed
        narrow: dict[tuple[str | None, bool], TileFamily] = {}
        panel = _shared_panel(problem, vector, lanes)
        for vectors, rows in _shapes(problem, vector, lanes):
            if panel and (vectors % panel or (rows is not None and vectors > panel)):
                continue
            if dot is not None and not _multiplies(op, flat, dot, vector, rows):
                continue
            for copying in (False, True) if _can_copy(problem, vector, lanes, rows) else (False,):
                key = rows, copying
                if key not in narrow:
                    narrow[key] = TileFamily(problem, vector, lanes, rows, dot=dot, copying=copying)
                yield TileFamily(
                    *(problem, vector, lanes, rows, vectors, narrow[key], panel, dot, copying)
                )


def _can_copy(problem: Problem, vector: str, lanes: int, rows: str | None) -> bool:
    """Return whether operands that are not constants could be copied into panels, as another way to
    read data that rows share."""
    if rows is None or vector not in problem.plain.free:
        return False
    read = problem.packed(vector, rows, lanes)
    return problem.packed(vector, rows, lanes, copying=True) != read


def _multiplies(op: ContractOp, flat: Flat, dot: Dot, vector: str, rows: str | None) -> bool:
    """Return whether a dot product instruction can compute tiles with these rows."""
    return dot.row.m == 1 or multiplies_rows(op, flat, dot, vector, rows)


def tiles_end(reaches: Container[str | None], vector: str | None, width: int) -> bool:
    """Return whether no tile of ``width`` values extends beyond the end of a vector index, even if
    iterations of shared loops run only the first values of its range."""
    return vector not in reaches or GRANULE % width == 0


def _shapes(problem: Problem, vector: str, lanes: int) -> Iterator[tuple[int, str | None]]:
    """Yield the possible shapes of register tiles over a vector index, each as (number of vectors,
    index of the rows; None for tiles of one row)."""
    op, flat, reaches = problem.op, problem.plain, problem.reaches
    full, rest = divmod(flat.ranges[vector], lanes)
    most = max(1, full + (rest > 0 and vector in flat.free))
    counts = [v for v in VECTORS if v <= most and tiles_end(reaches, vector, v * lanes)]
    if op.is_map and flat.out.lane_stride(vector) != 1:
        if not reaches:
            yield 1, interleaving_rows(op, flat, vector)
        return
    if op.is_map:
        transposed = bool(plan_accesses(op, flat, vector, None).gathered())
        rows = transposing_rows(op, flat, vector) if transposed else None
        yield (1 if transposed else min(4, counts[0])), rows
        if not (transposed or reaches):
            kinds = (window_rows, interleaved_rows, sharing_rows)
            rows = (name for kind in kinds for name in kind(op, flat, vector))
            yield from ((1, name) for name in dict.fromkeys(rows))
        return
    if vector == flat.running:
        if runs_in_lanes(op):
            yield from ((v, None) for v in counts if v <= MOST_ALONG)
        return
    others = (n for n in flat.free if n not in (vector, *reaches, *flat.floating))
    names = [n for n in others if flat.ranges[n] > 1]
    names.sort(key=lambda n: abs(flat.out.stride(n)))
    whole = most <= VECTORS[0] and tiles_end(reaches, vector, most * lanes)
    if not names and whole and most not in counts:
        yield most, None  # the operands are read once
    for vectors in counts:
        yield vectors, None
        if vector in flat.free:
            yield from ((vectors, name) for name in names)


def _shared_panel(problem: Problem, vector: str, lanes: int) -> int:
    """Return the width, in vectors, of panels of constants that suit both programs for few rows and
    programs for many rows; 0 if programs do not share constants.

    The last panel may be partial: widths for which the tiles compute the fewest superfluous lanes
    come first. Among these, the widest is taken for which a tile of twice as many rows as vectors
    fits into the registers.
    """
    if not problem.shares_panels(vector, lanes):
        return 0
    flat, held = problem.plain, problem.target.vector_registers - 1
    if all(a.lane_stride(vector) for a in flat.accesses[: flat.inputs]):
        return 1  # tiles share only window vectors
    most = ceil_div(flat.ranges[vector], lanes)
    rows = {v: (held - v) // v for v in VECTORS if min(2, most) <= v <= most}
    fitting = (v for v, n in rows.items() if n >= v)
    return min(fitting, key=lambda v: (ceil_div(most, v) * v, rows[v] < 2 * v, -v))


def runs_in_lanes(op: ContractOp) -> bool:
    """Return whether lanes can run along the running index of a statement; False if it has none.

    A reversed index begins at its last vector, which may be partial. Its number of lanes must be
    known, so the range of a reversed index must not be symbolic.
    """
    index = op.running_index
    if index is None or index.running is None:
        return False
    return not (index.running.reverse and symbols_of([index.range]))


def can_go_on(op: ContractOp) -> bool:
    """Return whether a statement stores its aggregates along a running index without a post body,
    so that a later tile can load them and continue."""
    return op.post_block is None and op.running_index is not None


@dataclass(frozen=True)
class BoundaryRows:
    """A number of rows, before or after the interior, at which a constraint must be checked."""

    rows: int
    weight: int
    """The number of boundary tiles that a tile of these rows counts as: more for a long reduced
    index, whose code is longer."""


def _boundary_rows(flat: Flat[int], rows: str) -> Iterator[BoundaryRows]:
    """Yield, for each constraint, the numbers of rows before and after the interior, which are the
    rows that need no check."""
    extent = flat.ranges[rows]
    for c in flat.constraints:
        if c.form.coefficient(rows) <= 0:
            continue
        low, high = map(estimated, c.interior(rows, flat.ranges))
        reduced = [flat.ranges[n] for n, _ in c.form.terms if n in flat.reduced]
        weight = ceil_div(max(reduced, default=1), LONG_WINDOW)
        yield from (
            BoundaryRows(min(max(0, count), extent), weight) for count in (low, extent - high)
        )


# ** the order of the loops **


def loop_order(
    op: ContractOp, flat: Flat[int], vector: str | None, rows: str | None
) -> tuple[str, ...]:
    """Return the free indices, outermost loop first.

    If one operand moves with the vector index and not with the rows, its panel stays in the cache
    while the loop over rows runs inside. Without such an operand, the loops write the output in
    memory order.
    """
    outward = tuple(sorted(flat.free, key=lambda n: -abs(flat.out.stride(n))))
    if vector is None or rows is None or vector in flat.reduced:
        return outward
    others = [n for n in outward if n not in (vector, rows)]
    if op.is_map:
        return (*others, rows, vector)
    inputs = flat.accesses[: flat.inputs]
    if any(a.lane_stride(vector) and a.stride(rows) for a in inputs):
        return outward
    panels = [a for a in inputs if a.lane_stride(vector)]
    extracts = extracts_along(op, flat, vector)
    first = [
        n
        for n in others
        if any(a.stride(n) for a in panels) or not extracts.isdisjoint(extracts_along(op, flat, n))
    ]
    rest = [n for n in others if n not in first]
    return (*first, vector, *rest, rows)
