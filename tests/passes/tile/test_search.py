"""Schedules that the search finds."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser

from tessella.dialects.tile import ContractOp, KernelOp
from tessella.dialects.tile.flat import flatten
from tessella.driver.stages.stage_file import stage_context
from tessella.passes.tile import search
from tessella.passes.tile.plan import Access, plan_accesses
from tessella.passes.tile.search import all_choices, best_schedule
from tessella.passes.tile.vectors import sharing_rows
from tessella.support.sizes import estimated
from tessella.targets import Target
from tessella.targets.table import TARGETS
from tests.passes.tile_statements import contraction

every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


def kernel_of(op: ContractOp) -> KernelOp:
    kernel = op.parent_op()
    assert isinstance(kernel, KernelOp)
    return kernel


def read(text: str) -> ContractOp:
    module = Parser(stage_context(), text).parse_module()
    module.verify()
    return next(op for op in module.walk() if isinstance(op, ContractOp))


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_CHOICES", {})


@every_target
def test_few_candidates_are_enough(target: Target) -> None:
    """If rows and lanes move both operands, no tile of few rows and many vectors fits."""
    op = contraction(
        "y: 16, z: 2 | i: 5", [("[z, y]", "2x16"), ("[z, i, y]", "2x5x16")], ("[z, y]", "2x16")
    )
    cycles = [choice.cycles for choice in all_choices(op, kernel_of(op), target)]
    assert best_schedule(op, kernel_of(op), target).cycles <= 1.1 * min(cycles)


def test_windows_of_many_channels_run_by_blocks_of_lanes() -> None:
    """Five rows of all channels do not stay in the first cache, all rows of a vector do."""
    op = contraction(
        "y: 14, x: 14, g: 240 | i: 5, j: 5",
        [("[y + i, x + j, g]", "18x18x240"), ("[i, j, g]", "5x5x240")],
        ("[y, x, g]", "14x14x240"),
    )
    schedule = best_schedule(op, kernel_of(op), TARGETS["avx512"]).schedule
    assert schedule.order[-1] == "g"
    assert schedule.blocks == (("g", 16),)


def test_what_the_pick_found_is_kept_for_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement that is like one before, in another kernel, is not searched again."""
    shapes = [("[y, k]", "30x40"), ("[k, x]", "40x64")], ("[y, x]", "30x64")
    first, second, other = (contraction(f"y: {n}, x: 64 | k: 40", *shapes) for n in (30, 30, 29))
    target = TARGETS["avx2"]
    best = best_schedule(first, kernel_of(first), target)
    searched: list[ContractOp] = []
    monkeypatch.setattr(search, "_search", lambda problem: (searched.append(problem.op), best)[1])
    assert best_schedule(second, kernel_of(second), target) is best
    assert not searched
    best_schedule(other, kernel_of(other), target)
    best_schedule(second, kernel_of(second), TARGETS["sse"])
    assert searched == [other, second]


@every_target
def test_windows_that_share_nothing_are_unrolled(target: Target) -> None:
    """The windows of a 2x2 pool with stride 2 are unrolled, however many registers the rows
    take."""
    op = contraction(
        "c: 64, y: 112, x: 112 | i: 2, j: 2",
        [("[c, 2*y + i, 2*x + j]", "64x224x224")],
        ("[c, y, x]", "64x112x112"),
    )
    schedules = [choice.schedule for choice in all_choices(op, kernel_of(op), target)]
    assert {s.unroll for s in schedules if s.rows is not None} == {4}


def test_windows_that_share_loads_are_not_where_registers_are_full() -> None:
    op = contraction(
        "c: 64, y: 56, x: 56 | i: 3, j: 3",
        [("[c, 2*y + i, 2*x + j]", "64x113x113")],
        ("[c, y, x]", "64x56x56"),
    )
    schedules = [choice.schedule for choice in all_choices(op, kernel_of(op), TARGETS["avx512"])]
    assert {s.unroll for s in schedules if s.rows is not None} == {1, 9}


