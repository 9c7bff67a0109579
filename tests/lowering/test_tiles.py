"""How ranges split into tiles."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tessella.lowering.tiles import split


@given(
    extent=st.integers(1, 60),
    tile=st.integers(1, 20),
    low=st.integers(0, 60),
    length=st.integers(0, 60),
)
def test_split(extent: int, tile: int, low: int, length: int) -> None:
    """Each index is in one tile; tiles are marked as edges where they leave the clean part."""
    clean = (min(low, extent), min(low + length, extent))
    at = 0
    for tiles in split(extent, tile, clean):
        assert (tiles.start, tiles.size > 0, tiles.count > 0) == (at, True, True)
        assert tiles.size == tile or (tiles.size < tile and tiles.stop == extent)
        inside = clean[0] <= tiles.start and tiles.stop <= clean[1]
        assert tiles.edge != inside
        assert tiles.count == 1 or inside
        at = tiles.stop
    assert at == extent


def test_full_tiles_are_one_loop() -> None:
    (loop, rest) = split(35, 8, (0, 35))
    assert (loop.start, loop.size, loop.count) == (0, 8, 4)
    assert (rest.start, rest.size, rest.count) == (32, 3, 1)
