"""How ranges split into tiles."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tessella.passes.tile.tiles import boundary_as_loops, parts, split


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
        assert tiles.overlap == 0 or (overlap and tiles.overlap < tile and tiles.count > 1)
        assert tiles.size == tile or (tiles.size < tile and tiles.stop == extent)
        inside = interior[0] <= tiles.start and tiles.stop <= interior[1]
        assert tiles.boundary != inside
        assert tiles.count == 1 or inside
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
