"""Schedules that the verifier refuses."""

from __future__ import annotations

import re
from contextlib import nullcontext

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from tessella.driver.stages.located import LocatedParser
from tessella.driver.stages.stage_file import stage_context
from tessella.lowering.tile_to_loops import ConvertTileToLoopsPass
from tessella.support.conditions import UndecidedSizeError
from tessella.support.errors import InvalidModelError

FITTING = "[n, m] reduce [k] vector n 8 by 2 rows m 4 unroll 2 blocks [m 16]"
REFUSED = [
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
    ("[n, m] reduce [k] parallel m 0", "numbers above 0"),
    ("[n, m] reduce [k] parallel k 1", "a parallel index that is free"),
    ("[n, m] reduce [k] vector n 8 by 0 blocks [n 16]", "numbers above 0"),
    ("[n, m] reduce [k] vector n 1 by 2", "two lanes or more"),
    ("[n, m] reduce [k] vector n 3 by 1 rows m 2", "lanes that are a power of two"),
    ("[n, m] reduce [k] vector n 2147483648 by 1", "at most 64 lanes"),
    ("[n, m] reduce [k] vector n 8 by 100 rows m 20", "at most 512 vectors in a tile"),
    ("[n, m] reduce [k] unroll 100000", "at most 1024 points in a step"),
    ("[n, m] reduce [k] vector n 8 by 2 blocks [n 24]", "blocks of whole tiles"),
    ("[n, m] reduce [k] partial m 2", "partial sums over a reduced index"),
    ("[n, m] reduce [k] partial k 0", "numbers above 0"),
]
"""Schedules that a statement does not verify with."""
BROKEN = [
    ("[n, m] reduce [k] vector n 8 by 2 rows m 8 ends [4]", "tiles for all rows"),
    ("[n, m] reduce [k] vector m 8 by 1", "lanes that lie side by side"),
    ("[n, m] reduce [k] vector k 8 by 1", "lanes that lie side by side"),
]
"""Schedules that there is no code for."""


def lower(text: str) -> None:
    module = LocatedParser(stage_context(), text, "text").parse()
    assert isinstance(module, ModuleOp)
    module.verify()
    ConvertTileToLoopsPass().apply(stage_context(), module)


def triangle(schedule: str) -> str:
    """A statement of which the step reads the first 128 values of j only."""
    return f"""
    tile.kernel @k(%a: tensor<64x256xf32>) -> (tensor<64xf32>)
        attributes {{nest = #tile.nest<[64 by 8]>}} {{
      %s = tile.contract = [m: 64, n: 256] (%a[m, n]) -> [m, n] at [m]
          in a step of m: 8 x 256 schedule #tile.schedule<[m, n] reduce [] vector n 8 by 4> {{
      ^bb0(%x: f32):
        %m = tile.index "m"
        %n = tile.index "n"
        %o = arith.constant 0 : index
        %e = arith.addi %m, %o : index
        %c = arith.cmpi sle, %n, %e : index
        %f = arith.constant 0.0 : f32
        %y = arith.select %c, %x, %f : f32
        tile.yield %y : f32
      }} : tensor<64x256xf32>
      %t = tile.contract + [i: 64 | j: 256] (%s[i, j]) -> [i] at [i] schedule
          #tile.schedule<{schedule}> {{
      ^bb0(%x: f32):
        tile.yield %x : f32
      }} : tensor<64xf32>
      tile.return %t : tensor<64xf32>
    }}"""


@pytest.mark.parametrize(
    "schedule, message",
    [
        ("[i] reduce [j] vector j 8 by 4", None),
        ("[i] reduce [j] vector j 8 by 6", "tiles that divide 128"),
        ("[i] reduce [j] vector j 8 by 4 partial j 128", None),
        ("[i] reduce [j] vector j 8 by 4 partial j 64", "partial sums of 128"),
    ],
)
def test_tiles_of_an_index_that_ends_early(schedule: str, message: str | None) -> None:
    expected = pytest.raises(InvalidModelError, match=message) if message else nullcontext()
    with expected:
        lower(triangle(schedule))


def product(schedule: str, where: str = "") -> str:
    return f"""
    tile.kernel @k(%a: tensor<20x8xf32>, %b: tensor<8x32xf32>) -> (tensor<20x32xf32>) {{
      %r = tile.contract + [m: 20, n: 32 | k: 8] (%a[m, k], %b[k, n]) -> [m, n] {where} schedule
          #tile.schedule<{schedule}> {{
      ^bb0(%x: f32, %y: f32):
        %p = arith.mulf %x, %y : f32
        tile.yield %p : f32
      }} : tensor<20x32xf32>
      tile.return %r : tensor<20x32xf32>
    }}"""


def test_a_schedule_that_fits() -> None:
    lower(product(FITTING))


@pytest.mark.parametrize("schedule, expected", REFUSED)
def test_schedules_that_do_not_verify(schedule: str, expected: str) -> None:
    with pytest.raises(VerifyException, match=re.escape(f"expected {expected}")):
        lower(product(schedule))


