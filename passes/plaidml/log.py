"""The reasoning of a tile-size search as text, in the form of PlaidML's log."""

from __future__ import annotations

from collections.abc import Iterator

from tessella.dialects.nn.core import shape_of
from tessella.dialects.tile import ContractOp
from tessella.dialects.tile.access import print_access
from tessella.passes.plaidml.model import TileStats
from tessella.passes.plaidml.read_plan import MergedIndex, ReadPlan
from tessella.passes.plaidml.search import SearchResult
from tessella.passes.plaidml.stride_table import StrideTable, text_table

LAYOUT_NAME_WIDTH = 4
"""The width of the column with the names of dimensions, in characters."""
STATS = {
    "to": "true_ops",
    "wg": "work_groups",
    "il": "inner_loops",
    "sm": "shared_mem",
    "or": "out_regs",
    "mr": "mem_read",
    "mw": "mem_write",
    "op": "operations",
    "rp": "rollups",
    "tu": "threads_used",
}
"""The attributes of ``TileStats`` with the statistics of a tile, by their names in the log."""
RATIOS = ("roof_ratio", "occ_ratio", "thread_ratio", "score")


def log_lines(op: ContractOp, kernel: str, found: SearchResult) -> Iterator[str]:
    """Yield the log of a search: the statement, each tile in search order, the choice."""
    yield f"Contraction {kernel}:"
    yield statement_line(op, found.table)
    yield str(found.table)
    for tile in found.scores:
        yield f"Computing cost for tile size: {list(tile)}"
        yield from tile_lines(found.stats(tile))
    yield from choice_lines(found)


def statement_line(op: ContractOp, table: StrideTable) -> str:
    """Return the statement: `O[n, x : 32, 224] = +(D[n, x + i - 1], K[i])`."""
    forms = ", ".join(map(str, op.out_access))
    sizes = ", ".join(map(str, shape_of(op.res)))
    out = f"{forms} : {sizes}" if sizes else ""
    inputs = ", ".join(
        column.tensor + print_access(forms)
        for column, forms in zip(table.inputs, op.input_accesses, strict=True)
    )
    return f"{table.out.tensor}[{out}] = {op.aggregation.data}({inputs})"


def tile_line(stats: TileStats) -> str:
    """Return the size of a tile along each index: `Tile size: [k: 8, m: 16]`."""
    sizes = zip(stats.table.names, stats.tile, strict=True)
    return f"Tile size: [{', '.join(f'{name}: {size}' for name, size in sizes)}]"


def tile_lines(stats: TileStats) -> Iterator[str]:
    """Yield statistics and score of a tile; numbers are printed as by C++, with 6 digits."""
    yield "  Compute score: " + " ".join(f"{k}={getattr(stats, name)}" for k, name in STATS.items())
    if stats.over is not None:
        yield f"  over {stats.over}"
        return
    yield f"  flops_per_byte={stats.flops_per_byte:g} occupancy={stats.occupancy}"
    yield "  " + " ".join(f"{name}={getattr(stats, name):g}" for name in RATIOS)


def choice_lines(found: SearchResult) -> Iterator[str]:
    """Yield the chosen tile, and its layouts in local memory."""
    yield tile_line(found.stats(found.chosen))
    counts = f"{len(found.scores)} tiles evaluated, {found.expanded} expanded"
    yield f"  {counts}, {len(found.ties)} with score {found.score:g}"
    if not found.complete:
        yield "  stopped at max-tiles: there may be better ones"
    if found.settings.use_global:
        return
    for column, plan in zip(found.table.inputs, found.stats(found.chosen).read_plans, strict=True):
        yield f"Memory layout of {column.tensor}:"
        yield layout_table(plan)


def layout_table(plan: ReadPlan) -> str:
    """Return the ranges and strides of a tile in global and in local memory as a table, merged
    indices first."""

    def merged_first(row: tuple[MergedIndex, int]) -> tuple[bool, str]:
        return len(row[0].names) == 1, row[0].name

    indices = sorted(zip(plan.indices, plan.local_strides, strict=True), key=merged_first)
    rows = [(index.name, index.range, index.stride, local) for index, local in indices]
    return text_table(("", "Range", "Global", "Local"), rows, LAYOUT_NAME_WIDTH)
