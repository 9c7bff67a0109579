"""Loops in a segment that run another segment in each iteration.

A phase is a part of a segment that threads run together, up to a barrier. If the inner segment
consists of several phases, the loop runs between phases, on the thread that called the program.
Otherwise the loop is part of a phase: every thread runs all iterations of its share of the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import SSAValue

from tessella.codegen.lltypes import I64, LLValue, constant, quote, scalar
from tessella.codegen.sizes import size_value
from tessella.codegen.symbols import BODY, PHASE
from tessella.codegen.writer import Writer
from tessella.dialects import rt
from tessella.support.decisions import decided_zero
from tessella.support.sizes import expression

Shares = tuple[LLValue, LLValue]
"""The number of a thread's share of a phase, and the number of shares."""


def scan(w: Writer, op: rt.ScanOp, shares: Shares | None) -> None:
    """Write a loop that runs a segment on pointers that advance with each iteration.

    ``shares`` holds the number of this thread's share of the enclosing phase, and the number of
    shares; None for a loop between phases.
    """
    loop, entry, done = w.label("loop"), w.block, w.label("done")
    step, following = LLValue(I64, w.name()), LLValue(I64, w.name())
    ends, is_conditional = list(_ends(w, op)), op.loop.conditional
    if is_conditional:
        go = _holds(w, w.buffers[op.inputs[0]])
        w.line(f"br {go.typed}, label %{loop}, label %{done}")
    else:
        w.line(f"br label %{loop}")
    w.start(loop)
    w.line(f"{step.text} = phi i64 [ 0, %{entry} ], [ {following.text}, %{loop} ]")
    carried = list(_carried(w, op, ends, entry, loop))
    inputs = [now for now, _ in carried]
    outputs = [written for _, written in carried]
    _elements(w, op, step, inputs, outputs)
    _run(w, op, inputs, outputs, shares)
    w.line(f"{following.text} = add nsw {step.typed}, 1")
    again = list(_again(w, op, following, carried))
    more = again[0] if len(again) == 1 else w.binary("and", *again)
    w.line(f"br {more.typed}, label %{loop}, label %{done}")
    w.start(done)
    if is_conditional:
        _finish(w, op, following, carried, (entry, loop))


def _run(
    w: Writer,
    op: rt.ScanOp,
    inputs: Sequence[str],
    outputs: Sequence[str],
    shares: Shares | None,
) -> None:
    """Write a call that runs the loop's segment for one iteration, with all its phases."""
    tables = [w.table([f"ptr {pointer}" for pointer in table]) for table in (inputs, outputs)]
    memory = ["null" if x is None else w.buffers[x] for x in (op.arena, op.private)]
    pointers = ["%contexts", *tables, "%weights", *memory]
    # The share number locates the share's own memory.
    stride = "i64 %stride" if shares is None else "i64 0"
    args = w.table([*(f"ptr {pointer}" for pointer in pointers), stride])
    name = quote(op.callee_name + (BODY if shares is None else PHASE))
    passed = "" if shares is None else "".join(f", {value.typed}" for value in shares)
    types = "" if shares is None else ", i64, i64"
    w.line(f"call void @{name}(ptr {args}{passed})")
    w.helpers[name] = f"declare void @{name}(ptr{types}) nounwind"


def _holds(w: Writer, pointer: str) -> LLValue:
    """Load a boolean from memory."""
    value = w.push(scalar("i8"), f"load i8, ptr {pointer}, align 1")
    return w.compare("icmp ne", value, constant(scalar("i8"), 0))


def _again(
    w: Writer, op: rt.ScanOp, following: LLValue, carried: Sequence[tuple[str, str]]
) -> Iterator[LLValue]:
    """Yield the conditions under which the loop continues. It continues only if all are true."""
    if op.loop.conditional:
        yield _holds(w, carried[0][1])
    if op.steps is not None:
        yield w.compare("icmp slt", following, size_value(w, op.steps))


def _finish(
    w: Writer,
    op: rt.ScanOp,
    following: LLValue,
    carried: Sequence[tuple[str, str]],
    blocks: tuple[str, str],
) -> None:
    """Write the end of a conditional loop: move carried values to the outputs, and zero the
    elements of sequences that no iteration wrote."""
    steps, lasts = w.name(), [w.name() for _ in carried]
    entry, loop = blocks
    w.line(f"{steps} = phi i64 [ 0, %{entry} ], [ {following.text}, %{loop} ]")
    for last, value, (_, written) in zip(lasts, op.inputs, carried, strict=False):
        before = w.buffers[value]
        w.line(f"{last} = phi ptr [ {before}, %{entry} ], [ {written}, %{loop} ]")
    for last, output in zip(lasts, op.outputs, strict=False):
        _move(w, last, w.buffers[output], size_value(w, rt.buffer_bytes(output.type)))
    returned = op.outputs[op.loop.carried :]
    for number, sequence in enumerate(returned, op.loop.scanned):
        _clear(w, op, sequence, LLValue(I64, steps), number in op.loop.backward)


