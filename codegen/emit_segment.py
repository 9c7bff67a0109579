"""Segments: they call kernels on weights, the arena and the call's arrays, and run others.

All threads of a call run a segment. What is not divided between them the first one runs alone. The
function of a segment finds the memory that its thread has for itself, and calls the body, which
loops call too. Each has a second version, which stamps what it does (``runtime.events``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext

from xdsl.dialects import memref
from xdsl.ir import Operation, SSAValue

from tessella.codegen.emit_scan import alone, scan
from tessella.codegen.lltypes import I64, Value, constant, quote, scalar
from tessella.codegen.sizes import size_value
from tessella.codegen.stamps import WRITE
from tessella.codegen.symbols import BODY
from tessella.codegen.watch import FIND_FAILED, WATCH, find_failed_text, watch_text
from tessella.codegen.writer import Handler, Writer
from tessella.dialects import rt
from tessella.runtime.events import PROFILED
from tessella.support.errors import InternalError, InvalidModelError
from tessella.support.sizes import Size

_POINTERS = (
    "ptr noundef %context, ptr noundef %inputs, ptr noundef %outputs, "
    "ptr noundef %weights, "
    f"ptr noundef align {rt.ARENA_ALIGNMENT} %arena"
)
_THREADS = "i64 %thread, i64 %threads"
SEGMENT_PARAMETERS = f"{_POINTERS}, {_THREADS}"
BODY_PARAMETERS = f"{_POINTERS}, ptr noundef align {rt.ARENA_ALIGNMENT} %private, {_THREADS}"


def bind_segment(w: Writer, segment: rt.SegmentOp) -> None:
    """Load the pointers of the segment's arguments; make room for the calls' arrays of buffers."""
    bind_threads(w, segment)
    for size in _sizes(segment):
        size_value(w, size)
    block = segment.parent_block()
    w.divided = frozenset() if block is None else rt.divided(block)
    calls = [len(op.buffers) for op in segment.body.block.ops if isinstance(op, rt.CallOp)]
    if calls:
        w.line(f"%buffers = alloca [{max(calls) + 1} x ptr], align 8")
        w.line("store ptr %context, ptr %buffers, align 8")
    for array, arguments in (("%inputs", segment.inputs), ("%outputs", segment.outputs)):
        for slot, argument in enumerate(arguments):
            _load_pointer(w, argument, array, slot)


def _sizes(segment: rt.SegmentOp) -> Iterator[Size]:
    """What its ops ask for, perhaps in blocks of their own."""
    for op in segment.body.block.ops:
        if isinstance(op, rt.ArenaOp):
            yield op.extent[0]
        elif isinstance(op, memref.CopyOp):
            yield rt.buffer_bytes(op.source.type)
        elif isinstance(op, rt.ScanOp):
            if op.steps is not None:
                yield from (op.steps, op.steps - 1)
            yield from (rt.buffer_bytes(op.element(x)) for x in op.sequences)
            yield from (rt.buffer_bytes(x.type) for x in op.spare)


def find_private(w: Writer, segment: rt.SegmentOp) -> None:
    """The memory of a thread lies after the arena."""
    private, arena = (size_value(w, x) for x in (segment.private_size, segment.arena_size))
    offset = w.push(I64, f"mul nuw i64 %thread, {private.text}")
    offset = w.binary("add nuw", offset, arena)
    w.line(f"%private = getelementptr inbounds i8, ptr %arena, {offset.typed}")


def bind_threads(w: Writer, function: rt.KernelOp | rt.SegmentOp) -> None:
    """Give the arguments of ``threads`` the parameters of these names."""
    w.values[function.thread] = Value(I64, "%thread")
    w.values[function.threads] = Value(I64, "%threads")


def _load_pointer(w: Writer, buffer: SSAValue, table: str, slot: int) -> None:
    address = w.gep(table, "ptr", constant(I64, slot))
    w.buffers[buffer] = pointer = w.name()
    w.line(f"{pointer} = load ptr, ptr {address}, align 8")


def _arena(w: Writer, op: Operation) -> None:
    assert isinstance(op, rt.ArenaOp)
    memory = "%arena" if op.private is None else "%private"
    w.buffers[op.res] = w.gep(memory, "i8", size_value(w, op.extent[0]))


def _weight(w: Writer, op: Operation) -> None:
    assert isinstance(op, rt.WeightOp)
    if op.slot is None:
        raise InvalidModelError(
            f"the weight @{op.weight_name} has no slot", hint="plan-weights chooses it"
        )
    _load_pointer(w, op.res, "%weights", op.slot.value.data)


def _call(w: Writer, op: Operation) -> None:
    assert isinstance(op, rt.CallOp)
    with nullcontext() if op.callee_name in w.divided else alone(w):
        _stamp(w, op)
        _call_kernel(w, op)


def _call_kernel(w: Writer, op: rt.CallOp) -> None:
    name = quote(op.callee_name)
    for index in range(len(op.buffers)):
        slot = w.gep("%buffers", "ptr", constant(I64, index + 1))
        w.line(f"store ptr {w.buffer(op, index)}, ptr {slot}, align 8")
    thread, threads = w.values[op.thread].typed, w.values[op.threads].typed
    w.line(f"call void @{name}(ptr %buffers, {thread}, {threads})")
    w.helpers[name] = f"declare void @{name}(ptr, i64, i64) nounwind"


def _stamp(w: Writer, op: Operation) -> None:
    """Write down that an op begins."""
    w.line(f"{WRITE}{w.stamps[op]})")


def plain(lines: Iterable[str]) -> list[str]:
    """The lines of a segment that is not profiled, from those of one that is."""
    kept = (line for line in lines if WRITE not in line)
    return [line.replace(PROFILED + BODY, BODY) for line in kept]


def _barrier(w: Writer, op: Operation) -> None:
    """The address of the function that waits is in the context, which it is called with."""
    wait, done = w.label("wait"), w.label("done")
    several = w.compare("icmp ugt", w.get(op, 0), constant(I64, 1))
    w.line(f"br {several.typed}, label %{wait}, label %{done}")
    w.start(wait)
    _stamp(w, op)
    slot, function = w.gep("%context", "i64", constant(I64, rt.BARRIER_SLOT)), w.name()
    w.line(f"{function} = load ptr, ptr {slot}, align 8")
    w.line(f"call void {function}(ptr %context)")
    w.line(f"br label %{done}")
    w.start(done)


def _scan(w: Writer, op: Operation) -> None:
    assert isinstance(op, rt.ScanOp)
    if op.callee_name in w.divided:
        scan(w, op, w.values[op.thread], w.values[op.threads])
        return
    with alone(w):
        if op.loop.conditional and op.steps != 1:
            # what the others have found out ends it, too
            w.helpers[FIND_FAILED] = find_failed_text()
            w.line(f"call void @{FIND_FAILED}(ptr %context, {w.values[op.threads].typed})")
        scan(w, op, constant(I64, 0), constant(I64, 1))


def _stop(w: Writer, op: Operation) -> None:
    """Threads that have failed write the same."""
    failed, done = w.label("failed"), w.label("done")
    status = w.push(I64, "load i64, ptr %context, align 8")
    succeeded = w.compare("icmp eq", status, constant(I64, 0))
    w.line(f"br {succeeded.typed}, label %{done}, label %{failed}")
    w.start(failed)
    w.line(f"store atomic i8 0, ptr {w.buffer(op, 0)} monotonic, align 1")
    w.line(f"br label %{done}")
    w.start(done)


def _watch(w: Writer, op: Operation) -> None:
    w.helpers[WATCH] = watch_text()
    with alone(w):
        ended, done = w.label("ended"), w.label("done")
        ends = w.push(scalar("i1"), f"call i1 @{WATCH}(ptr %context)")
        w.line(f"br {ends.typed}, label %{ended}, label %{done}")
        w.start(ended)
        w.line(f"store i8 0, ptr {w.buffer(op, 0)}, align 1")
        w.line(f"br label %{done}")
        w.start(done)


def _copy(w: Writer, op: Operation) -> None:
    source, destination = w.buffer(op, 0), w.buffer(op, 1)
    size = rt.buffer_bytes(op.operands[0].type)
    if size != rt.buffer_bytes(op.operands[1].type):
        raise InternalError("memref.copy between buffers of different sizes", where=str(op))
    with alone(w):
        _stamp(w, op)
        w.line(
            f"call void @llvm.memcpy.p0.p0.i64(ptr {destination}, ptr {source}, "
            f"{size_value(w, size).typed}, i1 false)"
        )


def _return(w: Writer, op: Operation) -> None:
    """Writes nothing: the function around the walk returns."""


SEGMENT: dict[type[Operation], Handler] = {
    rt.ArenaOp: _arena,
    rt.WeightOp: _weight,
    rt.CallOp: _call,
    rt.ScanOp: _scan,
    rt.BarrierOp: _barrier,
    rt.StopOp: _stop,
    rt.WatchOp: _watch,
    memref.CopyOp: _copy,
    rt.ReturnOp: _return,
}