@pytest.mark.parametrize("schedule, expected", BROKEN)
def test_schedules_of_other_statements(schedule: str, expected: str) -> None:
    """An edited text has the schedule of another statement: the error says what was expected."""
    with pytest.raises(InvalidModelError, match="does not fit the statement") as error:
        lower(product(schedule))
    assert error.value.expected is not None
    assert expected in error.value.expected


EIGHTS = "packed<[1 floordiv 16, 0 floordiv 8, 1 mod 16, 0 mod 8]>"


def byte_product(
    schedule: str,
    b: str = "packed<[1 floordiv 16, 0 floordiv 4, 1 mod 16, 0 mod 4]>",
    access: str = "m, k",
    tile: str = "vector n 16 by 1 rows m 4",
) -> str:
    shape = "x".join("20" if name == "m" else "8" for name in access.split(", "))
    return f"""
    tile.kernel @k(%a: tensor<{shape}xui8>, %b: tensor<8x32xi8, #place.at<x86, i8, {b}>>)
        -> (tensor<20x32xi32>) {{
      %r = tile.contract + [m: 20, n: 32 | k: 8] (%a[{access}], %b[k, n]) -> [m, n] schedule
          #tile.schedule<[n, m] reduce [k] {tile} {schedule}> {{
      ^bb0(%x: ui8, %y: i8):
        %u = arith.extui %x : ui8 to i32
        %v = arith.extsi %y : i8 to i32
        %p = arith.muli %u, %v : i32
        tile.yield %p : i32
      }} : tensor<20x32xi32>
      tile.return %r : tensor<20x32xi32>
    }}"""


@pytest.mark.parametrize(
    "text, fits",
    [
        (byte_product("dot k vpdpbusd"), True),
        (byte_product("dot k vpdpbusd", access="k, m"), False),
        (byte_product("dot k vpdpbusd", b="nchw"), False),
        (byte_product("dot k vpdpbusd", b="packed<[1 floordiv 16, 0, 1 mod 16]>"), False),
        (
            byte_product(
                "dot k vpdpbusd", b="packed<[1 floordiv 16, 0 floordiv 2, 1 mod 16, 0 mod 2]>"
            ),
            False,
        ),
        (byte_product("dot k usmmla", b=EIGHTS), True),
        (byte_product("dot k usmmla"), False),
        (byte_product("dot k usmmla", b=EIGHTS, tile="vector n 16 by 1"), False),
        (byte_product("dot k usdot", tile="vector n 16 by 1"), True),
    ],
)
def test_groups_of_a_dot_product_lie_side_by_side(text: str, fits: bool) -> None:
    with nullcontext() if fits else pytest.raises(InvalidModelError, match="does not fit"):
        lower(text)


def test_lanes_that_are_not_contiguous() -> None:
    text = product(FITTING).replace("%b[k, n]", "%b[n, k]").replace("8x32xf32>", "32x8xf32>")
    with pytest.raises(InvalidModelError) as error:
        lower(text)
    assert error.value.expected == "lanes that lie side by side"


@pytest.mark.parametrize("panel, fits", [(16, True), (32, True), (24, False), (8, False)])
def test_panels_of_another_width(panel: int, fits: bool) -> None:
    place = f"#place.at<x86, f32, packed<[1 floordiv {panel}, 0, 1 mod {panel}]>>"
    text = product(FITTING).replace("8x32xf32>", f"8x32xf32, {place}>")
    with nullcontext() if fits else pytest.raises(InvalidModelError, match="panels as wide"):
        lower(text)


@pytest.mark.parametrize("panel, fits", [(32, True), (16, True), (8, True), (12, False)])
def test_tiles_of_several_panels(panel: int, fits: bool) -> None:
    """A row may read several panels at a time, which share its sums."""
    place = f"#place.at<x86, f32, packed<[1 floordiv {panel}, 0, 1 mod {panel}]>>"
    text = product("[m, n] reduce [k] vector n 8 by 4").replace("8x32xf32>", f"8x32xf32, {place}>")
    with nullcontext() if fits else pytest.raises(InvalidModelError, match="panels as wide"):
        lower(text)


def test_transposes_of_more_rows_than_lanes() -> None:
    text = """
    tile.kernel @k(%a: tensor<20x16xf32>) -> (tensor<16x20xf32>) {
      %r = tile.contract = [x: 16, y: 20] (%a[y, x]) -> [x, y] schedule
          #tile.schedule<[x, y] reduce [] vector y 4 by 1 rows x 5> {
      ^bb0(%v: f32):
        tile.yield %v : f32
      } : tensor<16x20xf32>
      tile.return %r : tensor<16x20xf32>
    }"""
    lower(text.replace("rows x 5", "rows x 4"))
    with pytest.raises(InvalidModelError) as error:
        lower(text)
    assert error.value.expected is not None
    assert error.value.expected.startswith("in-register transposes")


