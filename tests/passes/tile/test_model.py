"""The cost model of statements: what it counts, and what follows for the choice."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessella import targets
from tessella.dialects.tile import ContractOp, KernelOp, Schedule
from tessella.dialects.tile.flat import FlatAccess, flatten
from tessella.dialects.tile.merge import merge_indices, with_places
from tessella.passes.tile import search
from tessella.passes.tile.choice import Choice
from tessella.passes.tile.model import CostModel, Estimate
from tessella.passes.tile.problem import Problem
from tessella.passes.tile.search import all_choices, best_schedule
from tessella.passes.tile.traffic import overlapped
from tessella.support.decisions import known
from tessella.targets import Target
from tessella.targets.table import TARGETS
from tests.generators.tile_statements import statement
from tests.passes.tile_statements import contraction
from tests.sampling import sampled

ROOT = Path(__file__).parents[3]
AVX2 = targets.get("avx2")
every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=lambda t: t.name)
randoms = st.randoms(use_true_random=False)


def product(m: int, n: int, k: int) -> ContractOp:
    """A product of row-major matrices."""
    inputs = [("[m, k]", f"{m}x{k}"), ("[k, n]", f"{k}x{n}")]
    return contraction(f"m: {m}, n: {n} | k: {k}", inputs, ("[m, n]", f"{m}x{n}"))


def tiled(lanes: int = 8, vectors: int = 2, rows: int = 4, **more: Any) -> Schedule:
    """A schedule of a product: panels of columns outside, tiles of so many rows."""
    start = Schedule(("n", "m"), ("k",), "n", lanes, vectors, "m", rows)
    return replace(start, **more)


def model(op: ContractOp, target: Target = AVX2) -> CostModel:
    merge_indices(op)
    return CostModel(op, flatten(op).with_sizes(known), target, op.summed)


def kernel_of(op: ContractOp) -> KernelOp:
    kernel = op.parent_op()
    assert isinstance(kernel, KernelOp)
    return kernel


def chosen(op: ContractOp, target: Target) -> Choice:
    return best_schedule(op, kernel_of(op), target)


# ** what is counted **


def test_arithmetic_of_whole_tiles() -> None:
    """A multiply-add for each vector of the output and point, on two ports."""
    found = model(product(64, 48, 20)).estimate(tiled(vectors=3))
    assert found.arithmetic == 64 * (48 / 8) * 20 / 2


def test_the_last_product_and_the_sum_are_one_operation() -> None:
    inputs = [("[i, k]", "64x20"), ("[k]", "20"), ("[i]", "64")]
    assert model(contraction("i: 64 | k: 20", inputs, ("[i]", "64"))).ops == 2.0


def test_arithmetic_of_rest_tiles() -> None:
    """7 rows are a tile of 4 and one of 3; 19 columns are 2 vectors and a partial one."""
    found = model(product(7, 19, 20)).estimate(tiled())
    assert found.arithmetic == 7 * 3 * 20 / 2


def test_loads_of_a_register_tile() -> None:
    """A point of 4 rows and 2 vectors loads 4 elements to broadcast and 2 vectors, on two ports."""
    found = model(product(64, 32, 20)).estimate(tiled())
    assert found.loads == (64 / 4) * (32 / 16) * 20 * (4 + 2) / 2


@pytest.mark.parametrize(
    "extent, vectors, shuffles",
    [(8, 8, 8 * 3), (24, 8, 8 * 3), (4, 4, 4 * 2 + 8), (2, 2, 2 * 1 + 8)],
)
def test_squares_of_a_short_index_take_fewer_loads(
    extent: int, vectors: int, shuffles: int
) -> None:
    out = ("[m, n]", f"64x{extent}")
    op = contraction(f"m: 64, n: {extent}", [("[n, m]", f"{extent}x64")], out)
    s = Schedule(("m", "n"), (), "n", 8, 1, "m", 8)
    target = replace(AVX2, load_ports=2, shuffle_ports=1)
    found = model(op, target)
    ((_, access),) = found._inputs(s)
    loads = vectors * found._lines(s, access)
    assert found._square_loads(s, access) == loads + 2 * shuffles


def test_one_accumulator_waits() -> None:
    """With one accumulator, every point waits for its predecessor."""
    op = product(64, 32, 20)
    alone = model(op).estimate(tiled(vectors=1, rows=1))
    points = 64 * (32 / 8) * 20
    assert alone.latency == points * AVX2.fma_latency
    assert alone.core > points * AVX2.fma_latency > model(op).estimate(tiled()).core


def test_unrolling_saves_loops() -> None:
    op = product(64, 32, 64)
    cores = [model(op).estimate(tiled(unroll=n)).core for n in (1, 2, 4, 8)]
    assert cores == sorted(cores, reverse=True)
    assert len(set(cores)) == len(cores)


def test_rows_that_lie_pages_apart_share_a_set_of_the_cache() -> None:
    """More rows than the first level has ways cost more; a little further apart they do not."""
    ways = AVX2.l1 // AVX2.page
    few, many = tiled(rows=ways - 2, unroll=4), tiled(rows=ways + 1, unroll=4)
    count = (ways - 2) * (ways + 1)  # whole tiles of both
    apart, aligned = (model(product(count, 16, k)) for k in (AVX2.page // 4 + 16, AVX2.page // 4))
    per_point = [
        found.estimate(s).core / k
        for found, k in ((apart, 1040), (aligned, 1024))
        for s in (few, many)
    ]
    assert per_point[0] == pytest.approx(per_point[2], rel=0.01)
    assert per_point[3] > 1.1 * per_point[1]


def test_registers_of_a_product() -> None:
    """Accumulators, the vectors that rows share, and one broadcast."""
    assert model(product(64, 48, 20)).registers(tiled(vectors=3)) == 4 * 3 + 3 + 1


def test_the_slower_counts_whole() -> None:
    found = Estimate(0, 0, 0, core=100.0, traffic={"L2": 40.0, "memory": 60.0}, registers=0)
    assert 60.0 < found.memory < 100.0
    assert 100.0 < found.cycles < 160.0
    turned = replace(found, core=60.0, traffic={"L2": 100.0})
    assert turned.cycles == pytest.approx(overlapped(100.0, 60.0))


def test_levels_overlap_in_part() -> None:
    """Rows of a window along its outer dimension read less from the second level: each line is
    there for all of its taps. What comes from beyond it is as much."""
    inputs = [("[y + i, x + j, g]", "58x58x144"), ("[i, j, g]", "3x3x144")]
    indices = "y: 56, x: 56, g: 144 | i: 3, j: 3"
    window = contraction(indices, inputs, ("[y, x, g]", "56x56x144"))
    along_x, along_y = (
        Schedule(("y", "x", "g"), tuple(reduction), "g", 16, 1, rows, 7, 3)
        for rows, *reduction in ("xij", "yji")
    )
    m = model(window, targets.get("avx512"))
    x, y = m.estimate(along_x), m.estimate(along_y)
    assert x.traffic["L3"] == y.traffic["L3"] > x.traffic["L2"] > 1.5 * y.traffic["L2"]
    assert x.memory > y.memory


# ** traffic **

SMALL = replace(
    AVX2, l1=8192, l2=36864, l3=1 << 20, l2_bandwidth=1.0, l3_bandwidth=1.0, memory_bandwidth=1.0
)
"""With caches that hold 6144 and 27648 bytes of a statement; traffic in bytes."""

TRAFFIC = [
    # The panel of b, 64x16, and 4 rows of a: 4 KiB + 1 KiB + 256 bytes of the output. So the panel
    # comes into the first level once, and all of a for each of the 4 panels. The second level
    # holds a too; from beyond it the output's lines come, and go there.
    (tiled(), SMALL, {"L2": 4 * 16384 + 16384 + 16384, "L3": 4 * 16384, "memory": 0}),
    # The first level holds only a point of the reduction, 576 bytes: each tile reads all its rows
    # and its panel again, once: a line of rows stays from element to element.
    (tiled(), replace(SMALL, l1=1024),
     {"L2": 64 * 1024 + 64 * 4096 + 64 * 256, "L3": 4 * 16384, "memory": 0}),
    # Rows outside: their 1 KiB stay while the panels pass by, all of b for each of 16 tiles.
    (tiled(order=("m", "n")), SMALL,
     {"L2": 16384 + 16 * 16384 + 16384, "L3": 4 * 16384, "memory": 0}),
    # Blocks of 16 rows: b comes four times, each block of a once.
    (tiled(blocks=(("m", 16),)), replace(SMALL, l1=13000),
     {"L2": 16384 + 4 * 16384 + 16384, "L3": 4 * 16384, "memory": 0}),
    # All 48 KiB of it are in the second level.
    (tiled(), replace(SMALL, l2=65536), {"L2": 6 * 16384, "L3": 0, "memory": 0}),
    # Nothing stays anywhere.
    (tiled(), replace(SMALL, l2=8192, l3=8192),
     {"L2": 6 * 16384, "L3": 7 * 16384, "memory": 7 * 16384}),
]  # fmt: skip
"""A product of 64x64x64, each matrix 16 KiB: schedule, machine, bytes that each level delivers."""


@pytest.mark.parametrize("schedule, target, expected", TRAFFIC)
def test_traffic_of_a_product(
    schedule: Schedule, target: Target, expected: dict[str, float]
) -> None:
    assert model(product(64, 64, 64), target).estimate(schedule).traffic == expected


def points(found: CostModel, s: Schedule) -> Iterator[dict[str, int]]:
    """Yield the positions of the loops of a schedule without blocks, one register tile and point
    after another."""
    steps = {s.rows: s.row_tile, s.vector: s.width}
    at = [{}]
    for name in (*s.order, *s.reduction):
        steps_of = range(0, found.flat.ranges[name], steps.get(name, 1))
        at = [{**point, name: i} for point in at for i in steps_of]
    yield from at


def lines(a: FlatAccess, found: CostModel, s: Schedule, point: dict[str, int]) -> set[int]:
    """The lines of 16 floats of an operand that a register tile touches at a point."""
    spread = {s.rows: s.row_tile, s.vector: s.width}
    addresses = {known(a.offset)}
    for name, start in point.items():
        stop = min(start + spread.get(name, 1), known(found.flat.ranges[name]))
        step = known(a.stride(name))
        addresses = {at + step * i for at in addresses for i in range(start, stop)}
    return {address // 16 for address in addresses}


def misses(found: CostModel, s: Schedule, capacity: int) -> int:
    """Bytes that come into a cache that keeps the lines used last."""
    held: OrderedDict[tuple[int, int], None] = OrderedDict()
    count = 0
    for point in points(found, s):
        for number, a in enumerate(found.flat.accesses):
            for line in lines(a, found, s, point):
                count += (number, line) not in held
                held[number, line] = None
                held.move_to_end((number, line))
                if len(held) * 64 > capacity:
                    held.popitem(last=False)
    return count * 64


WINDOW = contraction(
    "y: 12, x: 12, o: 16 | i: 3, j: 3, c: 8",
    [("[y + i, x + j, c]", "14x14x8"), ("[i, j, c, o]", "3x3x8x16")],
    ("[y, x, o]", "12x12x16"),
)

DEPTHWISE = contraction(
    "y: 12, x: 12, g: 64 | i: 3, j: 3",
    [("[y + i, x + j, g]", "14x14x64"), ("[i, j, g]", "3x3x64")],
    ("[y, x, g]", "12x12x64"),
)


CACHED = [
    (product(32, 64, 48), tiled(), (1024, 2048, 6144, 8192, 12288)),
    (product(32, 64, 48), tiled(order=("m", "n")), (6144, 8192, 12288)),
    (product(48, 32, 48), tiled(vectors=1, rows=8), (8192, 12288)),
    (WINDOW, Schedule(("o", "y", "x"), ("i", "j_c"), "o", 8, 2, "x", 4), (2048, 4096, 12288)),
    (WINDOW, Schedule(("y", "o", "x"), ("i", "j_c"), "o", 8, 1, "x", 6), (2048, 4096, 12288)),
    (DEPTHWISE, Schedule(("g", "y", "x"), ("i", "j"), "g", 8, 2, "x", 4), (8192, 32768)),
    (DEPTHWISE, Schedule(("y", "x", "g"), ("i", "j"), "g", 8, 2, "x", 4), (6144, 12288, 65536)),
]


@pytest.mark.sweep
@pytest.mark.parametrize(
    "op, schedule, l1", [(op, s, size) for op, s, sizes in CACHED for size in sizes]
)
def test_traffic_of_a_cache(op: ContractOp, schedule: Schedule, l1: int) -> None:
    """The model's traffic into the first level of cache is within a third of the simulated one."""
    found = model(op, replace(SMALL, l1=l1))
    modelled = found.estimate(schedule).traffic["L2"]
    counted = misses(found, schedule, l1)
    assert counted / 1.34 <= modelled <= counted * 1.34


