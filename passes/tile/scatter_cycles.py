"""Modelled cycles of an indexed write."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tessella.dialects.elements import element_of
from tessella.dialects.tile import ContractOp, ExtractOp, Schedule
from tessella.dialects.tile.flat import Flat
from tessella.passes.tile.body_ops import block_ops
from tessella.passes.tile.estimates import bytes_in
from tessella.passes.tile.places import place_indices
from tessella.passes.tile.traffic import overlapped
from tessella.targets import Target

PLACE_CYCLES = 2.0
"""Cycles to read a point's coordinates, and to compare them with the ranges of the scattered
indices."""


@dataclass(frozen=True)
class ScatterCycles:
    """The modelled cycles of an indexed write, such as a scatter, by cause."""

    computing: float
    waiting: float
    """Cycles until a freshly written element can be read again."""
    core: float
    memory: float


def places(op: ContractOp, flat: Flat[int]) -> int:
    """Return the number of points at which an indexed write computes its coordinates."""
    return prod(flat.ranges[name] for name in place_indices(op, flat))


def place_cycles(op: ContractOp, flat: Flat[int]) -> float:
    """Return the cycles of an indexed write to compute its coordinates."""
    return places(op, flat) * PLACE_CYCLES


def scatter_cycles(op: ContractOp, flat: Flat[int], target: Target, s: Schedule) -> ScatterCycles:
    """Return the cycles of an indexed write under a schedule."""
    lanes = dict.fromkeys(flat.free, 1) | ({s.vector: s.lanes} if s.vector is not None else {})
    count = prod(-(-flat.ranges[name] // lanes[name]) for name in flat.free)
    extracts = [x for x in op.combine.walk() if isinstance(x, ExtractOp)]
    read = len(op.inputs) + len(extracts) + (op.aggregation.data != "=")
    each = max(
        (block_ops(op.combine.block) + 1) / target.fma_ports,
        read / target.load_ports,
        1 / target.store_ports,
    )
    computing = count * each
    visits = places(op, flat)
    core = computing + place_cycles(op, flat)
    memory = sum(_read(bytes_in(value), target) for value in op.inputs)
    for value in (op.res, op.res, *(x.source for x in extracts)):
        memory += _visited(flat, visits, element_of(value.type).size, bytes_in(value), target)
    waiting = visits * float(target.fma_latency)
    return ScatterCycles(computing, waiting, core, overlapped(memory))


def _read(size: int, target: Target) -> float:
    return size / target.bandwidth(size)


def _visited(flat: Flat[int], visits: int, element: int, size: int, target: Target) -> float:
    """Return the cycles to load the cache lines of a tensor of ``size`` bytes that an indexed write
    accesses at computed positions."""
    points = prod(flat.ranges[name] for name in flat.free)
    run = points // max(1, visits) * element
    return visits * max(run, min(size, target.cache_line)) / target.bandwidth(size)
