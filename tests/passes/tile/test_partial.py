"""Schedules with partial sums, and the code that the lowering emits for them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp

from tessella.dialects.graph import CompileContext
from tessella.dialects.tile import ContractOp, KernelOp, Schedule, ScheduleAttr
from tessella.lowering.tile_to_loops import ConvertTileToLoopsPass
from tessella.passes.tile.search import best_schedule
from tessella.targets.table import TARGETS
from tests.passes.tile_statements import contraction

AVX2 = TARGETS["avx2"]


def product(k: int) -> ContractOp:
    inputs = [("[m, k]", f"12x{k}"), ("[k, n]", f"{k}x32")]
    return contraction(f"m: 12, n: 32 | k: {k}", inputs, ("[m, n]", "12x32"))


def chosen(op: ContractOp) -> Schedule:
    kernel = op.parent_op()
    assert isinstance(kernel, KernelOp)
    return best_schedule(op, kernel, AVX2).schedule


@pytest.mark.parametrize(
    "k, part", [(512, None), (1000, None), (1024, 256), (4096, 256), (3000, 200), (4099, 256)]
)
def test_long_sums_run_in_parts(k: int, part: int | None) -> None:
    """The partial sums are equal, and consist of whole loop iterations where possible."""
    assert chosen(product(k)).partial == (None if part is None else ("k", part))


def test_windows_are_not_cut() -> None:
    """A padded window's points are told apart by their indices: its parts have all of them."""
    op = contraction(
        "x: 20, o: 32 | i: 3, c: 400",
        [("[x + i - 1, c]", "20x400"), ("[i, c, o]", "3x400x32")],
        ("[x, o]", "20x32"),
    )
    assert chosen(op).partial == ("c", 400)
    short = contraction(
        "x: 20, o: 32 | i: 7, c: 150",
        [("[x + i - 3, c]", "20x150"), ("[i, c, o]", "7x150x32")],
        ("[x, o]", "20x32"),
    )
    assert chosen(short).partial == ("c", 150)


def inner_loops(op: ContractOp, s: Schedule) -> list[list[str]]:
    """The ops of each loop that holds no other."""
    op.schedule = ScheduleAttr(s)
    module = op.parent_op()
    while not isinstance(module, ModuleOp):
        assert module is not None
        module = module.parent_op()
    ConvertTileToLoopsPass().apply(CompileContext(), module)
    loops = [inner for inner in module.walk() if isinstance(inner, scf.ForOp)]
    return [
        [inner.name for inner in loop.body.block.ops]
        for loop in loops
        if not any(isinstance(inner, scf.ForOp) for inner in loop.body.block.ops)
    ]


def test_the_loop_of_a_part_is_the_one_that_there_was() -> None:
    s = chosen(product(2048))
    assert s.partial is not None
    whole = inner_loops(product(2048), replace(s, partial=None))
    assert inner_loops(product(2048), s) == whole
