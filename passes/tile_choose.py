"""Choosing the schedule of a statement: vector index, register tile, unrolling, packing, the order
of the loops, and blocks for the caches.

``candidates`` lists what can be run; the first choice is the one of which the model
(``tile_model.py``) makes the fewest cycles. Of equal ones the first is taken, and the order of the
candidates says what is preferred: many vectors, few rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from xdsl.dialects.builtin import i1
from xdsl.ir import BlockArgument, SSAValue

from tessella.dialects.layout import Layout, Piece
from tessella.dialects.nn.core import dtype_of, tensor_type
from tessella.dialects.tile import ContractOp, ExtractOp, IndexOp, KernelOp, Schedule
from tessella.dialects.tile.flat import MAX_LANE_STRIDE, Flat, flatten, simplify
from tessella.passes.tile_model import Estimate, Model, parts
from tessella.targets import Target

VECTORS = (8, 6, 4, 3, 2, 1)
MAX_ROWS = 16
BODY_OPS = 160
"""Instructions of an unrolled loop: it has to stay in the cache of decoded instructions."""
WINDOW_OPS = 640
"""Instructions of an unrolled window."""
MAX_UNROLL = 16
MAX_TAPS = 64
"""Points of a window that are unrolled as a whole."""
SQUARE_BLOCK = 8
"""Vectors in a block of squares that are transposed: of 2 to 16, the best over the layouts of
convolutions' activations."""
COPY_SHARE = 0.5
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
class _Tile:
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
    size = points * s.width * _element_bits(op) // 8
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
    lanes = target.lanes(_element_bits(op))
    found = False
    vectors = _vector_indices(op, kernel, flat)
    if few and vectors and flat.ranges[vectors[0]] >= lanes:
        vectors = vectors[:1]
    for vector in vectors:
        space = _Space(op, kernel, flat, vector, lanes, target)
        for choice in space.choices(few=few):
            found = True
            yield choice
    if not found:
        yield _scalar(op, flat, target)


def _scalar(op: ContractOp, flat: Flat, target: Target) -> Choice:
    schedule = Schedule(order=_loop_order(op, flat, None, None), reduction=flat.reduced)
    return Choice(schedule, Model(op, flat, target).estimate(schedule))


def _element_bits(op: ContractOp) -> int:
    """Bits of the elements that the lanes are counted by: 64 where all are, else 32."""
    values = (*op.inputs, *op.post_inputs, op.res)
    return 64 if all(dtype_of(tensor_type(v)).itemsize == 8 for v in values) else 32


# ** the vector index **


def _vector_indices(op: ContractOp, kernel: KernelOp, flat: Flat) -> list[str]:
    """The indices that can run over lanes."""
    free = [
        n
        for n in flat.free
        if flat.ranges[n] > 1 and flat.out.lane_stride(n) == 1 and _vectorises(op, kernel, flat, n)
    ]
    return [*free[:1], *(n for n in flat.reduced if flat.ranges[n] > 1 and _reduces(op, flat, n))]


def _vectorises(op: ContractOp, kernel: KernelOp, flat: Flat, name: str) -> bool:
    """Whether a free index can run over lanes: unit strides, operands that can be laid out anew, or
    that can be loaded across."""
    across = [
        i
        for i, a in enumerate(flat.accesses[:-1])
        if a.lane_stride(name) not in (0, 1)
        and not (i < flat.inputs and not op.is_map and _can_relayout(op, kernel, i, name))
        and not _loads_strided(op, flat, i, name)
    ]
    if across and not (op.is_map and _crossing(op, flat, across, name)):
        return False
    return _extracts_vectorise(op, flat, name)


def _loads_strided(op: ContractOp, flat: Flat, operand: int, name: str) -> bool:
    """Whether the lanes of an input lie a few elements apart, and what keeps it inside its tensor
    can be told of each element."""
    if operand >= flat.inputs or tensor_type(op.inputs[operand]).element_type == i1:
        return False
    stride = flat.accesses[operand].lane_stride(name)
    return 1 < stride <= MAX_LANE_STRIDE and all(
        c.form.coefficient(name) in (0, stride) for c in flat.constraints if operand in c.operands
    )


def _crossing(op: ContractOp, flat: Flat, operands: Sequence[int], name: str) -> str | None:
    """The index along which these operands of a map are contiguous, where it can be the rows' index
    of squares."""
    values = (*op.inputs, *op.post_inputs)
    if flat.constraints or any(tensor_type(values[i]).element_type == i1 for i in operands):
        return None
    return next(
        (
            n
            for n in flat.free
            if n != name and all(flat.accesses[i].stride(n) == 1 for i in operands)
        ),
        None,
    )


def _reduces(op: ContractOp, flat: Flat, name: str) -> bool:
    strides = {a.lane_stride(name) for a in flat.accesses[: flat.inputs]}
    has_extract = any(isinstance(x, ExtractOp) for x in op.combine.walk())
    return strides <= {0, 1} and 1 in strides and not has_extract