# ** monotonicity **


@every_target
@settings(max_examples=sampled(40))
@given(
    m=st.integers(2, 130), n=st.integers(1, 8), k=st.integers(2, 300), more=st.integers(1, 40),
    rows=st.integers(1, 12), vectors=st.integers(1, 4), which=st.sampled_from("mnk"),
)  # fmt: skip
def test_more_points_never_cost_less(
    target: Target, m: int, n: int, k: int, more: int, rows: int, vectors: int, which: str
) -> None:
    """Under one schedule. Columns are whole vectors: rows that do not start at lines cost more."""
    lanes = target.lanes(32)
    size = {"m": m, "n": 2 * lanes * n, "k": k}
    larger = size | {which: size[which] + more * (2 * lanes if which == "n" else 1)}
    schedule = tiled(lanes=lanes, vectors=vectors, rows=rows)
    few, many = (model(product(**s), target).estimate(schedule) for s in (size, larger))
    for part in ("arithmetic", "loads", "latency", "core", "memory", "cycles"):
        assert getattr(few, part) <= getattr(many, part) * (1 + 1e-9), part


@every_target
@settings(max_examples=sampled(8))
@given(
    m=st.integers(1, 70), k=st.integers(1, 90), n=st.integers(1, 3),
    which=st.sampled_from("mk"), more=st.integers(1, 9),
)  # fmt: skip
def test_more_points_are_never_chosen_cheaper(
    target: Target, m: int, k: int, n: int, which: str, more: int
) -> None:
    size = {"m": m, "n": 64 * n, "k": k}
    larger = size | {which: size[which] + more}
    few, many = (chosen(product(**s), target).cycles for s in (size, larger))
    assert few <= many * (1 + 1e-9)


