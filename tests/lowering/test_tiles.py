"""How ranges split into tiles, and which schedules are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.parser import Parser

from tessella.driver.stage_file import stage_context
from tessella.lowering.tile_to_loops import ConvertTileToLoopsPass
from tessella.lowering.tiles import split
from tessella.support.errors import InternalError, InvalidModelError


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


FITTING = "[n, m] reduce [k] vector n 8 by 2 rows m 4 unroll 2 blocks [m 16]"
BROKEN = [
    ("[m] reduce [k]", "the loops [m, n]"),
    ("[n, m, k] reduce [k]", "the loops [m, n]"),
    ("[n, m, q] reduce [k]", "the loops [m, n]"),
    ("[n, m] reduce []", "the reduction [k]"),
    ("[n, m] reduce [k, k]", "the reduction [k]"),
    ("[n, m] reduce [k] vector q 8 by 2", "rows and a vector"),
    ("[n, m] reduce [k] rows q 2", "rows and a vector"),
    ("[n, m] reduce [k] vector n 8 by 1 rows n 2", "rows over another free index"),
    ("[n, m] reduce [k] rows k 2", "rows over another free index"),
    ("[n, m] reduce [k] blocks [k 2]", "blocks of free indices"),
    ("[n, m] reduce [k] blocks [m 0]", "numbers above 0"),
    ("[n, m] reduce [k] vector n 8 by 0", "numbers above 0"),
    ("[n, m] reduce [k] vector n 0 by 1", "numbers above 0"),
    ("[n, m] reduce [k] rows m 0", "numbers above 0"),
    ("[n, m] reduce [k] unroll 0", "numbers above 0"),
]


def lower(text: str) -> None:
    module = Parser(stage_context(), text).parse_module()
    ConvertTileToLoopsPass().apply(stage_context(), module)


def product(schedule: str, where: str = "") -> str:
    return f"""
    tile.kernel @k(%a: tensor<20x8xf32>, %b: tensor<8x32xf32>) -> (tensor<20x32xf32>) {{
      %r = tile.contract + [m: 20, n: 32 | k: 8] (%a[m, k], %b[k, n]) -> [m, n] {where} schedule
          #tile.schedule<{schedule}> {{
      ^bb0(%x: f32, %y: f32):
        %p = arith.mulf %x, %y : f32
        tile.yield %p : f32
      }} : (tensor<20x8xf32>, tensor<8x32xf32>) -> tensor<20x32xf32>
      tile.return %r : tensor<20x32xf32>
    }}"""


def test_a_schedule_that_fits() -> None:
    lower(product(FITTING))


@pytest.mark.parametrize("schedule, expected", BROKEN)
def test_schedules_of_other_statements(schedule: str, expected: str) -> None:
    """As in a text that somebody changed: the error says what was expected."""
    with pytest.raises(InvalidModelError, match="does not fit the statement") as error:
        lower(product(schedule))
    assert error.value.expected is not None
    assert expected in error.value.expected


def test_blocks_of_constrained_rows() -> None:
    """Edge tiles are those of the whole range."""
    with pytest.raises(InvalidModelError) as error:
        lower(product(FITTING, "where [m + k - 2 < 20]"))
    assert error.value.expected == "no blocks of constrained rows"


def test_a_map_that_gives_no_default() -> None:
    text = """
    tile.kernel @k(%a: tensor<5xf32>) -> (tensor<5xf32>) {
      %r = tile.contract = [x: 5] (%a[x - 1]) -> [x] schedule #tile.schedule<[x] reduce []> {
      ^bb0(%v: f32):
        tile.yield %v : f32
      } : (tensor<5xf32>) -> tensor<5xf32>
      tile.return %r : tensor<5xf32>
    }"""
    with pytest.raises(InvalidModelError) as error:
        lower(text)
    assert error.value.expected is not None
    assert "default" in error.value.expected


def test_an_output_that_is_left() -> None:
    with pytest.raises(InternalError, match="leaves its tensor"):
        lower(product(FITTING).replace("-> [m, n]  sch", "-> [m, n + 1]  sch"))
