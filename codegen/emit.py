"""From the `loops` stage to LLVM IR text: one forward walk, one module per kernel or segment.

It writes text because that takes a few microseconds per op, and because text can express all that
is needed (attributes of functions, alignment, intrinsics of the target), which builders cannot.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tessella.codegen.addresses import Scope, indices
from tessella.codegen.emit_arith import ARITH
from tessella.codegen.emit_cast import CASTS
from tessella.codegen.emit_control import CONTROL
from tessella.codegen.emit_math import MATH
from tessella.codegen.emit_memory import INDICES, MEMORY
from tessella.codegen.emit_segment import (
    BODY_PARAMETERS,
    SEGMENT,
    SEGMENT_PARAMETERS,
    bind_segment,
    bind_threads,
    find_private,
    plain,
)
from tessella.codegen.emit_vector import VECTOR
from tessella.codegen.lltypes import quote
from tessella.codegen.module_text import module_text
from tessella.codegen.stamps import WRITE_END, stamps
from tessella.codegen.symbols import BODY
from tessella.codegen.writer import Handler, Writer
from tessella.dialects import rt
from tessella.dialects.sizes import symbols_in
from tessella.runtime.events import PROFILED
from tessella.targets import Target

KERNEL_HANDLERS: dict[str, Handler] = {
    op.name: handler
    for table in (ARITH, CASTS, CONTROL, MATH, MEMORY, VECTOR)
    for op, handler in table.items()
}
"""By the op's name, so that an op class which only relaxes another's verifier needs no entry."""

SEGMENT_HANDLERS: dict[str, Handler] = {op.name: handler for op, handler in SEGMENT.items()}

_KERNEL_PARAMETERS = "ptr %buffers, i64 %thread, i64 %threads"


LONG = 1000
"""Ops of a segment from which on LLVM leaves it as it is: its time for a function grows with the
square of its length, and there is little but calls in it."""


def emit(module: ModuleOp, target: Target, without: Collection[str] = ()) -> dict[str, str]:
    """The text of an LLVM module for every `rt.kernel` and `rt.segment`, by its name, except the
    ones named.

    Raises InvalidModelError for an op that the tables do not know.
    """
    texts: dict[str, str] = {}
    for op in module.ops:
        if isinstance(op, rt.KernelOp | rt.SegmentOp) and op.sym_name.data not in without:
            name = op.sym_name.data
            is_kernel = isinstance(op, rt.KernelOp)
            texts |= {name: emit_kernel(op, target)} if is_kernel else emit_segment(op, target)
    return texts


def emit_kernel(kernel: rt.KernelOp, target: Target) -> str:
    """The LLVM module of one kernel: `void NAME(ptr buffers, i64 thread, i64 threads)`.

    The exported function only loads the pointers. The body is a function of its own, to be inlined,
    because only the parameters of a function can be `noalias`.
    """
    w = Writer(target, KERNEL_HANDLERS, symbols=_symbols(kernel))
    bind_threads(w, kernel)
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
    return module_text(
        target,
        [
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
        ],
    )


def emit_segment(segment: rt.SegmentOp, target: Target) -> dict[str, str]:
    """The LLVM modules of one segment, which call kernels and segments of other modules: as it
    runs, and as it runs when it is profiled (``runtime.events``)."""
    symbols = _symbols(segment)
    entry = Writer(target, symbols=symbols)
    w = Writer(target, SEGMENT_HANDLERS, symbols=symbols)
    block = segment.parent_block()
    if block is not None:
        w.stamps = {op: number for number, op in enumerate(rt.timed(block))}
    find_private(entry, segment)
    bind_segment(w, segment)
    w.walk(segment.body.block)
    is_long = len(segment.body.block.ops) > LONG
    attributes = "noinline optnone #0" if is_long else "#0"
    name = segment.sym_name.data
    return {
        name: _segment_text(w, name, entry.lines, attributes),
        name + PROFILED: _segment_text(w, name, entry.lines, attributes, profiled=True),
    }


def _segment_text(
    w: Writer, name: str, entry: Sequence[str], attributes: str, *, profiled: bool = False
) -> str:
    """The functions of a segment, which ``entry`` begins, and of its body."""
    lines, end = (w.lines, [WRITE_END]) if profiled else (plain(w.lines), [])
    name, helpers = (name + PROFILED, [stamps(w.target)]) if profiled else (name, [])
    return module_text(
        w.target,
        [
            f"define void @{quote(name)}({SEGMENT_PARAMETERS}) #0 {{",
            "entry:",
            *entry,
            f"  call void @{quote(name + BODY)}({BODY_PARAMETERS})",
            *end,
            "  ret void",
            "}",
            f"define void @{quote(name + BODY)}({BODY_PARAMETERS}) {attributes} {{",
            "entry:",
            *lines,
            "  ret void",
            "}",
            *w.helpers.values(),
            *helpers,
        ],
    )


def _symbols(op: Operation) -> tuple[str, ...]:
    module = op.parent_op()
    return tuple(s.name for s in symbols_in(module)) if isinstance(module, ModuleOp) else ()


def _load_pointers(names: list[str]) -> list[str]:
    """Lines that load each named pointer from its place in the kernel's array of buffers."""
    lines: list[str] = []
    for index, name in enumerate(names):
        slot = f"%slot{index}"
        lines.append(f"  {slot} = getelementptr inbounds ptr, ptr %buffers, i64 {index}")
        lines.append(f"  {name} = load ptr, ptr {slot}, align 8")
    return lines
