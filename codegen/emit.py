"""From the `loops` stage to LLVM IR text: one forward walk, one module per kernel or segment.

Text takes a few microseconds per op. It also expresses function attributes, alignment and target
intrinsics, which llvmlite's builders do not.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeGuard

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tessella.codegen import stamps
from tessella.codegen.addresses import Scope, indices
from tessella.codegen.emit_arith import ARITH
from tessella.codegen.emit_cast import CASTS
from tessella.codegen.emit_control import CONTROL
from tessella.codegen.emit_dot import DOT
from tessella.codegen.emit_lookup import LOOKUP
from tessella.codegen.emit_math import MATH
from tessella.codegen.emit_memory import INDICES, MEMORY
from tessella.codegen.emit_segment import emit_segment
from tessella.codegen.emit_vector import VECTOR
from tessella.codegen.lltypes import I64, LLValue, quote
from tessella.codegen.module_text import HEADER, module_text
from tessella.codegen.symbols import BODY
from tessella.codegen.traced import TracedLine, TracingWriter
from tessella.codegen.writer import Handler, Writer
from tessella.dialects import rt
from tessella.dialects.sizes import symbols_in
from tessella.targets import Target

KERNEL_HANDLERS: dict[str, Handler] = {
    op.name: handler
    for table in (ARITH, CASTS, CONTROL, DOT, LOOKUP, MATH, MEMORY, VECTOR)
    for op, handler in table.items()
}
"""The functions that write each op of a kernel, by op name and not by class: a class that only
relaxes another op class's verifier needs no entry."""

_KERNEL_PARAMETERS = "ptr %buffers, i64 %thread, i64 %threads"


def emit(
    module: ModuleOp, target: Target, without: Collection[str] = (), *, events: bool = True
) -> dict[str, str]:
    """Return the text of an LLVM module for each `rt.kernel` and `rt.segment`, by name.

    Modules named in ``without`` are left out. With ``events``, segments can record the times at
    which their operations begin; a further module then has the functions that do so. Raises
    InvalidModelError for an op without a handler.
    """
    texts: dict[str, str] = {}
    divided = rt.divided(module.body.block)
    timed = enumerate(rt.timed(module.body.block))
    numbers = {op: i for i, op in timed} if events else None
    for op in module.ops:
        if not _is_native(op) or op.sym_name.data in without:
            continue
        name = op.sym_name.data
        if isinstance(op, rt.KernelOp):
            texts[name] = emit_kernel(op, target)
        else:
            texts[name] = emit_segment(op, target, _symbols(op), divided, numbers)
    if events and any(_is_native(op) and isinstance(op, rt.SegmentOp) for op in module.ops):
        texts[stamps.NAME] = stamps.stamps(target)
    return texts


def _is_native(op: Operation) -> TypeGuard[rt.KernelOp | rt.SegmentOp]:
    """Return whether an op is a kernel or a segment of the CPU."""
    return isinstance(op, rt.KernelOp) or (isinstance(op, rt.SegmentOp) and op.device is None)


def emit_kernel(kernel: rt.KernelOp, target: Target) -> str:
    """Return the LLVM module of one kernel: `void NAME(ptr buffers, i64 thread, i64 threads)`.

    The exported function only loads the pointers. The body is its own function, to be inlined,
    because only the parameters of a function can be `noalias`.
    """
    return module_text(target, _kernel_lines(kernel, Writer(target, KERNEL_HANDLERS)))


def traced_kernel(kernel: rt.KernelOp, target: Target) -> tuple[str, list[Operation | None]]:
    """Return the LLVM module of one kernel, and a list with the op that each line was written for;
    None for lines, such as function heads, that belong to no op."""
    lines = _kernel_lines(kernel, TracingWriter(target, KERNEL_HANDLERS))
    ops: list[Operation | None] = [None] * HEADER
    for line in lines:
        op = line.op if isinstance(line, TracedLine) else None
        ops += [op] * (line.count("\n") + 1)
    text = module_text(target, lines)
    return text, [*ops, *[None] * (text.count("\n") + 1 - len(ops))]


def _kernel_lines(kernel: rt.KernelOp, w: Writer) -> list[str]:
    """Return the lines of a kernel's functions, which the writer ``w`` writes."""
    w.symbols = _symbols(kernel)
    w.values[kernel.thread] = LLValue(I64, "%thread")
    w.values[kernel.threads] = LLValue(I64, "%threads")
    for index, argument in enumerate(kernel.buffers):
        w.buffers[argument] = f"%a{index}"
    w.indices = indices(kernel.body, INDICES)
    w.scopes.append(Scope(kernel.body.block))
    w.walk(kernel.body.block)
    name = kernel.sym_name.data
    names = ["%context", *(f"%a{i}" for i in range(len(kernel.buffers)))]
    listed = ", ".join(f"ptr {p}" for p in names)
    restricted = ", ".join(f"ptr noalias noundef {p}" for p in names)
    threads = "i64 %thread, i64 %threads"
    return [
        f"define void @{quote(name)}({_KERNEL_PARAMETERS}) #0 {{",
        *_load_pointers(names),
        f"  call void @{quote(name + BODY)}({listed}, {threads})",
        "  ret void",
        "}",
        f"define internal void @{quote(name + BODY)}({restricted}, {threads}) #1 {{",
        "entry:",
        *w.lines,
        "  ret void",
        "}",
        *w.helpers.values(),
        *w.metadata,
    ]


def _symbols(op: Operation) -> tuple[str, ...]:
    module = op.parent_op()
    return tuple(s.name for s in symbols_in(module)) if isinstance(module, ModuleOp) else ()


def _load_pointers(names: list[str]) -> list[str]:
    """Return lines that load each named pointer from its slot in the kernel's array of buffers."""
    lines: list[str] = []
    for index, name in enumerate(names):
        slot = f"%slot{index}"
        lines.append(f"  {slot} = getelementptr inbounds ptr, ptr %buffers, i64 {index}")
        lines.append(f"  {name} = load ptr, ptr {slot}, align 8")
    return lines
