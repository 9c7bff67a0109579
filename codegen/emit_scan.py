"""Loops of segments around calls of other segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import SSAValue

from tessella.codegen.lltypes import I64, Value, constant, quote
from tessella.codegen.sizes import size_value
from tessella.codegen.symbols import BODY
from tessella.codegen.writer import Writer
from tessella.dialects import rt
from tessella.runtime.events import PROFILED
from tessella.support.sizes import expression


def scan(w: Writer, op: rt.ScanOp, thread: Value, threads: Value) -> None:
    """One block, which calls the segment on pointers that change from step to step."""
    loop, entry, done = w.label("loop"), w.block, w.label("done")
    step, following = Value(I64, w.name()), Value(I64, w.name())
    count, ends = size_value(w, op.count), list(_ends(w, op))
    w.line(f"br label %{loop}")
    w.start(loop)
    w.line(f"{step.text} = phi i64 [ 0, %{entry} ], [ {following.text}, %{loop} ]")
    carried = list(_carried(w, op, ends, entry, loop))
    inputs = [now for now, _ in carried]
    outputs = [written for _, written in carried]
    _elements(w, op, step, inputs, outputs)
    tables = (_table(w, pointers) for pointers in (inputs, outputs))
    memory = ("null" if x is None else w.buffers[x] for x in (op.arena, op.private))
    pointers = ("%context", *tables, "%weights", *memory)
    listed = ", ".join(f"ptr {pointer}" for pointer in pointers)
    name = quote(op.callee_name + PROFILED + BODY)
    w.line(f"call void @{name}({listed}, {thread.typed}, {threads.typed})")
    for body in (name, quote(op.callee_name + BODY)):
        w.helpers[body] = f"declare void @{body}({', '.join(['ptr'] * 6)}, i64, i64) nounwind"
    w.line(f"{following.text} = add nsw {step.typed}, 1")
    again = w.compare("icmp slt", following, count)
    w.line(f"br {again.typed}, label %{loop}, label %{done}")
    w.start(done)


def _ends(w: Writer, op: rt.ScanOp) -> Iterator[tuple[str, str]]:
    """The buffers that the first and the second step write each carried value to: its output and
    its spare buffer, so that the last step writes the output."""
    pairs = [
        (w.buffers[output], w.buffers[spare])
        for output, spare in zip(op.outputs, op.spare, strict=False)
    ]
    if expression(op.count) is None:
        yield from pairs if op.count % 2 else ((spare, output) for output, spare in pairs)
        return
    last = w.binary("and", size_value(w, op.count), constant(I64, 1))
    is_odd = w.compare("icmp ne", last, constant(I64, 0))
    for output, spare in pairs:
        first, second = w.name(), w.name()
        w.line(f"{first} = select {is_odd.typed}, ptr {output}, ptr {spare}")
        w.line(f"{second} = select {is_odd.typed}, ptr {spare}, ptr {output}")
        yield first, second


def _carried(
    w: Writer, op: rt.ScanOp, ends: Sequence[tuple[str, str]], entry: str, loop: str
) -> Iterator[tuple[str, str]]:
    """The pointers that a step reads and writes for each carried value."""
    for value, (first, second) in zip(op.inputs, ends, strict=False):
        now, written, other = (w.name() for _ in range(3))
        for name, before, then in (
            (now, w.buffers[value], written),
            (written, first, other),
            (other, second, written),
        ):
            w.line(f"{name} = phi ptr [ {before}, %{entry} ], [ {then}, %{loop} ]")
        yield now, written


def _elements(w: Writer, op: rt.ScanOp, step: Value, inputs: list[str], outputs: list[str]) -> None:
    """Add the pointers to the elements of sequences, and to what stays."""
    loop, after = op.loop, op.loop.carried + op.loop.scanned
    for number, sequence in enumerate(op.sequences):
        pointers = inputs if number < loop.scanned else outputs
        pointers.append(_element(w, op, sequence, step, number in loop.backward))
    inputs += [w.buffers[value] for value in op.inputs[after:]]


def _element(w: Writer, op: rt.ScanOp, sequence: SSAValue, step: Value, backward: bool) -> str:
    size = rt.buffer_bytes(op.element(sequence))
    if backward:
        step = w.binary("sub nsw", size_value(w, op.count - 1), step)
    return w.gep(w.buffers[sequence], "i8", w.binary("mul nsw", step, size_value(w, size)))


def _table(w: Writer, pointers: Sequence[str]) -> str:
    """An array of these pointers."""
    table = w.name()
    # at the function's start, so that it is there once
    w.lines.insert(0, f"  {table} = alloca [{max(1, len(pointers))} x ptr], align 8")
    for index, pointer in enumerate(pointers):
        slot = w.gep(table, "ptr", constant(I64, index))
        w.line(f"store ptr {pointer}, ptr {slot}, align 8")
    return table
