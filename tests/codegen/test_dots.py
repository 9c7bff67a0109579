"""The code of `rt.dot`: the instruction of each row, and what it computes where it runs here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tessella import targets
from tessella.codegen.llvm import assembly
from tessella.dialects.elements import attribute_of
from tessella.runtime.elements import DTYPES, converted, widened
from tessella.support.elements import ELEMENTS
from tessella.support.errors import InvalidModelError
from tessella.targets import Target
from tessella.targets.instructions import INSTRUCTIONS, Instruction
from tessella.targets.table import TARGETS
from tests.codegen.harness import call_text, kernel_text

Array = npt.NDArray[Any]


def machines(row: Instruction) -> list[Target]:
    """The targets that have the vectors of a row, with the features that it needs."""
    found = [
        replace(target, features=(*target.features, *filter(None, [form.feature])))
        for target in TARGETS.values()
        for bits, form in row.forms.items()
        if bits == target.vector_bits
    ]
    return [target for target in found if row.runs_on(target)]


CASES = [
    pytest.param(
        row,
        pair,
        target,
        shared,
        id=f"{row.name}-{'-'.join(pair)}-{target.feature_string}-{shared}",
    )
    for row in INSTRUCTIONS.values()
    for pair in row.operands
    for target in machines(row)
    for shared in ([None, 0, 1] if row.m == 1 else [None])
]


def groups_of(row: Instruction, lanes: int, shared: int | None) -> list[int]:
    """The number of groups of both operands."""
    if row.m > 1:
        return [row.m, row.columns(lanes)]
    return [1 if i == shared else lanes for i in range(2)]


def source(row: Instruction, pair: tuple[str, str], lanes: int, shared: int | None) -> str:
    """A kernel of one dot product; all lanes share the group of an operand of this number."""
    sizes = [row.k * groups for groups in groups_of(row, lanes, shared)]
    names = [*pair, row.accumulates]
    elements = [str(attribute_of(name)) for name in names]
    a, b, c = (f"{n}x{e}" for n, e in zip((*sizes, lanes), elements, strict=True))
    return f"""
    rt.kernel @k(%a: memref<{a}>, %b: memref<{b}>) outs(%c: memref<{c}>) threads(%i, %n) {{
      %zero = arith.constant 0 : index
      %x = vector.load %a[%zero] : memref<{a}>, vector<{a}>
      %y = vector.load %b[%zero] : memref<{b}>, vector<{b}>
      %z = vector.load %c[%zero] : memref<{c}>, vector<{c}>
      %r = rt.dot %z, %x, %y {{instruction = "{row.name}"}}
          : vector<{c}>, vector<{a}>, vector<{b}> -> vector<{c}>
      vector.store %r, %c[%zero] : memref<{c}>, vector<{c}>
      rt.return
    }}"""


def numbers(name: str, size: int, seed: int) -> Array:
    """Integers, of floats such that their sums are exact."""
    random = np.random.default_rng(seed)
    if ELEMENTS[name].is_float:
        return converted(random.integers(-99, 99, size), DTYPES[name])
    limits = np.iinfo(DTYPES[name])
    return random.integers(limits.min, limits.max, size, DTYPES[name], endpoint=True)


@pytest.mark.parametrize("row, pair, target, shared", CASES)
def test_dot(row: Instruction, pair: tuple[str, str], target: Target, shared: int | None) -> None:
    """The instruction is in the code; where this machine has it, the sums are NumPy's."""
    lanes = target.vector_bits // 32
    text = kernel_text(source(row, pair, lanes, shared), target)
    # without AVX, names of instructions have no v
    assert row.name.removeprefix("v") in assembly(text, target)
    if not targets.can_run(target):
        return
    sizes = [row.k * groups for groups in groups_of(row, lanes, shared)]
    a, b = (numbers(name, n, i) for i, (name, n) in enumerate(zip(pair, sizes, strict=True)))
    c = numbers(row.accumulates, lanes, 2)
    exact = (widened(x).astype(np.int64).reshape(-1, row.k) for x in (a, b))
    groups = [np.broadcast_to(x, (lanes, row.k)) for x in exact]
    wanted = (c.astype(np.int64) + (groups[0] * groups[1]).sum(1)).astype(c.dtype)
    call_text(text, target, a, b, c)
    np.testing.assert_array_equal(c, wanted)


def test_a_target_that_lacks_the_instruction() -> None:
    """LLVM would abort its process."""
    row, target = INSTRUCTIONS["vpdpbusd"], replace(targets.get("avx512"), features=())
    with pytest.raises(InvalidModelError, match="avx512 has no vpdpbusd") as error:
        kernel_text(source(row, ("u8", "i8"), 16, 0), target)
    assert error.value.expected == "a target with avx512vnni or avxvnni"