# ** the choice **


def drawn(random: Random) -> ContractOp:
    """A random statement."""
    module = statement(random).parse()
    return next(op for op in module.walk() if isinstance(op, ContractOp))


@every_target
@settings(max_examples=sampled(25))
@given(random=randoms)
def test_no_tile_needs_more_registers_than_there_are(target: Target, random: Random) -> None:
    op = drawn(random)
    kernel = kernel_of(op)
    choices = [*all_choices(op, kernel, target), best_schedule(op, kernel, target)]
    for choice in choices:
        s, flat = choice.schedule, with_places(op, choice.places).with_sizes(known)
        assert CostModel(op, flat, target, op.summed).registers(s) <= target.vector_registers
        accumulators = 0 if op.is_map else s.row_tile * s.vectors
        broadcasts = 1 if accumulators else 0
        assert accumulators + broadcasts <= target.vector_registers


@pytest.mark.parametrize("m, n, k", [(13, 19, 100), (33, 40, 20), (64, 64, 100)])
def test_the_chosen_tile_of_a_product_is_not_the_one_of_the_least_bound(
    m: int, n: int, k: int
) -> None:
    op = product(m, n, k)
    cycles = [choice.cycles for choice in all_choices(op, kernel_of(op), AVX2)]
    assert chosen(op, AVX2).cycles <= min(cycles)


