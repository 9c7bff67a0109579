"""Choosing the schedule of a statement: vector index, register tile, unrolling, packing, the order
of the loops, and blocks for the caches.

``candidates`` lists what can be run; the first choice is the one of which the model
(``model.py``) makes the fewest cycles. Of equal ones the first is taken, and the order of the
candidates says what is preferred: many vectors, few rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate, takewhile
from math import prod
from operator import mul

from tessella.dialects.elements import bytes_of, element_of
from tessella.dialects.layout import Layout
from tessella.dialects.nn.core import tensor_type
from tessella.dialects.tile import ContractOp, KernelOp, Schedule
from tessella.dialects.tile.flat import Flat, flatten, simplify
from tessella.kernels.cost import SHUFFLING, moving
from tessella.passes.tile.model import Estimate, Model
from tessella.passes.tile.packing import argument_of, packed_layouts
from tessella.passes.tile.tiles import parts
from tessella.passes.tile.vectors import crossing, lying_across, vector_indices
from tessella.targets import Target

VECTORS = (8, 6, 4, 3, 2, 1)
MAX_ROWS = 16
BODY_OPS = 160
"""Instructions of an unrolled loop: it has to stay in the cache of decoded instructions."""
WINDOW_OPS = 640
"""Instructions of an unrolled window."""
MAX_UNROLL = 16
FAR_UNROLL = 2
"""Points in a step of the loop where each reads another page: with 4 of them, 1x1 convolutions of
images in rows are slower by a tenth."""
AHEAD = 3
"""One in so many vectors of a point is loaded ahead: with fewer registers left than that, unrolled
products of 9x3 vectors spill."""
MAX_TAPS = 64
"""Points of a window that are unrolled as a whole."""
SQUARE_BLOCK = 8
"""Vectors in a block of squares that are transposed: of 2 to 16, the best over the layouts of
convolutions' activations."""
COPY_CYCLES = 400.0
"""To call another kernel that copies an operand."""
MAX_EDGES = 6
"""Unrolled edge tiles that a statement may have before others are preferred."""
LONG_TAPS = 16
"""Values of a reduced index that are unrolled in an edge tile at the price of one edge."""


@dataclass(frozen=True)
class Choice:
    """A schedule, and the layouts that it wants for operands of the kernel, by operand number."""

    schedule: Schedule
    estimate: Estimate
    layouts: Mapping[int, Layout] = field(default_factory=dict[int, Layout])
    penalty: float = 1.0
    """What the code of edge tiles makes of the cycles."""
    copies: float = 0.0
    """Cycles to lay out operands anew that are no constants."""

    @property
    def cycles(self) -> float:
        return self.estimate.cycles * self.penalty + self.copies


@dataclass(frozen=True)
class RegisterTile:
    """Rows of one free index by vectors of another."""

    rows: str | None = None
    row_tile: int = 1
    vectors: int = 1


def choose(op: ContractOp, kernel: KernelOp, target: Target) -> Choice:
    """The schedule of one statement for a target."""
    best = min(candidates(op, kernel, target), key=lambda choice: choice.cycles)
    blocked = _blocked(op, best, target)
    best = min((best, *blocked), key=lambda choice: choice.cycles)
    return replace(best, schedule=replace(best.schedule, prefetch=_prefetches(op, best, target)))


