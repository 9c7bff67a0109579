"""Plans of loads against enumerated addresses, and against the article's tables."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tessella.passes.plaidml.log import layout_table
from tessella.passes.plaidml.read_plan import ReadPlan
from tessella.passes.plaidml.stride_table import stride_table
from tests.passes.tile_statements import article

Pattern = tuple[tuple[int, ...], tuple[int, ...]]
"""Strides and tile sizes of the indices."""


def addresses(pattern: Pattern) -> list[int]:
    """The address of each point of a tile."""
    strides, tile = pattern
    return [int(np.dot(strides, point)) for point in itertools.product(*map(range, tile))]


def plan_of(pattern: Pattern) -> ReadPlan:
    strides, tile = pattern
    return ReadPlan.of([f"i{n}" for n in range(len(tile))], strides, tile)


def local_addresses(pattern: Pattern, plan: ReadPlan) -> list[int]:
    """The address in local memory of each point, relative to the first point's."""
    scaled: list[int] = []
    for n, stride in enumerate(pattern[0]):
        lines = zip(plan.indices, plan.local_strides, strict=True)
        line, local = next(((x, s) for x, s in lines if f"i{n}" in x.names), (None, 0))
        scaled.append(stride // line.stride * local if line is not None else 0)
    return addresses((tuple(scaled), pattern[1]))


@st.composite
def patterns(draw: st.DrawFn) -> Pattern:
    """Tiles of a row-major tensor whose dimensions are accessed as `c*x + i`, `-x` or `c*x`."""
    strides: list[int] = []
    tile: list[int] = []
    step = 1
    for _ in range(draw(st.integers(0, 3))):
        x, i, c = draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
        sign = draw(st.sampled_from([1, -1]))
        strides += [sign * step * c, sign * step, 0]
        tile += [x, i, draw(st.integers(1, 2))]
        step *= c * (x - 1) + i + draw(st.integers(0, 3))
    order = draw(st.permutations(range(len(tile))))
    return tuple(strides[n] for n in order), tuple(tile[n] for n in order)


@given(patterns())
def test_an_element_is_loaded_once(pattern: Pattern) -> None:
    """Local memory holds each element of the tile at one place, and ends with the last row."""
    plan = plan_of(pattern)
    here, there = addresses(pattern), local_addresses(pattern, plan)
    pairs = set(zip(here, there, strict=True))
    assert len(pairs) == len(set(here)) == len(set(there)) == prod(x.range for x in plan.indices)
    extent = max(there) - min(there) + 1
    assert extent <= plan.size < extent + max([1, *plan.local_strides])
    assert all(stride % 2 for stride in plan.local_strides)


def test_arbitrary_strides_never_share_a_place() -> None:
    """If cache lines cross, an element may be loaded twice, but none is lost."""
    for strides in itertools.product([-3, 1, 2, 4, 5], repeat=3):
        pattern = (strides, (3, 2, 4))
        plan = plan_of(pattern)
        by_place = dict(zip(local_addresses(pattern, plan), addresses(pattern), strict=True))
        assert len(set(by_place.values())) == len(set(addresses(pattern)))
        for place, address in zip(local_addresses(pattern, plan), addresses(pattern), strict=True):
            assert by_place[place] == address


@given(st.integers(0, 4), st.lists(st.integers(1, 4), min_size=1, max_size=2), st.integers(0, 4))
def test_loads_are_lines(power: int, outer: list[int], log_line: int) -> None:
    """The rows of a tile begin with a cache line, and are whole lines or a part that divides
    one."""
    run, line = 1 << power, 1 << log_line
    pattern = ((1, 64, 4096)[: len(outer) + 1], (run, *outer))
    assert plan_of(pattern).loads(line) == len({a // line for a in addresses(pattern)})


def test_article() -> None:
    """The two tables of PlaidML's article, with the sizes of their tiles."""
    table = stride_table(article())
    d, k = (ReadPlan.of(table.names, c.strides, (8, 32, 2, 3, 16, 2, 2)) for c in table.inputs)
    assert layout_table(d) == (
        "         Range    Global     Local\n"
        " i_x         3     14336         1\n"
        " j_y         4        64       393\n"
        "  ci         8         1        49\n"
        "   n        16   3211264         3"
    )
    assert layout_table(k) == (
        "         Range    Global     Local\n"
        " j_i         6      4096       265\n"
        "  ci         8         1        33\n"
        "  co        32        64         1"
    )
    assert d.size + k.size == (4 * 393) + (6 * 265)


def test_a_single_element() -> None:
    plan = plan_of(((0, 0), (3, 4)))
    assert (plan.indices, plan.size, plan.loads(8)) == ((), 1, 1)