@every_target
@settings(max_examples=sampled(15))
@given(random=randoms)
def test_the_chosen_one_is_the_cheapest(target: Target, random: Random) -> None:
    """The chosen candidate has the lowest score, and a larger budget never finds a worse one."""
    op = drawn(random)
    kernel = kernel_of(op)
    cycles = [choice.cycles for choice in all_choices(op, kernel, target)]
    found: list[float] = []
    for budget in (1, 2, 4, search.BUDGET, len(cycles)):
        with patch.object(search, "BUDGET", budget):
            found.append(search._search(Problem(op, kernel, target)).cycles)
    assert found == sorted(found, reverse=True)
    assert found[-1] <= min(cycles)
    assert best_schedule(op, kernel, target).cycles == found[3]


@every_target
@settings(max_examples=sampled(15))
@given(random=randoms)
def test_no_tile_takes_less_than_its_bound(target: Target, random: Random) -> None:
    op = drawn(random)
    for family, height in search._tiles(Problem(op, kernel_of(op), target)):
        choice = family.choice(height)
        if choice is not None:
            assert family.bound(height) <= choice.cycles * (1 + 1e-9)


@every_target
def test_large_products_are_bound_by_arithmetic(target: Target) -> None:
    """The tile that is chosen hides loads and latency: what remains is near the machine's peak."""
    op = product(192, 192, 192)
    choice = chosen(op, target)
    peak = 192**3 / target.lanes(32) / target.fma_ports
    assert peak <= choice.estimate.core < 1.5 * peak
    assert choice.estimate.latency <= choice.estimate.core