def _prefetches(op: ContractOp, choice: Choice, target: Target) -> bool:
    """Whether several register tiles share a panel of a constant: enough to ask for the next one,
    if the second level of cache has room for both. Weights come from far away: all others of the
    model have been used since."""
    s, flat = choice.schedule, simplify(flatten(op, choice.layouts))
    if s.vector is None or s.vector not in flat.free:
        return False
    panels = [
        i
        for i, a in enumerate(flat.accesses[: flat.inputs])
        if s.vector in a.lanes and not (s.rows and a.stride(s.rows))
    ]
    inside = s.order[s.order.index(s.vector) + 1 :]
    tiles = prod(-(-flat.ranges[n] // (s.row_tile if n == s.rows else 1)) for n in inside)
    points = prod(flat.ranges[n] for n in flat.reduced)
    size = points * s.width * element_bits(op) // 8
    room = 2 * size <= target.l2
    return bool(panels) and room and tiles > 1 and flat.ranges[s.vector] > s.width


def estimate(op: ContractOp, kernel: KernelOp, target: Target) -> Choice:
    """The best of the few choices that mostly win, for costs: found in an eighth of the time, its
    cycles are those of the best, or up to a third more."""
    return min(candidates(op, kernel, target, few=True), key=lambda choice: choice.cycles)


def candidates(
    op: ContractOp, kernel: KernelOp, target: Target, *, few: bool = False
) -> Iterator[Choice]:
    """Every choice that can be run, without blocks for the caches; or a few of them."""
    flat = simplify(flatten(op))
    lanes = target.lanes(element_bits(op))
    vectors = vector_indices(op, kernel, flat)
    if few and vectors and flat.ranges[vectors[0]] >= lanes:
        vectors = vectors[:1]
    count, copied = 0, 0
    for vector in vectors:
        space = _Space(op, kernel, flat, vector, lanes, target)
        for choice in space.choices(few=few):
            count, copied = count + 1, copied + (choice.copies > 0)
            yield choice
    if few and not count:
        yield from candidates(op, kernel, target)
    elif count == copied:  # where each has to copy something, scalars may be faster
        yield _scalar(op, flat, target)


def _scalar(op: ContractOp, flat: Flat, target: Target) -> Choice:
    schedule = Schedule(order=loop_order(op, flat, None, None), reduction=flat.reduced)
    return Choice(schedule, Model(op, flat, target).estimate(schedule))


def element_bits(op: ContractOp) -> int:
    """Bits of the elements that the lanes are counted by: 64 where all are, else 32."""
    values = (*op.inputs, *op.post_inputs, op.res)
    return 64 if all(element_of(v.type).bits == 64 for v in values) else 32


# ** the register tile **


@dataclass(frozen=True)
class _Space:
    """The choices for one vector index."""

    op: ContractOp
    kernel: KernelOp
    flat: Flat
    vector: str
    lanes: int
    target: Target

    def choices(self, *, few: bool = False) -> Iterator[Choice]:
        """All choices whose register tile fits into the registers; or a few of them."""
        packed: dict[tuple[object, ...], tuple[Mapping[int, Layout], Model]] = {}
        for tile in self._few_tiles() if few else self._tiles():
            key = (tile.vectors, tile.rows)
            if key not in packed:
                layouts = self._layouts(tile)
                flat = simplify(flatten(self.op, layouts)) if layouts else self.flat
                packed[key] = layouts, Model(self.op, flat, self.target)
            layouts, model = packed[key]
            if not {self.vector, tile.rows} - {None} <= set(model.flat.ranges):
                continue
            schedule = self._schedule(model, tile)
            if model.registers(schedule) <= self.target.vector_registers:
                schedule = replace(schedule, unroll=self._unroll(model, schedule))
                edges = 1.0 + max(0, _edges(self.flat, tile) - MAX_EDGES)
                copies = sum(self._copy(operand) for operand in layouts)
                yield Choice(schedule, model.estimate(schedule), layouts, edges, copies)

    def _tiles(self, step: int = 1) -> Iterator[RegisterTile]:
        extent = self.flat.ranges[self.vector]
        most = max(1, -(-extent // self.lanes))
        if self.vector in self.flat.reduced:
            most = max(1, extent // self.lanes)
        counts = [v for v in VECTORS if v <= most] or [1]
        if self.op.is_map:
            yield self._map_tile(min(4, counts[0]))
            return
        names = [n for n in self.flat.free if n != self.vector and self.flat.ranges[n] > 1]
        names.sort(key=lambda n: abs(self.flat.out.stride(n)))
        for vectors in counts:
            yield RegisterTile(None, 1, vectors)
            if self.vector in self.flat.free:
                for name in names:
                    for row_tile in range(2, min(MAX_ROWS, self.flat.ranges[name]) + 1, step):
                        yield RegisterTile(name, row_tile, vectors)

    def _few_tiles(self) -> Iterator[RegisterTile]:
        """For each index of rows the best of the tiles with as many as the registers hold, or as
        leave none over, by multiply-adds, loads and latency alone."""
        tiles = [tile for tile in self._tiles(step=MAX_ROWS) if tile.vectors <= 4]
        by_rows = [tile for tile in tiles if tile.rows is not None]
        if self.op.is_map or not by_rows:
            yield from tiles[:2] or self._tiles()
            return
        model = Model(self.op, self.flat, self.target)
        for name in dict.fromkeys(tile.rows for tile in by_rows):
            schedule = self._schedule(model, RegisterTile(name))
            own = (tile for tile in by_rows if tile.rows == name)
            full = (self._with_most_rows(tile, model, schedule) for tile in own)
            yield min(full, key=self._core)

    def _with_most_rows(self, tile: RegisterTile, model: Model, schedule: Schedule) -> RegisterTile:
        """The tile with as many rows as the registers hold; the schedule is that of one vector."""
        wide = replace(schedule, vectors=tile.vectors)
        one, two = (model.registers(replace(wide, row_tile=n)) for n in (1, 2))
        held = 1 + (self.target.vector_registers - one) // (two - one)
        extent = self.flat.ranges[tile.rows or ""]
        most = max(1, min(MAX_ROWS, extent, held))
        whole = max(n for n in range(1, most + 1) if extent % n == 0)
        return replace(tile, row_tile=whole if 4 * whole >= 3 * most else most)

    def _core(self, tile: RegisterTile) -> float:
        """Cycles of one point of the reduction for all rows and vectors."""
        total, t = 0.0, self.target
        rows_parts = parts(self.flat.ranges[tile.rows or ""], tile.row_tile, overlap=False)
        for width, count in parts(
            self.flat.ranges[self.vector], tile.vectors * self.lanes, overlap=False
        ):
            used = -(-width // self.lanes)
            for rows, times in rows_parts:
                work, loads = rows * used / t.fma_ports, (rows + used) / t.load_ports
                total += max(work, loads, t.fma_latency) * count * times
        return total

    def _map_tile(self, vectors: int) -> RegisterTile:
        across = lying_across(self.op, self.flat, self.vector)
        if not across:
            return RegisterTile(None, 1, vectors)
        rows = crossing(self.op, self.flat, across, self.vector)
        assert rows is not None
        return RegisterTile(rows, min(self.lanes, self.flat.ranges[rows]), 1)

    def _layouts(self, tile: RegisterTile) -> dict[int, Layout]:
        if self.vector not in self.flat.free:
            return {}
        return packed_layouts(
            self.op, self.kernel, self.flat, self.vector, tile.rows, tile.vectors * self.lanes
        )

    def _copy(self, operand: int) -> float:
        """Cycles to copy an operand in another order."""
        argument = argument_of(self.op, self.kernel, operand)
        if argument is None or self.kernel.is_constant(argument.index):
            return 0.0
        type = tensor_type(argument)
        count, size = type.element_count(), bytes_of(type)
        cycles = moving(size, size, self.target) * self.target.ghz * 1e9
        return COPY_CYCLES + cycles + count * SHUFFLING

    def _schedule(self, model: Model, tile: RegisterTile) -> Schedule:
        return Schedule(
            order=loop_order(self.op, model.flat, self.vector, tile.rows),
            reduction=self._reduction(model, tile.rows),
            vector=self.vector,
            lanes=self.lanes,
            vectors=tile.vectors,
            rows=tile.rows,
            row_tile=tile.row_tile,
            blocks=self._square_blocks(tile),
        )

    def _reduction(self, model: Model, rows: str | None) -> tuple[str, ...]:
        """The reduced indices: those whose loops constraints bound outside, as the others unroll;
        along which rows share what they load inside, so that it is held for as short as can be."""
        bounded, shared = model.bounded(self.vector, rows), model.shared(self.vector, rows)
        return tuple(sorted(model.flat.reduced, key=lambda n: (n not in bounded, n in shared)))

    def _square_blocks(self, tile: RegisterTile) -> tuple[tuple[str, int], ...]:
        """Squares run in blocks, so that what is read of a line stays in cache until all of the
        line is."""
        size, extent = SQUARE_BLOCK * self.lanes, self.flat.ranges[self.vector]
        if not self.op.is_map or tile.rows is None or extent <= size:
            return ()
        even = -(-extent // -(-extent // size))
        return ((self.vector, -(-even // self.lanes) * self.lanes),)

    def _unroll(self, model: Model, s: Schedule) -> int:
        """Points of the reduction in one step of the innermost loop: a whole window, or a power of
        two."""
        if self.op.is_map or self.vector in model.flat.reduced:
            return 1
        body = s.row_tile * s.vectors * 3 // 2 + 1
        # LLVM loads some of the next point's vectors ahead
        if model.registers(s) + s.vectors // AHEAD >= self.target.vector_registers:
            return 1
        # the taps of a window share what they load; broadcasts that are shared are spilled
        largest = WINDOW_OPS if model.has_windows(s) else BODY_OPS
        bounded = model.bounded(s.vector, s.rows)
        inside = takewhile(lambda name: name not in bounded, reversed(s.reduction))
        extents = [model.flat.ranges[name] for name in inside]
        whole = 1
        for points in accumulate(extents, mul):
            if points > MAX_TAPS or points * body > largest:
                break
            whole = points
        longest = FAR_UNROLL if model.page_cycles(s) > 1 else MAX_UNROLL
        most = min(longest, max(1, BODY_OPS // body))
        return min(prod(extents), max(whole, 1 << (most.bit_length() - 1)))


def _edges(flat: Flat, tile: RegisterTile) -> int:
    """How many tiles constraints cut; one whose reduced index is long counts for several, as its
    code does."""
    if tile.rows is None:
        return 0
    extent, cut = flat.ranges[tile.rows], 0
    for c in flat.constraints:
        scale = c.form.coefficient(tile.rows)
        if scale <= 0:
            continue
        low, high = c.form.substitute({tile.rows: type(c.form)()}).bounds(flat.ranges)
        before, inside = -(low // scale), (c.extent - 1 - high) // scale + 1
        tiles = sum(
            -(-min(max(0, rows), extent) // tile.row_tile) for rows in (before, extent - inside)
        )
        taps = [flat.ranges[n] for n, _ in c.form.terms if n in flat.reduced]
        cut += tiles * -(-max(taps, default=1) // LONG_TAPS)
    return cut


# ** the order of the loops **


def loop_order(op: ContractOp, flat: Flat, vector: str | None, rows: str | None) -> tuple[str, ...]:
    """Free indices from the outermost loop to the innermost.

    The panel of an operand that moves with the vector index alone stays in cache while the rows
    run: its loops go outside. Where there is no such panel, the output is written in the order of
    memory.
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
    first = [n for n in others if any(a.stride(n) for a in panels)]
    rest = [n for n in others if n not in first]
    return (*first, vector, *rest, rows)


# ** blocks for the caches **


def _blocked(op: ContractOp, choice: Choice, target: Target) -> Iterator[Choice]:
    """The choice with one free index cut into blocks whose operands stay in a cache."""
    s = choice.schedule
    if op.is_map or s.vector is None:
        return
    flat = simplify(flatten(op, choice.layouts))
    model = Model(op, flat, target)
    steps = {s.rows: s.row_tile}
    for name in s.order:
        if name == s.vector or name in flat.pinned:
            continue
        step, extent = steps.get(name, 1), flat.ranges[name]
        size = step
        while size * 2 < extent:
            size *= 2
            schedule = replace(s, blocks=((name, size),))
            yield replace(choice, schedule=schedule, estimate=model.estimate(schedule))
