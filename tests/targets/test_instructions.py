"""The table of dot products: which targets have them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tessella import targets
from tessella.support.elements import ELEMENTS
from tessella.targets.instructions import INSTRUCTIONS, Instruction, of_product, pairs_of


@pytest.mark.parametrize("row", INSTRUCTIONS.values(), ids=lambda row: row.name)
def test_rows(row: Instruction) -> None:
    assert row.k > 1 or any(name != row.accumulates for name in row.operands[0])
    assert row.m in (1, 2)
    assert row.rate > 0
    assert row.accumulates in ELEMENTS
    assert {name for pair in row.operands for name in pair} <= ELEMENTS.keys()
    assert all(form.callee.startswith("llvm.") for form in row.forms.values())


def test_a_target_without_the_feature() -> None:
    plain = replace(targets.get("avx512"), features=())
    has = replace(plain, features=("avx512vnni",))
    assert "vpdpbusd" in [row.name for row in of_product("u8", "i8", "i32", has)]
    assert "vpdpbusd" not in [row.name for row in of_product("u8", "i8", "i32", plain)]
    assert not any(of_product("f32", "f32", "f32", has))


@pytest.mark.parametrize(
    "target, pairs",
    [
        ("avx512+avx512vnni", [("u8", "i8")]),
        ("avx2+avxvnni", [("u8", "i8")]),
        ("neon+dotprod", [("u8", "u8"), ("i8", "i8")]),
        ("neon+i8mm", [("u8", "u8"), ("u8", "i8"), ("i8", "i8")]),
        ("neon", [("u8", "u8"), ("u8", "i8"), ("i8", "u8"), ("i8", "i8")]),
    ],
)
def test_the_signs_that_a_target_multiplies_the_fastest(
    target: str, pairs: list[tuple[str, str]]
) -> None:
    assert pairs_of(("u8", "i8"), "i32", targets.get(target)) == pairs


def test_the_order_of_operands() -> None:
    row = INSTRUCTIONS["vpdpbusd"]
    assert row.swaps("u8", "i8") is False
    assert row.swaps("i8", "u8") is True
    assert row.swaps("i8", "i8") is None


def test_the_rate_of_a_cpu() -> None:
    """bf16 is for AMX on Intel's cores: a dot product takes four times as long there."""
    row, plain = INSTRUCTIONS["vdpbf16ps"], targets.get("avx512")
    assert row.rate_on(plain) == row.rate
    assert row.rate_on(replace(plain, rates=(("vdpbf16ps", 0.25),))) == 0.25