@every_target
@pytest.mark.parametrize(
    "layout, access", [("[0, 1]", Access.CONTIGUOUS), ("[1, 0]", Access.COMPUTED)]
)
def test_gathers_over_lanes(target: Target, layout: str, access: Access) -> None:
    """Neighbours in memory, not in the order of the coordinates, are vectors."""
    op = read(f"""
    tile.kernel @k(%t: tensor<7x64xf32, #place.at<x86, f32, packed<{layout}>>>, %i: tensor<9xi64>)
        -> (tensor<9x64xf32>) {{
      %r = tile.contract = [y: 9, x: 64] (%i[y]) -> [y, x] {{
      ^bb0(%row: i64):
        %at = arith.index_cast %row : i64 to index
        %x = tile.index "x"
        %v = tile.extract %t[%at, %x] : tensor<7x64xf32, #place.at<x86, f32, packed<{layout}>>>
            -> f32
        tile.yield %v : f32
      }} : tensor<9x64xf32>
      tile.return %r : tensor<9x64xf32>
    }}""")
    assert {c.schedule.vector for c in all_choices(op, kernel_of(op), target)} == {"x"}
    extract, *_ = plan_accesses(op, flatten(op), "x", None).extracts
    assert extract.access is access


@every_target
def test_rows_share_the_places_that_one_computes(target: Target) -> None:
    text = """
    tile.kernel @k(%t: tensor<64x700xf32>, %i: tensor<64x700xi64>, %j: tensor<700xi64>)
        -> (tensor<64x700xf32>) {
      %r = tile.contract = [c: 64, x: 700] (%j[x]) -> [c, x] {
      ^bb0(%place: i64):
        %at = arith.index_cast %place : i64 to index
        %c = tile.index "c"
        %v = tile.extract %t[%c, %at] : tensor<64x700xf32> -> f32
        tile.yield %v : f32
      } : tensor<64x700xf32>
      tile.return %r : tensor<64x700xf32>
    }"""
    op = read(text)
    assert list(sharing_rows(op, flatten(op).with_sizes(estimated), "x")) == ["c"]
    assert best_schedule(op, kernel_of(op), target).schedule.rows == "c"
    op = read(text.replace("(%j[x])", "(%i[c, x])"))
    assert not list(sharing_rows(op, flatten(op).with_sizes(estimated), "x"))


@every_target
def test_scalars_compete_with_copies(target: Target) -> None:
    """Packing a large operand of which a corner is read is more expensive than scalar loads."""
    op = contraction(
        "y: 3, x: 16 | k: 3", [("[y, k]", "3x3"), ("[x, 40*k]", "500x500")], ("[y, x]", "3x16")
    )
    found = list(all_choices(op, kernel_of(op), target))
    assert any(c.copies for c in found)
    assert best_schedule(op, kernel_of(op), target).schedule.vector is None


@pytest.mark.parametrize("outputs, vectors", [(48, 3), (64, 2), (80, 3), (112, 2), (768, 3)])
def test_panels_that_programs_share_leave_little_of_tiles_unused(
    outputs: int, vectors: int
) -> None:
    op = read(f"""
    tile.kernel @k(%x: tensor<200x32xf32>, %w: tensor<32x{outputs}xf32> {{tile.constant}})
        -> (tensor<200x{outputs}xf32>) {{
      %r = tile.contract + [m: 200, n: {outputs} | k: 32] (%x[m, k], %w[k, n]) -> [m, n] {{
      ^bb0(%a: f32, %b: f32):
        %p = arith.mulf %a, %b : f32
        tile.yield %p : f32
      }} : tensor<200x{outputs}xf32>
      tile.return %r : tensor<200x{outputs}xf32>
    }}""")
    found = best_schedule(op, kernel_of(op), TARGETS["avx512"], shared=True).schedule
    assert (found.vector, found.vectors) == ("n", vectors)


def test_channels_that_share_no_loads_run_in_windows_also_with_shared_panels() -> None:
    """A depthwise convolution has them: rows of one vector share the loads of their windows."""
    op = read("""
    tile.kernel @k(%x: tensor<11x11x960xf32>, %w: tensor<5x5x960xf32> {tile.constant})
        -> (tensor<7x7x960xf32>) {
      %r = tile.contract + [y: 7, x: 7, g: 960 | i: 5, j: 5] (%x[y + i, x + j, g], %w[i, j, g])
          -> [y, x, g] {
      ^bb0(%a: f32, %b: f32):
        %p = arith.mulf %a, %b : f32
        tile.yield %p : f32
      } : tensor<7x7x960xf32>
      tile.return %r : tensor<7x7x960xf32>
    }""")
    choices = [
        best_schedule(op, kernel_of(op), TARGETS["avx512"], shared=shared).schedule
        for shared in (False, True)
    ]
    assert choices[0] == choices[1]
    assert choices[1].row_tile > 1
