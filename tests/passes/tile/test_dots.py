"""Dot products that schedules have."""

from __future__ import annotations

from dataclasses import replace

import pytest
from xdsl.parser import Parser

from tessella import targets
from tessella.dialects.tile import ContractOp, KernelOp
from tessella.driver.stages.stage_file import stage_context
from tessella.passes.tile.search import best_schedule

BYTES = "ui8", "i8", "i32", "arith.extui", "arith.extsi", "arith.muli"
SIGNED = "i8", "i8", "i32", "arith.extsi", "arith.extsi", "arith.muli"
STORED = "f16", "f16", "f32", "arith.extf", "arith.extf", "arith.mulf"
HALVES = "bf16", "bf16", "f32", "arith.extf", "arith.extf", "arith.mulf"


def product(
    elements: tuple[str, ...],
    *,
    constant: bool = True,
    m: int = 48,
    k: int = 64,
    a: str = "m, k",
) -> tuple[ContractOp, KernelOp]:
    """A product of narrow numbers, and its kernel."""
    left, right, total, widen_a, widen_b, multiply = elements
    shape = "x".join(str({"m": m, "k": k}[name]) for name in a.split(", "))
    mark = " {tile.constant}" if constant else ""
    text = f"""
    tile.kernel @k(%a: tensor<{shape}x{left}>, %b: tensor<{k}x64x{right}>{mark})
        -> (tensor<{m}x64x{total}>) {{
      %r = tile.contract + [m: {m}, n: 64 | k: {k}] (%a[{a}], %b[k, n]) -> [m, n] {{
      ^bb0(%x: {left}, %y: {right}):
        %u = {widen_a} %x : {left} to {total}
        %v = {widen_b} %y : {right} to {total}
        %p = {multiply} %u, %v : {total}
        tile.yield %p : {total}
      }} : tensor<{m}x64x{total}>
      tile.return %r : tensor<{m}x64x{total}>
    }}"""
    module = Parser(stage_context(), text).parse_module()
    module.verify()
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    return kernel.statements[0], kernel


@pytest.mark.parametrize(
    "elements, name, feature, instruction",
    [
        (BYTES, "avx512", "avx512vnni", "vpdpbusd"),
        (BYTES, "avx2", "avxvnni", "vpdpbusd"),
        (BYTES, "avx512", None, "vpmaddwd"),
        (BYTES, "avx2", None, "vpmaddwd"),
        (BYTES, "neon", "i8mm", "usmmla"),
        (BYTES, "neon", None, None),
        (SIGNED, "neon", "dotprod", "sdot"),
        (SIGNED, "neon", "i8mm", "smmla"),
        (STORED, "neon", "fp16fml", "fmlal"),
        (HALVES, "avx512", "avx512bf16", "vdpbf16ps"),
        (HALVES, "avx512", None, None),
        (HALVES, "neon", "bf16", "bfmmla"),
    ],
)
def test_the_instruction_of_a_target(
    elements: tuple[str, ...], name: str, feature: str | None, instruction: str | None
) -> None:
    target = targets.get(name)
    target = replace(target, features=(*target.features, *filter(None, [feature])))
    choice = best_schedule(*product(elements), target)
    found = choice.schedule.dot
    assert (found and found.instruction) == instruction
    if found is not None and found.row.k > 1:
        assert f"0 floordiv {found.row.k}" in str(choice.places[1])


VNNI = replace(targets.get("avx512"), features=("avx512vnni", "avx512bf16"))


def test_a_slow_instruction_is_left_alone() -> None:
    """On some CPUs a multiply-add of floats takes half the time for each product."""
    slow = replace(VNNI, rates=(("vdpbf16ps", 0.05),))
    assert best_schedule(*product(HALVES), VNNI).schedule.dot is not None
    assert best_schedule(*product(HALVES), slow).schedule.dot is None


def test_one_row_takes_an_instruction_on_one_row() -> None:
    """An instruction for two rows would multiply the row twice."""
    target = targets.get("neon+dotprod+i8mm")
    for rows, instruction in ((1, "usdot"), (2, "usmmla"), (3, "usmmla")):
        dot = best_schedule(*product(BYTES, m=rows), target).schedule.dot
        assert dot is not None
        assert dot.instruction == instruction


def test_groups_that_lie_apart() -> None:
    """The operand that is broadcast has its rows along the summed index."""
    assert best_schedule(*product(BYTES, a="k, m"), VNNI).schedule.dot is None


def test_a_copy_has_no_padding() -> None:
    """The padding of a group need not be a number, unless it is a padded constant."""
    assert best_schedule(*product(HALVES, k=65), VNNI).schedule.dot is not None
    variable = product(HALVES, k=65, constant=False)
    assert best_schedule(*variable, VNNI).schedule.dot is None
