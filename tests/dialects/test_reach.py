"""How far indices run in a step of shared loops."""

from __future__ import annotations

import re

import pytest
from xdsl.parser import Parser

from tessella.dialects.tile import ContractOp, Linear
from tessella.dialects.tile.reach import Reach, reaches
from tessella.driver.stages.stage_file import stage_context

CAUSAL = """
tile.kernel @k(%a: tensor<512x256xf32>, %v: tensor<256x16xf32>) -> (tensor<512x16xf32>)
    attributes {nest = #tile.nest<[512 by 32]>} {
  %s = tile.contract = [m: 512, n: 256] (%a[m, n]) -> [m, n] at [m] in a step of m: 32 x 256 {
  ^bb0(%x: f32):
    %o = arith.constant 3 : i32
    %n = tile.index "n"
    %n32 = arith.index_cast %n : index to i32
    %m = tile.index "m"
    %m32 = arith.index_cast %m : index to i32
    %e = arith.addi %m32, %o : i32
    %c = arith.cmpi sle, %n32, %e : i32
    %f = arith.constant 0.0 : f32
    %y = arith.select %c, %x, %f : f32
    tile.yield %y : f32
  } : tensor<512x256xf32>
  %t = tile.contract + [i: 512 | j: 256] (%s[i, j]) -> [i] at [i] in a step of i: 32 {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<512xf32>
  %r = tile.contract + [p: 512, d: 16 | q: 256] (%s[p, q], %v[q, d]) post (%t[p]) -> [p, d] at [p] {
  ^bb0(%x: f32, %y: f32):
    %z = arith.mulf %x, %y : f32
    tile.yield %z : f32
  }, {
  ^bb0(%x: f32, %y: f32):
    %z = arith.divf %x, %y : f32
    tile.yield %z : f32
  } : tensor<512x16xf32>
  tile.return %r : tensor<512x16xf32>
}
"""


def found(text: str) -> list[dict[str, Reach]]:
    """The reaches of each statement."""
    module = Parser(stage_context(), text).parse_module()
    return [dict(reaches(op)) for op in module.walk() if isinstance(op, ContractOp)]


def test_readers_leave_out_what_does_not_count() -> None:
    """Sums of zeros, and products with them; so the writer need not write them."""
    assert found(CAUSAL) == [
        {"n": Reach(Linear.of("m") + 3)},
        {"j": Reach(Linear.of("i") + 3)},
        {"q": Reach(Linear.of("p") + 3)},
    ]


def test_what_is_run_of_an_index() -> None:
    module = Parser(stage_context(), CAUSAL).parse_module()
    first = next(op for op in module.walk() if isinstance(op, ContractOp))
    reach = Reach(Linear.of("m") + 3)
    assert [reach.end(last) for last in (34, 127, 128)] == [128, 128, 256]
    # of 16 steps the first 3 end within 128 of the 256
    assert reach.share(first, "n") == (3 * 0.5 + 13) / 16


@pytest.mark.parametrize(
    "old, new",
    [
        ("constant 0.0 : f32", "constant 1.0 : f32"),  # what adds to a sum
        ("cmpi sle", "cmpi slt"),  # another condition
        ("select %c, %x, %f", "select %c, %f, %x"),  # inside
        ("%e = arith.addi %m32, %o", "%e = arith.addi %n32, %o"),  # no diagonal
        (" attributes {nest = #tile.nest<[512 by 32]>}", ""),  # no steps
        ("(%s[i, j]) -> [i]", "(%s[i, 255 - j]) -> [i]"),  # another element
        # what counts where the operand ends
        ("(%a[m, n]) -> [m, n] at [m]", "(%a[m, n + 1]) -> [m, n] default 1.0 : f32 at [m]"),
        ("i32", "i8"),  # numbers that wrap
    ],
)
def test_what_counts_is_run(old: str, new: str) -> None:
    text = CAUSAL.replace(old, new)
    assert text != CAUSAL
    text = text if "nest" in text else re.sub(r" at \[\w\]( in a step of .*(?= {))?", "", text)
    assert not found(text)[0]


def test_results_of_the_kernel_are_whole() -> None:
    text = CAUSAL.replace("-> (tensor<512x16xf32>)", "-> (tensor<512x16xf32>, tensor<512x256xf32>)")
    text = text.replace("tile.return %r :", "tile.return %r, %s :")
    text = text.replace(" in a step of m: 32 x 256", "")
    text = text.replace(": tensor<512x16xf32>\n}", ": tensor<512x16xf32>, tensor<512x256xf32>\n}")
    assert found(text) == [{}, {}, {}]


BLOCKS = """
tile.kernel @k(%a: tensor<512x8x256xf32>) -> (tensor<512x8xf32>)
    attributes {nest = #tile.nest<[512 by 32, 8 by 1]>} {
  %s = tile.contract = [m: 512, c: 8, n: 256] (%a[m, c, n]) -> [m, c, n] at [m, c]
         in a step of c: 32 x 1 x 256 {
  ^bb0(%x: f32):
    %o = arith.constant 3 : i32
    %n = tile.index "n"
    %n32 = arith.index_cast %n : index to i32
    %m = tile.index "m"
    %m32 = arith.index_cast %m : index to i32
    %c = tile.index "c"
    %c32 = arith.index_cast %c : index to i32
    %b = arith.constant -256 : i32
    %cb = arith.muli %c32, %b : i32
    %d = arith.addi %m32, %o : i32
    %e = arith.addi %cb, %d : i32
    %i = arith.cmpi sle, %n32, %e : i32
    %f = arith.constant 0.0 : f32
    %y = arith.select %i, %x, %f : f32
    tile.yield %y : f32
  } : tensor<512x8x256xf32>
  %t = tile.contract + [i: 512, k: 8 | j: 256] (%s[i, k, j]) -> [i, k] at [i, k] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<512x8xf32>
  tile.return %t : tensor<512x8xf32>
}
"""


def test_blocks_beyond_a_diagonal_are_left_out() -> None:
    first, second = found(BLOCKS)
    assert first == {"n": Reach(Linear.of("c", -256) + Linear.of("m") + 3)}
    assert second == {"j": Reach(Linear.of("k", -256) + Linear.of("i") + 3)}
    module = Parser(stage_context(), BLOCKS).parse_module()
    op = next(op for op in module.walk() if isinstance(op, ContractOp))
    # of 16 steps, the first block ends early in 3, the second begins in the 8th and is whole in 5,
    # and the third begins in the last
    assert first["n"].share(op, "n") == (3 * 0.5 + 13 + 4 * 0.5 + 5 + 0.5) / (16 * 8)