def _move(w: Writer, source: str, destination: str, size: LLValue) -> None:
    """Copy a buffer, unless source and destination are the same."""
    moved = w.name()
    w.line(f"{moved} = icmp ne ptr {source}, {destination}")
    size = w.push(I64, f"select i1 {moved}, {size.typed}, i64 0")
    pointers = f"ptr {destination}, ptr {source}"
    w.line(f"call void @llvm.memcpy.p0.p0.i64({pointers}, {size.typed}, i1 false)")


def _clear(w: Writer, op: rt.ScanOp, sequence: SSAValue, steps: LLValue, backward: bool) -> None:
    """Zero the elements of a sequence for the iterations that did not run."""
    assert op.steps is not None
    size = size_value(w, rt.buffer_bytes(op.element(sequence)))
    missing = w.binary("mul nsw", w.binary("sub nsw", size_value(w, op.steps), steps), size)
    first, start = w.binary("mul nsw", steps, size), w.buffers[sequence]
    start = start if backward else w.gep(start, "i8", first)
    w.line(f"call void @llvm.memset.p0.i64(ptr {start}, i8 0, {missing.typed}, i1 false)")


def _ends(w: Writer, op: rt.ScanOp) -> Iterator[tuple[str, str]]:
    """Yield, for each carried value, the buffer that the first iteration writes and the one that
    the second writes. Later iterations alternate between the two.

    One of them is the value's output, the other its spare buffer. If the number of iterations is
    known, they are ordered so that the last iteration writes the output.
    """
    pairs = [
        (w.buffers[output], w.buffers[spare])
        for output, spare in zip(op.outputs, op.spare, strict=False)
    ]
    if op.loop.conditional or op.steps is None:
        yield from pairs
        return
    if expression(op.steps) is None:
        yield from (
            pairs
            if not decided_zero(op.steps % 2)
            else ((spare, output) for output, spare in pairs)
        )
        return
    last = w.binary("and", size_value(w, op.steps), constant(I64, 1))
    is_odd = w.compare("icmp ne", last, constant(I64, 0))
    for output, spare in pairs:
        first, second = w.name(), w.name()
        w.line(f"{first} = select {is_odd.typed}, ptr {output}, ptr {spare}")
        w.line(f"{second} = select {is_odd.typed}, ptr {spare}, ptr {output}")
        yield first, second


def _carried(
    w: Writer, op: rt.ScanOp, ends: Sequence[tuple[str, str]], entry: str, loop: str
) -> Iterator[tuple[str, str]]:
    """Yield, for each carried value, the pointer from which an iteration reads it and the pointer
    to which it writes the next value."""
    for value, (first, second) in zip(op.inputs, ends, strict=False):
        now, written, other = (w.name() for _ in range(3))
        for name, before, then in (
            (now, w.buffers[value], written),
            (written, first, other),
            (other, second, written),
        ):
            w.line(f"{name} = phi ptr [ {before}, %{entry} ], [ {then}, %{loop} ]")
        yield now, written


def _elements(
    w: Writer, op: rt.ScanOp, step: LLValue, inputs: list[str], outputs: list[str]
) -> None:
    """Append the pointers to an iteration's elements of input sequences to ``inputs``, and to those
    of output sequences to ``outputs``. Loop-invariant buffers are appended to ``inputs``."""
    loop, after = op.loop, op.loop.carried + op.loop.scanned
    for number, sequence in enumerate(op.sequences):
        pointers = inputs if number < loop.scanned else outputs
        pointers.append(_element(w, op, sequence, step, number in loop.backward))
    inputs += [w.buffers[value] for value in op.inputs[after:]]


def _element(w: Writer, op: rt.ScanOp, sequence: SSAValue, step: LLValue, backward: bool) -> str:
    size = rt.buffer_bytes(op.element(sequence))
    if backward:
        assert op.steps is not None
        step = w.binary("sub nsw", size_value(w, op.steps - 1), step)
    return w.gep(w.buffers[sequence], "i8", w.binary("mul nsw", step, size_value(w, size)))
