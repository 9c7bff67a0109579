"""The peak rate of a dot product instruction: a loop on accumulators in registers."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

from tessella.codegen.link import link
from tessella.codegen.module_text import module_text
from tessella.codegen.objects import compile_modules
from tessella.driver.tune.calibrate import Probe
from tessella.runtime.arena import aligned
from tessella.runtime.image import Library
from tessella.support.elements import ELEMENTS
from tessella.targets import Target
from tessella.targets.instructions import Instruction, of_product

_TURNS = 20_000
"""Iterations of the loop in one run."""

_PROBE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

Product = tuple[str, str, str]
"""The elements of two operands and of their sums."""


def peak(product: Product, target: Target) -> Probe | None:
    """Return a probe of the first instruction for a product; None if the target has none.

    It counts operations: two for a multiply-add.
    """
    row = next(of_product(*product, target), None)
    if row is None:
        return None
    count = target.vector_registers - 4
    text = module_text(target, list(_lines(row, target, count)))
    objects = compile_modules({"peak": text}, target)
    library = Library(link(objects.files, objects.symbols))
    source, result = aligned(4096), aligned(target.vector_bytes * count)
    source.fill(0)
    arguments = (source.ctypes.data, result.ctypes.data, 0, _TURNS)
    amount = float(_TURNS * count * 2 * row.k * target.lanes(32))
    function = _PROBE(library.address("peak"))
    return Probe(amount, function, arguments, (library, source, result))


def _lines(row: Instruction, target: Target, count: int) -> Iterator[str]:
    """Yield the LLVM IR of the loop, with ``count`` accumulators."""
    lanes, callee = (
        target.lanes(ELEMENTS[row.accumulates].bits),
        row.forms[target.vector_bits].callee,
    )
    sums = f"<{lanes} x {ELEMENTS[row.accumulates].llvm}>"
    factors = f"<{row.taken(lanes)} x {_taken(row)}>"
    operands = (factors, factors) if row.sums else (sums, factors, factors)
    yield f"declare {sums} @{callee}({', '.join(operands)})"
    yield "define void @peak(ptr %from, ptr %to, i64 %bytes, i64 %repeats) #0 {"
    yield "entry:"
    yield f"  %factor = load {factors}, ptr %from, align 16"
    yield f"  %initial = load {sums}, ptr %from, align 16"
    yield "  br label %turn"
    yield "turn:"
    yield "  %n = phi i64 [ 0, %entry ], [ %next, %turn ]"
    for i in range(count):
        yield f"  %s{i} = phi {sums} [ %initial, %entry ], [ %t{i}, %turn ]"
    for i in range(count):
        yield from _step(row, callee, sums, factors, i)
    yield "  %next = add nuw i64 %n, 1"
    yield "  %more = icmp ult i64 %next, %repeats"
    yield "  br i1 %more, label %turn, label %done"
    yield "done:"
    for i in range(count):
        yield f"  %at{i} = getelementptr {sums}, ptr %to, i64 {i}"
        yield f"  store {sums} %t{i}, ptr %at{i}, align 16"
    yield "  ret void"
    yield "}"


def _taken(row: Instruction) -> str:
    """Return LLVM's type of the intrinsic's operands."""
    element = row.takes or row.operands[0][0]
    return "bfloat" if element == "bf16" else ELEMENTS[element].llvm


def _step(row: Instruction, callee: str, sums: str, factors: str, i: int) -> Iterator[str]:
    """Yield one accumulator's product and sum."""
    factor = f"{factors} %factor, {factors} %factor"
    if not row.sums:
        yield f"  %t{i} = call {sums} @{callee}({sums} %s{i}, {factor})"
        return
    # LLVM would hoist a loop-invariant product.
    yield f"  %f{i} = bitcast {sums} %s{i} to {factors}"
    yield f"  %p{i} = call {sums} @{callee}({factors} %f{i}, {factors} %factor)"
    yield f"  %t{i} = add {sums} %s{i}, %p{i}"