def _extracts_vectorise(op: ContractOp, flat: Flat, name: str) -> bool:
    """Whether extracted elements lie side by side along the index, or are the same for all
    lanes."""
    varying: set[SSAValue] = set()
    for region, accesses in (
        (op.combine, flat.accesses[: flat.inputs]),
        (op.post, flat.accesses[flat.inputs : -1]),
    ):
        if not region.blocks:
            continue
        args = region.block.args[len(region.block.args) - len(accesses) :]
        varying |= {arg for arg, a in zip(args, accesses, strict=True) if a.lane_stride(name) != 0}
        for inner in region.block.ops:
            if isinstance(inner, IndexOp) and inner.index.data == name:
                varying.add(inner.res)
            elif isinstance(inner, ExtractOp):
                if not _extract_vectorises(inner, varying):
                    return False
                varying.add(inner.res)
            elif any(v in varying for v in inner.operands):
                varying |= set(inner.results)
    return True


def _extract_vectorises(op: ExtractOp, varying: set[SSAValue]) -> bool:
    moving = [i for i, c in enumerate(op.coordinates) if c in varying]
    last = len(op.coordinates) - 1
    return not moving or (moving == [last] and isinstance(op.coordinates[last].owner, IndexOp))


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
        packed: dict[tuple[object, ...], tuple[Mapping[int, Layout], Flat]] = {}
        for tile in self._few_tiles() if few else self._tiles():
            key = (tile.vectors, tile.rows)
            if key not in packed:
                layouts = self._layouts(tile)
                packed[key] = layouts, simplify(flatten(self.op, layouts)) if layouts else self.flat
            layouts, flat = packed[key]
            if not {self.vector, tile.rows} - {None} <= set(flat.ranges):
                continue
            model = Model(self.op, flat, self.target)
            schedule = self._schedule(flat, tile)
            if model.registers(schedule) <= self.target.vector_registers:
                schedule = replace(schedule, unroll=self._unroll(flat, tile, model, schedule))
                edges = 1.0 + max(0, _edges(self.flat, tile) - MAX_EDGES)
                copies = sum(self._copy(operand) for operand in layouts)
                yield Choice(schedule, model.estimate(schedule), layouts, edges, copies)

    def _tiles(self, step: int = 1) -> Iterator[_Tile]:
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
            yield _Tile(None, 1, vectors)
            if self.vector in self.flat.free:
                for name in names:
                    for row_tile in range(2, min(MAX_ROWS, self.flat.ranges[name]) + 1, step):
                        yield _Tile(name, row_tile, vectors)

    def _few_tiles(self) -> Iterator[_Tile]:
        """For each index of rows the best of the tiles with as many as the registers hold, or as
        leave none over, by multiply-adds, loads and latency alone."""
        tiles = [tile for tile in self._tiles(step=MAX_ROWS) if tile.vectors <= 4]
        by_rows = [tile for tile in tiles if tile.rows is not None]
        if self.op.is_map or not by_rows:
            yield from tiles[:2] or self._tiles()
            return
        full = [self._with_most_rows(tile) for tile in by_rows]
        for name in dict.fromkeys(tile.rows for tile in full):
            yield min((tile for tile in full if tile.rows == name), key=self._core)

    def _with_most_rows(self, tile: _Tile) -> _Tile:
        model, schedule = Model(self.op, self.flat, self.target), self._schedule(self.flat, tile)
        one, two = (model.registers(replace(schedule, row_tile=n)) for n in (1, 2))
        held = 1 + (self.target.vector_registers - one) // (two - one)
        extent = self.flat.ranges[tile.rows or ""]
        most = max(1, min(MAX_ROWS, extent, held))
        whole = max(n for n in range(1, most + 1) if extent % n == 0)
        return replace(tile, row_tile=whole if 4 * whole >= 3 * most else most)

    def _core(self, tile: _Tile) -> float:
        """Cycles of one point of the reduction for all rows and vectors."""
        total, t = 0.0, self.target
        rows_parts = parts(self.flat.ranges[tile.rows or ""], tile.row_tile)
        for width, count in parts(self.flat.ranges[self.vector], tile.vectors * self.lanes):
            used = -(-width // self.lanes)
            for rows, times in rows_parts:
                work, loads = rows * used / t.fma_ports, (rows + used) / t.load_ports
                total += max(work, loads, t.fma_latency) * count * times
        return total

    def _map_tile(self, vectors: int) -> _Tile:
        across = [
            i
            for i, a in enumerate(self.flat.accesses[:-1])
            if a.lane_stride(self.vector) not in (0, 1)
            and not _loads_strided(self.op, self.flat, i, self.vector)
        ]
        if not across:
            return _Tile(None, 1, vectors)
        rows = _crossing(self.op, self.flat, across, self.vector)
        assert rows is not None
        return _Tile(rows, min(self.lanes, self.flat.ranges[rows]), 1)

    def _layouts(self, tile: _Tile) -> dict[int, Layout]:
        if self.vector not in self.flat.free:
            return {}
        return _packed_layouts(self.op, self.kernel, self.flat, self.vector, tile, self.lanes)

    def _copy(self, operand: int) -> float:
        """Cycles to copy an operand, at half the rate at which its level of memory is read."""
        argument = _argument(self.op, self.kernel, operand)
        if argument is None or self.kernel.is_constant(argument.index):
            return 0.0
        type = tensor_type(argument)
        size = 2 * type.element_count() * dtype_of(type).itemsize
        return COPY_CYCLES + size / (COPY_SHARE * self.target.bandwidth(size))

    def _schedule(self, flat: Flat, tile: _Tile) -> Schedule:
        return Schedule(
            order=_loop_order(self.op, flat, self.vector, tile.rows),
            reduction=flat.reduced,
            vector=self.vector,
            lanes=self.lanes,
            vectors=tile.vectors,
            rows=tile.rows,
            row_tile=tile.row_tile,
            blocks=self._square_blocks(tile),
        )

    def _square_blocks(self, tile: _Tile) -> tuple[tuple[str, int], ...]:
        """Squares run in blocks, so that what is read of a line stays in cache until all of the
        line is."""
        size = SQUARE_BLOCK * self.lanes
        if not self.op.is_map or tile.rows is None or self.flat.ranges[self.vector] <= size:
            return ()
        return ((self.vector, size),)

    def _unroll(self, flat: Flat, tile: _Tile, model: Model, schedule: Schedule) -> int:
        """Points of the reduction in one step of the innermost loop: a whole window, or a power of
        two."""
        if self.op.is_map or self.vector in flat.reduced:
            return 1
        body = tile.row_tile * tile.vectors * 3 // 2 + 1
        if model.registers(schedule) >= self.target.vector_registers:
            return 1
        # the taps of a window share what they load; broadcasts that are shared are spilled
        largest = WINDOW_OPS if model.has_windows(schedule) else BODY_OPS
        whole = 1
        for name in reversed(schedule.reduction):
            extent = flat.ranges[name]
            if whole * extent > MAX_TAPS or whole * extent * body > largest:
                break
            whole *= extent
        most = min(MAX_UNROLL, max(1, BODY_OPS // body))
        return max(whole, 1 << (most.bit_length() - 1))


def _edges(flat: Flat, tile: _Tile) -> int:
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


# ** packing **


def _argument(op: ContractOp, kernel: KernelOp, operand: int) -> BlockArgument | None:
    """The kernel's argument that an operand is, where nothing else in the kernel reads it."""
    value = op.inputs[operand]
    if (
        isinstance(value, BlockArgument)
        and value.block is kernel.body.block
        and value.has_one_use()
    ):
        return value
    return None


def _can_relayout(op: ContractOp, kernel: KernelOp, operand: int, vector: str) -> bool:
    forms = op.input_accesses[operand]
    return (
        _argument(op, kernel, operand) is not None
        and sum(f.coefficient(vector) != 0 for f in forms) == 1
        and any(f.single == vector for f in forms)
    )


def _packed_layouts(
    op: ContractOp, kernel: KernelOp, flat: Flat, vector: str, tile: _Tile, lanes: int
) -> dict[int, Layout]:
    """New layouts: panels for constants, the vector index innermost for others that need it."""
    layouts: dict[int, Layout] = {}
    if op.is_map:
        return layouts
    for i, a in enumerate(flat.accesses[: flat.inputs]):
        if a.lane_stride(vector) == 0 or not _can_relayout(op, kernel, i, vector):
            continue
        argument = _argument(op, kernel, i)
        assert argument is not None
        by_row = tile.rows is not None and a.stride(tile.rows) != 0
        forms = op.input_accesses[i]
        dim = next(d for d, f in enumerate(forms) if f.single == vector)
        rank = len(forms)
        if kernel.is_constant(argument.index) and not by_row:
            width = lanes * tile.vectors
            others = sorted(
                (d for d in range(rank) if d != dim), key=lambda d: _loop_rank(op, i, d)
            )
            outer = [d for d in others if _loop_rank(op, i, d)[0] == 0]
            inner = [d for d in others if _loop_rank(op, i, d)[0] == 1]
            pieces = [
                *(Piece(d) for d in outer),
                Piece(dim, div=width),
                *(Piece(d) for d in inner),
                Piece(dim, mod=width),
            ]
            layouts[i] = Layout("packed", tuple(pieces))
        elif a.lane_stride(vector) != 1:
            order = [*(d for d in range(rank) if d != dim), dim]
            layouts[i] = Layout("packed", tuple(Piece(d) for d in order))
    return layouts


def _loop_rank(op: ContractOp, operand: int, dim: int) -> tuple[int, int]:
    """Where a dimension's index runs: (0, ..) for free indices, (1, position) for reduced ones."""
    positions = {index.name: (int(index.reduced), p) for p, index in enumerate(op.index_list)}
    ranks = [positions[n] for n, _ in op.input_accesses[operand][dim].terms]
    return max(ranks, default=(0, -1))


# ** the order of the loops **


def _loop_order(
    op: ContractOp, flat: Flat, vector: str | None, rows: str | None
) -> tuple[str, ...]:
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
