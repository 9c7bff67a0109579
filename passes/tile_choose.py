"""Choosing the schedule of a statement: vector index, register tile, packing, loop order.

The register tile is the one with the least modelled cycles for the whole statement: per point of
the reduction a tile of
``rows x vectors`` takes the longest of its multiply-adds over the FMA ports, its loads over the
load ports, and the latency of one multiply-add (see ``docs/architecture.md``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from xdsl.ir import BlockArgument, SSAValue

from tessella.dialects.layout import Layout, Piece
from tessella.dialects.nn.core import dtype_of, tensor_type
from tessella.dialects.tile import ContractOp, ExtractOp, IndexOp, KernelOp, Schedule
from tessella.dialects.tile.flat import Flat, flatten, simplify
from tessella.targets import Target

MAX_VECTORS = 4
MAX_ROWS = 16
LOOP_CYCLES = 0.5
"""What a step of the reduction's loop costs beside its arithmetic, where that does not hide it
all."""
LOAD_CYCLES = 0.1
"""What a load costs beyond its port: operands come from the second level of cache as often as
from the first."""
MAX_EDGES = 6
"""Unrolled edge tiles that a statement may have before others are preferred."""
LONG_TAPS = 16
"""Values of a reduced index that are unrolled in an edge tile at the price of one edge."""


@dataclass(frozen=True)
class Choice:
    """A schedule, and the layouts that it wants for operands of the kernel, by operand number."""

    schedule: Schedule
    layouts: Mapping[int, Layout] = field(default_factory=dict[int, Layout])


@dataclass(frozen=True)
class _Tile:
    rows: str | None
    row_tile: int
    vectors: int


def choose(op: ContractOp, kernel: KernelOp, target: Target) -> Choice:
    """The schedule of one statement for a target."""
    flat = simplify(flatten(op))
    lanes = target.lanes(_element_bits(op))
    layouts: dict[int, Layout] = {}
    vector = _vector_index(op, kernel, flat, lanes)
    tile = _register_tile(op, flat, vector, lanes, target)
    if vector is not None and vector in flat.free:
        layouts = _packed_layouts(op, kernel, flat, vector, tile, lanes)
        if layouts:
            packed = simplify(flatten(op, layouts))
            if {vector, tile.rows} - {None} <= set(packed.ranges):
                flat = packed
            else:
                layouts = {}
                vector, tile = None, _Tile(None, 1, 1)
    schedule = Schedule(
        order=_loop_order(op, flat, vector, tile.rows),
        reduction=flat.reduced,
        vector=vector,
        lanes=lanes if vector is not None else 1,
        vectors=tile.vectors,
        rows=tile.rows,
        row_tile=tile.row_tile,
    )
    return Choice(schedule, layouts)


def _element_bits(op: ContractOp) -> int:
    """Bits of the elements that the lanes are counted by: 64 where all are, else 32."""
    values = (*op.inputs, *op.post_inputs, op.res)
    return 64 if all(dtype_of(tensor_type(v)).itemsize == 8 for v in values) else 32


# ** the vector index **


def _vector_index(op: ContractOp, kernel: KernelOp, flat: Flat, lanes: int) -> str | None:
    free = next((n for n in flat.free if flat.out.lane_stride(n) == 1), None)
    if free is not None and not _vectorises(op, kernel, flat, free):
        free = None
    reduced = next((n for n in flat.reduced if _reduces(op, flat, n)), None)
    if free is not None and (reduced is None or _fill(flat, free, lanes) >= 0.25):
        return free
    return reduced if reduced is not None else free


def _fill(flat: Flat, name: str, lanes: int) -> float:
    """The share of lanes that do work."""
    extent = flat.ranges[name]
    return extent / (-(-extent // lanes) * lanes)


def _vectorises(op: ContractOp, kernel: KernelOp, flat: Flat, name: str) -> bool:
    """Whether a free index can run over lanes: unit strides, or operands that can be laid out
    anew."""
    if flat.ranges[name] == 1:
        return False
    for i, a in enumerate(flat.accesses[:-1]):
        if a.lane_stride(name) not in (0, 1) and not (
            i < flat.inputs and not op.is_map and _can_relayout(op, kernel, i, name)
        ):
            return False
    return _extracts_vectorise(op, flat, name)


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


def _register_tile(
    op: ContractOp, flat: Flat, vector: str | None, lanes: int, target: Target
) -> _Tile:
    if vector is None:
        return _Tile(None, 1, 1)
    most = min(MAX_VECTORS, max(1, -(-flat.ranges[vector] // lanes)))
    if op.is_map or vector in flat.reduced:
        return _Tile(
            None, 1, most if op.is_map else max(1, min(most, flat.ranges[vector] // lanes))
        )
    options = [
        (cost, tile)
        for tile in _tiles(flat, vector, most)
        if (cost := _cycles(op, flat, vector, tile, lanes, target)) is not None
    ]
    return min(options, key=lambda option: option[0])[1]


def _tiles(flat: Flat, vector: str, most: int) -> Iterator[_Tile]:
    """All register tiles; of equal ones the first is taken: few rows, many vectors."""
    rows = [n for n in flat.free if n != vector and flat.ranges[n] > 1]
    rows.sort(key=lambda n: abs(flat.out.stride(n)))
    for vectors in range(most, 0, -1):
        yield _Tile(None, 1, vectors)
        for name in rows:
            for row_tile in range(2, min(MAX_ROWS, flat.ranges[name]) + 1):
                yield _Tile(name, row_tile, vectors)


def _cycles(
    op: ContractOp, flat: Flat, vector: str, tile: _Tile, lanes: int, target: Target
) -> float | None:
    """Modelled cycles per row and point of the other indices; None where the registers do not
    suffice."""
    inputs = flat.accesses[: flat.inputs]
    moves = [
        (tile.rows is not None and a.stride(tile.rows) != 0, a.lane_stride(vector) != 0)
        for a in inputs
    ]
    shared = sum(by_vector and not by_row for by_row, by_vector in moves)
    both = any(by_vector and by_row for by_row, by_vector in moves)
    held = tile.row_tile * tile.vectors + shared * tile.vectors + 1
    if op.aggregation.data != "+":
        held += 3  # a maximum that keeps NaN takes a comparison and a blend
    if held + both > target.vector_registers:
        return None
    total = 0.0
    for rows, row_count in _parts(flat, tile.rows, tile.row_tile):
        for vectors, vector_count in _parts(flat, vector, tile.vectors * lanes):
            used = -(-vectors // lanes)
            loads = sum((rows if r else 1) * (used if v else 1) for r, v in moves)
            bound = max(
                rows * used / target.fma_ports, loads / target.load_ports, target.fma_latency
            )
            work = bound + LOOP_CYCLES + LOAD_CYCLES * loads
            total += work * row_count * vector_count
    extent = flat.ranges[tile.rows] if tile.rows is not None else 1
    return total / extent * (1.0 + max(0, _edges(flat, tile) - MAX_EDGES))


def _parts(flat: Flat, name: str | None, size: int) -> list[tuple[int, int]]:
    """(extent of a tile, how many of them) for a blocked index."""
    if name is None:
        return [(1, 1)]
    full, rest = divmod(flat.ranges[name], size)
    return [(size, full)] * (full > 0) + [(rest, 1)] * (rest > 0)


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
    run: its loops go outside.
    """
    outward = sorted(flat.free, key=lambda n: -abs(flat.out.stride(n)))
    others = [n for n in outward if n not in (vector, rows)]
    last = [n for n in (rows,) if n is not None]
    if vector is None or vector in flat.reduced:
        return (*others, *last)
    inputs = flat.accesses[: flat.inputs]
    panels = [a for a in inputs if a.lane_stride(vector) and (rows is None or not a.stride(rows))]
    streams = rows is None or any(a.lane_stride(vector) and a.stride(rows) for a in inputs)
    if op.is_map or streams:
        return (*others, vector, *last)
    first = [n for n in others if any(a.stride(n) for a in panels)]
    rest = [n for n in others if n not in first]
    return (*first, vector, *rest, *last)
