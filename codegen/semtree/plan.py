"""The plan of a statement on a device: tiles, work-items and local memory, from PlaidML's search.

A work-group computes a tile of the output. Its work-items are divided among the free indices; the
remaining work-items divide the points of the reduction. In each step of the reduction, the group
loads a tile of each input into local memory, if the device has local memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tessella.codegen.semtree.tree import (
    Expression,
    Name,
    Number,
    add,
    difference,
    least,
    number,
)
from tessella.dialects.sizes import Sizes
from tessella.dialects.tile import ContractOp
from tessella.dialects.tile.flat import Flat, flatten
from tessella.passes.plaidml.log import tile_line, tile_lines
from tessella.passes.plaidml.model import PlaidmlSettings, TileStats
from tessella.passes.plaidml.out_plan import share
from tessella.passes.plaidml.read_plan import ReadPlan
from tessella.passes.plaidml.search import SearchResult, search
from tessella.passes.plaidml.stride_table import stride_table
from tessella.support.decisions import known_all
from tessella.support.names import identifiers
from tessella.support.sizes import Size, ceil_div, estimated, product, symbols_of
from tessella.targets.device_facts import DeviceFacts

MOST_TILES = 2048
"""The largest number of tiles that a search scores. Scoring them takes a tenth of a second."""
GROUPS_PER_UNIT = 4
"""The number of work-groups per unit that keeps a device busy whose units switch between groups, as
in PlaidML's settings."""


