"""The operations of a phase of a segment: calls of kernels, loops, copies. A share is the part of a
phase that one thread runs; share 0 alone runs the operations that are not divided between
threads."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, nullcontext

from xdsl.dialects import memref
from xdsl.ir import Operation

from tessella.codegen.emit_scan import scan
from tessella.codegen.lltypes import I64, LLValue, constant, quote, scalar
from tessella.codegen.sizes import size_value
from tessella.codegen.stamps import RECORDED, write
from tessella.codegen.watch import FIND_FAILED, WATCH, find_failed_text, watch_text
from tessella.codegen.writer import Handler, Writer
from tessella.dialects import rt
from tessella.runtime.events import END
from tessella.support.errors import InternalError, InvalidModelError

SHARE, SHARES = LLValue(I64, "%share"), LLValue(I64, "%shares")
_ONLY = constant(I64, 0), constant(I64, 1)


@contextmanager
def where(w: Writer, condition: LLValue) -> Generator[None]:
    """A context manager: LLVM code that is written in its block runs only if ``condition`` is
    true."""
    holds, done = w.label("holds"), w.label("done")
    w.line(f"br {condition.typed}, label %{holds}, label %{done}")
    w.start(holds)
    yield
    w.line(f"br label %{done}")
    w.start(done)


@contextmanager
def alone(w: Writer) -> Generator[None]:
    """A context manager: LLVM code that is written in its block runs only in share 0 of the
    phase."""
    with where(w, w.compare("icmp eq", SHARE, constant(I64, 0))):
        yield


def end_phase(w: Writer, barrier: rt.BarrierOp | None) -> None:
    """Write code that records the time at which a share of a phase ends. The thread then waits at
    the barrier, or runs other work."""
    if w.stamps is None:
        return
    number = END if barrier is None else w.stamps[barrier]
    # A run with one share goes on at once, without a stamp.
    found, least = (SHARE, 1) if barrier is None else (SHARES, 2)
    with where(w, w.compare("icmp uge", found, constant(I64, least))):
        _write(w, number)


def _stamp(w: Writer, op: Operation) -> None:
    """Write code that records the time at which an operation begins, if events are recorded."""
    if w.stamps is not None:
        _write(w, w.stamps[op])


def _write(w: Writer, number: int) -> None:
    with where(w, RECORDED):
        w.line(write(number))


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
    w.load_pointer(op.res, "%weights", op.slot.value.data)


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
    share, shares = (w.values[value].typed for value in (op.thread, op.threads))
    w.line(f"call void @{name}(ptr %buffers, {share}, {shares})")
    w.helpers[name] = f"declare void @{name}(ptr, i64, i64) nounwind"


def _scan(w: Writer, op: Operation) -> None:
    assert isinstance(op, rt.ScanOp)
    if op.callee_name in w.divided:
        scan(w, op, (SHARE, SHARES))
        return
    with alone(w):
        if op.loop.conditional and op.steps != 1:
            # A check that failed in another share ends the loop too.
            _find_failed(w)
        scan(w, op, _ONLY)


def _find_failed(w: Writer) -> None:
    w.helpers[FIND_FAILED] = find_failed_text()
    w.line(f"call void @{FIND_FAILED}(ptr %context)")


def _stop(w: Writer, op: Operation) -> None:
    with alone(w):
        _find_failed(w)
        status = w.push(I64, "load i64, ptr %context, align 8")
        with where(w, w.compare("icmp ne", status, constant(I64, 0))):
            _end_loop(w, op)


def _watch(w: Writer, op: Operation) -> None:
    w.helpers[WATCH] = watch_text()
    with alone(w), where(w, w.push(scalar("i1"), f"call i1 @{WATCH}(ptr %context)")):
        _end_loop(w, op)


def _end_loop(w: Writer, op: Operation) -> None:
    """Write a store that makes a loop's condition false, so that the loop ends."""
    w.line(f"store i8 0, ptr {w.buffer(op, 0)}, align 1")


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


STEPS: dict[type[Operation], Handler] = {
    rt.ArenaOp: _arena,
    rt.WeightOp: _weight,
    rt.CallOp: _call,
    rt.ScanOp: _scan,
    rt.StopOp: _stop,
    rt.WatchOp: _watch,
    memref.CopyOp: _copy,
}
