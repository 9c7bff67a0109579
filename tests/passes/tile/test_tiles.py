"""How ranges split into tiles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessella.passes.tile.tiles import (
    Tiles,
    boundary_as_loops,
    ends_of,
    has_ends,
    in_lanes,
    parts,
    split,
    with_ends,
)
from tessella.support.decisions import known
from tessella.support.sizes import Size, Symbol, value_of


@given(
    extent=st.integers(1, 60),
    tile=st.integers(1, 20),
    low=st.integers(0, 60),
    length=st.integers(0, 60),
    overlap=st.booleans(),
)
def test_split(extent: int, tile: int, low: int, length: int, overlap: bool) -> None:
    """Each index is in one tile; tiles are of the boundary where they leave the interior."""
    interior = (min(low, extent), min(low + length, extent))
    at = 0
    for tiles in split(extent, tile, interior, overlap=overlap):
        assert (tiles.start, tiles.size > 0, tiles.count > 0) == (at, True, True)
        lapped, count = known(tiles.overlap), known(tiles.count)
        assert lapped == 0 or (overlap and lapped < tile and count > 1)
        assert tiles.size == tile or (tiles.size < tile and tiles.stop == extent)
        inside = interior[0] <= known(tiles.start) and known(tiles.stop) <= interior[1]
        assert tiles.boundary != inside
        assert count == 1 or inside
        at = tiles.stop
    assert at == extent


def test_full_tiles_are_one_loop() -> None:
    (loop, rest) = split(35, 8, (0, 35), overlap=False)
    assert (loop.start, loop.size, loop.count) == (0, 8, 4)
    assert (rest.start, rest.size, rest.count) == (32, 3, 1)


def test_the_last_of_full_tiles_lies_over_the_one_before() -> None:
    (loop,) = split(35, 8, (0, 35), overlap=True)
    assert (loop.start, loop.size, loop.count, loop.stop) == (0, 8, 5, 35)
    (alone,) = split(5, 8, (0, 5), overlap=True)
    assert (alone.size, alone.count, alone.overlap) == (5, 1, 0)


def test_edge_tiles_of_one_size_are_one_loop() -> None:
    tiles = list(boundary_as_loops(split(75, 16, (20, 50), overlap=False)))
    assert [(t.start, t.size, t.stop, t.boundary) for t in tiles] == [
        (0, 16, 32, True),
        (32, 16, 48, False),
        (48, 16, 64, True),
        (64, 11, 75, True),
    ]


@given(extent=st.integers(1, 99), size=st.integers(1, 99))
def test_parts(extent: int, size: int) -> None:
    found = parts(extent, size, overlap=False)
    assert sum(width * count for width, count in found) == extent
    assert all(0 < width <= size for width, _ in found)
    assert [width for width, _ in found[:-1]] == [size] * (len(found) - 1)
    full = -(-extent // size)
    assert parts(extent, size, overlap=True) == [(min(extent, size), full)]
    for overlap in (False, True):
        tiles = split(extent, size, (0, extent), overlap=overlap)
        assert parts(extent, size, overlap=overlap) == [(each.size, each.count) for each in tiles]


def ran(tiles: Iterable[Tiles], n: int) -> list[tuple[int, int]]:
    """Return where each tile begins and ends when the loops run for a value of the symbol."""
    found: list[tuple[int, int]] = []
    for each in tiles:
        start, stop, tail = (
            value_of(size, {"n": n}) for size in (each.start, each.stop, each.tail)
        )
        for at in range(start, stop, each.size):
            first = min(at, stop - each.size) if each.overlap else at
            found.append((first, first + (tail or each.size)))
    return found


def covers(found: Sequence[tuple[int, int]], extent: int) -> bool:
    """Return whether tiles are all values of a range, in their order, and no others."""
    at = 0
    for start, stop in found:
        if not 0 <= start <= at < stop:
            return False
        at = stop
    return at == extent


@given(
    least=st.integers(1, 20),
    tile=st.integers(1, 16),
    factor=st.integers(1, 4),
    more=st.integers(0, 40),
)
def test_rows_that_depend_on_a_symbol(least: int, tile: int, factor: int, more: int) -> None:
    """The rows are whole tiles and at most one tail tile, at most a quarter larger than the
    remainder, and no larger than the minimum of the symbol."""
    range_: Size = factor * Symbol("n", least, 100).size
    ends = ends_of(range_, tile)
    assert has_ends(range_, tile, ends)
    found = ran(with_ends(range_, tile, ends), least + more)
    extent = factor * (least + more)
    assert covers(found, extent)
    assert len(found) == -(-extent // tile)
    computed = sum(stop - start for start, stop in found)
    assert computed - extent < max(-(-tile // 4), factor, min(tile, factor * least))


@pytest.mark.parametrize("ends", [(), (6,), (7, 6, 4, 3, 2), (6, 7, 5, 4, 3, 2), (8,)])
def test_tiles_that_leave_few_rows(ends: Sequence[int]) -> None:
    """If there may be fewer rows than in a tile, there is a tail tile for each number of rows."""
    assert not has_ends(Symbol("n", 2, 15).size, 8, ends)


@given(
    least=st.integers(1, 20),
    vectors=st.integers(1, 8),
    more=st.integers(0, 40),
    whole=st.booleans(),
)
def test_lanes_that_depend_on_a_symbol(least: int, vectors: int, more: int, whole: bool) -> None:
    range_ = Symbol("n", least, 100).size
    few = 8 * vectors if whole else 8
    found = list(in_lanes(range_, 8 * vectors, lanes=8, few=few))
    assert covers(ran(found, least + more), least + more)
    assert all(tiles.size % 8 == 0 for tiles in found)
    assert any(tiles.tail != 0 for tiles in found) == (least < 8)