@dataclass(frozen=True)
class Tiled:
    """An index of a statement, with the size of its tiles and the number of work-items along it."""

    name: str
    symbol: str
    """The name of the index in the kernel."""
    range: Size
    tile: int
    """The number of values of the index in a work-group or, for a reduced index, in a step of the
    reduction."""
    tiles: Size
    """The number of tiles along the index."""
    items: int = 1
    """The number of work-items along the index."""

    @property
    def turns(self) -> int:
        """The number of values of the index that one work-item computes."""
        return -(-self.tile // self.items)

    @property
    def value(self) -> Name:
        """The value of the index."""
        return Name(self.symbol)

    @property
    def first(self) -> Name:
        """The first value of the index in the tile."""
        return Name(f"{self.symbol}_0")

    @property
    def last(self) -> Name:
        """The last value of the index in the tile."""
        return Name(f"{self.symbol}_1")

    @property
    def place(self) -> Name:
        """The first of the values of the index that this work-item computes."""
        return Name(f"{self.symbol}_i")

    @property
    def counter(self) -> Name:
        """The variable of the loop over the values of the index that this work-item computes."""
        return Name(f"{self.symbol}_t")

    @property
    def turn(self) -> Expression:
        """The number, from 0, of the current value among those that this work-item computes."""
        return self.counter if self.turns > 1 else Number(0)

    @property
    def end_of_tile(self) -> Expression:
        """The last value of the index in the tile that begins at ``first``."""
        if self.tiles == 1:
            return add(self.range, -1)
        return add(least(add(self.first, self.tile), self.range), -1)

    @property
    def count(self) -> Expression:
        """The number of values of the index in the tile."""
        if self.tiles == 1:
            return number(self.range)
        return add(difference(self.last, self.first), 1)

    def with_sizes(self, of: Sizes) -> Tiled:
        """Return the index with every size replaced by the result of ``of``."""
        return replace(self, range=of(self.range), tiles=of(self.tiles))


@dataclass(frozen=True)
class Plan:
    """The division of a statement's work among work-groups and work-items."""

    flat: Flat
    free: tuple[Tiled, ...]
    """The free indices. Neighbouring work-items have neighbouring values of the first one."""
    reduced: tuple[Tiled, ...]
    lanes: int
    """The number of work-items that accumulate one output together, a power of two."""
    reads: Mapping[int, ReadPlan]
    """The plans of the inputs that are loaded into local memory, by the number of the input."""
    log: tuple[str, ...]
    """The tile's statistics and score, as in the log of PlaidML's search."""

    @property
    def items(self) -> int:
        """The number of work-items of a work-group."""
        return self.lanes * math.prod(each.items for each in self.free)

    @property
    def groups(self) -> Size:
        """The number of work-groups."""
        return product(each.tiles for each in self.free)

    @property
    def turns(self) -> int:
        """The number of outputs that one work-item computes."""
        return math.prod(each.turns for each in self.free)

    def with_sizes(self, of: Sizes) -> Plan:
        """Return the plan with every size replaced by the result of ``of``."""
        free, reduced = (
            tuple(each.with_sizes(of) for each in indices) for indices in (self.free, self.reduced)
        )
        return replace(self, flat=self.flat.with_sizes(of), free=free, reduced=reduced)


def settings_of(facts: DeviceFacts) -> PlaidmlSettings:
    """Return the settings of the search for a device."""
    return PlaidmlSettings(
        threads=1 << (facts.group_items.bit_length() - 1),
        mem_width=facts.line_bytes,
        max_mem=facts.local_bytes,
        max_regs=facts.register_bytes,
        goal_groups=facts.units * (1 if facts.runs_in_turn else GROUPS_PER_UNIT),
        goal_flops_per_byte=max(1, round(facts.flops / facts.bandwidth)),
        use_global=not facts.has_local_memory,
        in_turn=facts.runs_in_turn,
    )


def search_tile(op: ContractOp, facts: DeviceFacts) -> SearchResult:
    """Return the search for the tile of a statement that has a stride table, for the usual values
    of symbols."""
    return search(stride_table(op), settings_of(facts), max_tiles=MOST_TILES)


def plan(op: ContractOp, facts: DeviceFacts, stats: TileStats) -> Plan:
    """Return the plan of a statement with a tile."""
    flat, table, settings = flatten(op), stats.table, stats.settings
    tiles = dict(zip(table.names, stats.tile, strict=True))
    order = sorted(flat.free, key=lambda name: (abs(estimated(flat.out.stride(name))), name))
    sizes = [tiles.get(name, 1) for name in order]
    line = max(1, settings.mem_width // table.out.step_bytes)
    items = share(sizes, settings.threads, line)
    ranges = flat.ranges
    symbols = dict(zip(ranges, identifiers(f"i_{name}" for name in ranges), strict=True))

    def tiled(name: str, items: int = 1) -> Tiled:
        size = tiles.get(name, 1)
        return Tiled(name, symbols[name], ranges[name], size, ceil_div(ranges[name], size), items)

    return Plan(
        flat,
        tuple(tiled(n, p) for n, p in zip(order, items, strict=True)),
        tuple(map(tiled, flat.reduced)),
        _lanes(op, stats, settings.threads // max(1, math.prod(items))),
        _reads(op, flat, tiles, facts),
        (tile_line(stats), *tile_lines(stats)),
    )


def _lanes(op: ContractOp, stats: TileStats, most: int) -> int:
    # Lanes cannot share an output with a default: a lane only knows whether its own points exist.
    if op.is_map or op.default is not None or most < 1:
        return 1
    return min(1 << stats.rollups, 1 << (most.bit_length() - 1))


def _reads(
    op: ContractOp, flat: Flat, tiles: Mapping[str, int], facts: DeviceFacts
) -> Mapping[int, ReadPlan]:
    """Return the plans of the inputs that are loaded into local memory. Inputs with symbolic
    strides are read in place, because the lines of their tiles are not known."""
    if op.is_map or not facts.has_local_memory:
        return {}
    names = tuple(flat.ranges)
    sizes = [tiles.get(name, 1) for name in names]
    strides = [[access.stride(name) for name in names] for access in flat.accesses[: flat.inputs]]
    return {
        number: ReadPlan.of(names, known_all(each), sizes)
        for number, each in enumerate(strides)
        if not symbols_of(each)
    }
