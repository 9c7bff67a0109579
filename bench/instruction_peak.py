"""The peak of an instruction that sums products: a loop of it on accumulators in registers."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass

from tessella.codegen.link import link
from tessella.codegen.module_text import module_text
from tessella.codegen.objects import compile_modules
from tessella.driver.calibrate import Probe
from tessella.runtime.arena import aligned
from tessella.runtime.image import Library
from tessella.targets import Target

_TURNS = 20_000
"""Iterations of the loop in one run."""

_PROBE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@dataclass(frozen=True)
class Instruction:
    """A dot product of short groups, in each lane of an accumulator of 512 bits."""

    feature: str
    """LLVM's name of what a machine needs for it."""
    callee: str
    accumulator: str
    operand: str
    operations: int
    """Of one execution; a multiply-add is two."""


INSTRUCTIONS = {
    "u8s8": Instruction(
        "avx512vnni", "llvm.x86.avx512.vpdpbusd.512", "<16 x i32>", "<64 x i8>", 2 * 16 * 4
    ),
    "bf16": Instruction(
        "avx512bf16",
        "llvm.x86.avx512bf16.dpbf16ps.512",
        "<16 x float>",
        "<32 x bfloat>",
        2 * 16 * 2,
    ),
}


def peak(name: str, target: Target) -> Probe | None:
    """A probe of the instruction, which counts its operations; None where the target lacks it."""
    instruction = INSTRUCTIONS[name]
    if instruction.feature not in target.features:
        return None
    count = target.vector_registers - 4
    text = module_text(target, list(_lines(instruction, count)))
    objects = compile_modules({"peak": text}, target)
    library = Library(link(objects.files, objects.symbols))
    source, result = aligned(4096), aligned(64 * count)
    source.fill(0)
    arguments = (source.ctypes.data, result.ctypes.data, 0, _TURNS)
    amount = float(_TURNS * count * instruction.operations)
    function = _PROBE(library.address("peak"))
    return Probe(amount, function, arguments, (library, source, result))


def _lines(instruction: Instruction, count: int) -> Iterator[str]:
    """The LLVM IR of the loop, with so many accumulators."""
    sums, factors = instruction.accumulator, instruction.operand
    yield f"declare {sums} @{instruction.callee}({sums}, {factors}, {factors})"
    yield "define void @peak(ptr %from, ptr %to, i64 %bytes, i64 %repeats) #0 {"
    yield "entry:"
    yield f"  %factor = load {factors}, ptr %from, align 64"
    yield f"  %initial = load {sums}, ptr %from, align 64"
    yield "  br label %turn"
    yield "turn:"
    yield "  %n = phi i64 [ 0, %entry ], [ %next, %turn ]"
    for i in range(count):
        yield f"  %s{i} = phi {sums} [ %initial, %entry ], [ %t{i}, %turn ]"
    for i in range(count):
        arguments = f"{sums} %s{i}, {factors} %factor, {factors} %factor"
        yield f"  %t{i} = call {sums} @{instruction.callee}({arguments})"
    yield "  %next = add nuw i64 %n, 1"
    yield "  %more = icmp ult i64 %next, %repeats"
    yield "  br i1 %more, label %turn, label %done"
    yield "done:"
    for i in range(count):
        yield f"  %at{i} = getelementptr {sums}, ptr %to, i64 {i}"
        yield f"  store {sums} %t{i}, ptr %at{i}, align 64"
    yield "  ret void"
    yield "}"