SEEDS = range(sampled(60))


def schedules() -> list[str]:
    """The choices for some statements, as text."""
    ops = [drawn(Random(seed)) for seed in SEEDS]
    found = [chosen(op, target) for op in ops for target in TARGETS.values()]
    return [f"{choice.schedule} {choice.places} {choice.cycles}" for choice in found]


@pytest.mark.slow
def test_the_choice_is_the_same_in_every_process() -> None:
    """The order of sets and of hashes is another one in each."""
    command = [sys.executable, "-m", "tests.passes.tile.test_model"]
    runs = [
        subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, text=True, check=True,
            stdout=subprocess.PIPE,
        ).stdout.splitlines()
        for seed in "12"
    ]  # fmt: skip
    assert runs[0] == runs[1] == schedules()


def test_names_do_not_matter() -> None:
    """The choice for a product whose indices are called otherwise."""
    named = contraction(
        "a: 40, b: 96 | z: 33", [("[a, z]", "40x33"), ("[z, b]", "33x96")], ("[a, b]", "40x96")
    )
    mine, other = chosen(product(40, 96, 33), AVX2), chosen(named, AVX2)
    names = {"m": "a", "n": "b", "k": "z"}
    s = mine.schedule
    assert other.schedule == replace(
        s,
        order=tuple(names[n] for n in s.order),
        reduction=tuple(names[n] for n in s.reduction),
        vector=names[s.vector or ""],
        rows=names[s.rows or ""],
        blocks=tuple((names[n], size) for n, size in s.blocks),
    )
    assert math.isclose(mine.cycles, other.cycles)


if __name__ == "__main__":
    print("\n".join(schedules()))
