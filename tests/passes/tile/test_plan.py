"""How operands are read under a schedule, and the code that the lowering emits for it."""

from __future__ import annotations

from collections import Counter

import pytest
from xdsl.dialects.builtin import ModuleOp

from tessella.dialects.graph import CompileContext
from tessella.dialects.tile import ContractOp, Schedule, ScheduleAttr
from tessella.dialects.tile.flat import flatten
from tessella.lowering.tile_to_loops import ConvertTileToLoopsPass
from tessella.passes.tile.plan import Access, AccessPlan, plan_accesses
from tests.passes.tile_statements import contraction


def plan(op: ContractOp, vector: str | None, rows: str | None = None) -> AccessPlan:
    return plan_accesses(op, flatten(op), vector, rows)


def kinds(found: AccessPlan) -> list[str]:
    return [operand.access.value for operand in found.operands]


def window() -> ContractOp:
    """A 3x3 convolution of rows, padded."""
    return contraction(
        "o: 8, y: 12, x: 40 | c: 4, i: 3, j: 3",
        [("[c, y + i - 1, x + j - 1]", "4x12x40"), ("[o, c, i, j]", "8x4x3x3")],
        ("[o, y, x]", "8x12x40"),
    )


PRODUCT = contraction(
    "m: 24, n: 32 | k: 16", [("[m, k]", "24x16"), ("[k, n]", "16x32")], ("[m, n]", "24x32")
)


def test_a_product() -> None:
    assert kinds(plan(PRODUCT, "n", "m")) == ["broadcast", "contiguous", "contiguous"]
    assert [o.row_stride for o in plan(PRODUCT, "n", "m").operands] == [16, 0, 32]
    assert kinds(plan(PRODUCT, None)) == ["broadcast"] * 3
    assert [o.bits for o in plan(PRODUCT, "n").operands] == [32] * 3


def test_a_column_needs_a_gather() -> None:
    """Lanes over k read the right operand 32 elements apart."""
    found = plan(PRODUCT, "k")
    assert kinds(found) == ["contiguous", "gather", "broadcast"]
    assert found.misfit(Schedule((), (), "k", 8)) == "lanes that lie side by side"


@pytest.mark.parametrize("stride, kind", [(2, "strided"), (4, "strided"), (5, "gather")])
def test_lanes_a_few_elements_apart(stride: int, kind: str) -> None:
    op = contraction("x: 20 | k: 3", [(f"[{stride}*x + k]", "200"), ("[k]", "3")], ("[x]", "20"))
    assert kinds(plan(op, "x")) == [kind, "broadcast", "contiguous"]


@pytest.mark.parametrize("repeats, kind", [(2, "interleaved"), (4, "interleaved"), (5, "gather")])
def test_results_between_those_of_rows(repeats: int, kind: str) -> None:
    """Rows that fill what lies between the lanes of a map are stored with them."""
    indices, out = f"x: 20, e: {repeats}", (f"[{repeats}*x + e]", f"{20 * repeats}")
    op = contraction(indices, [("[x]", "20")], out, aggregation="=")
    assert kinds(plan(op, "x", "e")) == ["contiguous", kind]
    assert kinds(plan(op, "x")) == ["contiguous", "gather"]


def test_a_window_is_masked_where_it_leaves_its_tensor() -> None:
    """Along the lanes by masks; along other indices by the bounds of the window's loops."""
    found = plan(window(), "x", "o")
    assert kinds(found) == ["contiguous", "broadcast", "contiguous"]
    assert [str(c.form) for c in found.operands[0].guards] == ["x + j - 1"]
    assert not found.operands[1].guards
    assert [str(c.form) for c in found.constraints.bounds] == ["y + i - 1"]
    assert str(found.operands[0]) == "contiguous f32, stride 1, masked by 0 <= x + j - 1 < 40"


def test_what_does_not_fit_is_a_sentence() -> None:
    found = plan(PRODUCT, "n", "m")
    assert found.misfit(Schedule((), (), "n", 8, rows="m", row_tile=4)) is None
    assert Access.GATHER not in {o.access for o in found.operands}
    assert plan(PRODUCT, "m").misfit(Schedule((), (), "m", 8)) == "lanes that lie side by side"


def loops(op: ContractOp, schedule: Schedule) -> ModuleOp:
    op.schedule = ScheduleAttr(schedule)
    module = op.parent_op()
    while not isinstance(module, ModuleOp):
        assert module is not None
        module = module.parent_op()
    ConvertTileToLoopsPass().apply(CompileContext(), module)
    module.verify()
    return module


@pytest.mark.parametrize("rows", [1, 4, 8])
def test_masks_are_made_once_for_what_they_depend_on(rows: int) -> None:
    """Rows share the comparison of their lanes, the masked load, and the numbers of the lanes."""
    op = window()
    schedule = Schedule(
        ("y", "x", "o"), ("c", "i", "j"), "x", 16, 1, "o" if rows > 1 else None, rows
    )
    count = Counter(inner.name for inner in loops(op, schedule).walk())
    assert count["rt.iota"] == 1
    # of the first tile and of the last one, whose vector is 8 lanes long; the others need none
    assert count["arith.cmpi"] == count["vector.maskedload"] == 2
    assert count["vector.create_mask"] == 1
    assert count["vector.fma"] == 3 * rows