@pytest.mark.parametrize("least, fits", [(4, True), (2, False)])
def test_transposes_of_vectors_in_part(least: int, fits: bool) -> None:
    text = f"""
    builtin.module attributes {{symbols = [#nn.symbol<n, {least} to 90>]}} {{
      tile.kernel @k(%a: tensor<[n]x16xf32>) -> (tensor<16x[n]xf32>) {{
        %r = tile.contract = [x: 16, y: n] (%a[y, x]) -> [x, y] schedule
            #tile.schedule<[x, y] reduce [] vector y 4 by 1 rows x 4> {{
        ^bb0(%v: f32):
          tile.yield %v : f32
        }} : tensor<16x[n]xf32>
        tile.return %r : tensor<16x[n]xf32>
      }}
    }}"""
    with nullcontext() if fits else pytest.raises(UndecidedSizeError, match="whole vectors"):
        lower(text)


@pytest.mark.parametrize(
    "rows, reason",
    [
        ("blocks [m 32]", "symbols always leave room for"),
        ("ends [6, 4, 2] blocks [n 16]", "symbols always leave room for"),
        ("ends [6, 4, 2] blocks [m 16]", "tiles for all rows"),
        ("blocks [m 16]", "in-register transposes"),
    ],
)
def test_blocks_of_what_depends_on_symbols(rows: str, reason: str) -> None:
    """Blocks of rows have a number of rows: their tiles have no ends."""
    schedule = f"[n, m] reduce [] vector n 8 by 2 rows m 8 {rows}"
    text = f"""
    builtin.module attributes {{symbols = [#nn.symbol<a, 16 to 64>, #nn.symbol<b, 2 to 90>]}} {{
      tile.kernel @k(%a: tensor<[b]x[a]xf32>) -> (tensor<[a]x[b]xf32>) {{
        %r = tile.contract = [m: a, n: b] (%a[n, m]) -> [m, n] schedule
            #tile.schedule<{schedule}> {{
        ^bb0(%v: f32):
          tile.yield %v : f32
        }} : tensor<[a]x[b]xf32>
        tile.return %r : tensor<[a]x[b]xf32>
      }}
    }}"""
    with pytest.raises(UndecidedSizeError, match=reason):
        lower(text)


def test_a_segment_of_ops() -> None:
    """Passes that run out of order leave such a segment."""
    text = """
    tile.segment @segment_0() -> (tensor<2xf32>) {
      %s = nn.splat 1.0 : f32 : tensor<2xf32>
      tile.return %s : tensor<2xf32>
    }"""
    with pytest.raises(InvalidModelError, match="does not belong into a segment"):
        lower(text)


def test_elements_that_are_taken_by_a_sum() -> None:
    """Each lane has another sum, and so an element at its own address. Where constraints
    leave points out, lanes would take elements at places of these too."""
    text = """
    tile.kernel @k(%i: tensor<16x3xi64>, %t: tensor<9xf32>) -> (tensor<16xf32>) {
      %r = tile.contract + [x: 16 | k: 3] (%i[x, k]) post () -> [x] schedule
          #tile.schedule<[x] reduce [k]> {
      ^bb0(%v: i64):
        tile.yield %v : i64
      }, {
      ^bb0(%sum: i64):
        %at = arith.index_cast %sum : i64 to index
        %e = tile.extract %t[%at] : tensor<9xf32> -> f32
        tile.yield %e : f32
      } : tensor<16xf32>
      tile.return %r : tensor<16xf32>
    }"""
    lower(text)
    text = text.replace("[x, k]", "[k, x]").replace("16x3xi64", "3x16xi64")
    text = text.replace("reduce [k]>", "reduce [k] vector x 8 by 1>")
    lower(text)
    text = text.replace("%i[k, x]", "%i[k, x + k - 1]")
    with pytest.raises(InvalidModelError) as error:
        lower(text)
    assert error.value.expected == "lanes that lie side by side"


def test_partial_sums_of_constrained_indices() -> None:
    """They would be told apart by their values in a part."""
    text = product("[n, m] reduce [k] partial k 4", "where [m + k - 2 < 20]")
    with pytest.raises(InvalidModelError) as error:
        lower(text)
    assert error.value.expected == "partial sums over all of a constrained index"
    lower(text.replace("partial k 4", "partial k 8"))


def test_partial_sums_of_products() -> None:
    text = product("[n, m] reduce [k] partial k 4")
    lower(text)
    with pytest.raises(InvalidModelError) as error:
        lower(text.replace("contract +", "contract *"))
    assert error.value.expected == "partial sums of an addition"


def test_blocks_of_constrained_rows() -> None:
    """Edge tiles are those of the whole range."""
    with pytest.raises(InvalidModelError) as error:
        lower(product(FITTING, "where [m + k - 2 < 20]"))
    assert error.value.expected == "no blocks of constrained rows"


def test_an_output_that_is_left() -> None:
    with pytest.raises(InvalidModelError, match="leaves its tensor"):
        lower(product(FITTING).replace("-> [m, n]  sch", "-> [m, n + 1]  sch"))
