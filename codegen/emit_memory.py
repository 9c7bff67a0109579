"""The code of loads and stores of `memref` and `vector`. Buffers are flat and aligned to their
element only.

An i1 occupies a byte in a buffer, 0 or 1: loads compare it with 0, stores widen it.
"""

from __future__ import annotations

from xdsl.dialects import memref, vector
from xdsl.ir import Operation

from tessella.codegen.lltypes import I64, LLType, LLValue, constant, type_of
from tessella.codegen.pointers import address, in_memory
from tessella.codegen.writer import Handler, Writer
from tessella.dialects import rt


def _to_memory(w: Writer, value: LLValue) -> LLValue:
    if value.type.element != "i1":
        return value
    return w.cast("zext", value, value.type.of("i8"))


def _from_memory(w: Writer, value: LLValue, wanted: LLType) -> LLValue:
    if wanted.element != "i1":
        return value
    return w.compare("icmp ne", value, constant(value.type, 0))


def _load(w: Writer, op: Operation) -> None:
    wanted = type_of(op.results[0].type)
    stored = in_memory(wanted)
    pointer = address(w, *op.operands[:2])
    loaded = w.push(stored, f"load {stored.text}, ptr {pointer}, align {stored.memory_bytes}")
    w.set(op, _from_memory(w, loaded, wanted))


def _store(w: Writer, op: Operation) -> None:
    value = _to_memory(w, w.get(op, 0))
    pointer = address(w, *op.operands[1:3])
    w.line(f"store {value.typed}, ptr {pointer}, align {value.type.memory_bytes}")


def _masked_load(w: Writer, op: Operation) -> None:
    mask, otherwise = w.get(op, 2), w.get(op, 3)
    wanted = otherwise.type
    otherwise = _to_memory(w, otherwise)
    stored = otherwise.type
    pointer = f"ptr align {stored.memory_bytes} {address(w, *op.operands[:2])}"
    loaded = w.push(
        stored,
        f"call {stored.text} @llvm.masked.load.{stored.mangled}.p0"
        f"({pointer}, {mask.typed}, {otherwise.typed})",
    )
    w.set(op, _from_memory(w, loaded, wanted))


def _masked_store(w: Writer, op: Operation) -> None:
    mask, value = w.get(op, 2), _to_memory(w, w.get(op, 3))
    pointer = f"ptr align {value.type.memory_bytes} {address(w, *op.operands[:2])}"
    w.line(
        f"call void @llvm.masked.store.{value.type.mangled}.p0"
        f"({value.typed}, {pointer}, {mask.typed})"
    )


def _gather(w: Writer, op: Operation) -> None:
    """Emit a scalar load for each lane. Each lane has its own index."""
    wanted, distances = type_of(op.results[0].type), w.get(op, 2)
    stored = in_memory(wanted)
    element, pointer = stored.scalar, address(w, *op.operands[:2])
    gathered = LLValue(stored, "poison")
    for lane in range(stored.lanes):
        distance = w.push(I64, f"extractelement {distances.typed}, i64 {lane}")
        at = w.gep(pointer, element.text, distance, "")
        value = w.push(element, f"load {element.text}, ptr {at}, align {element.memory_bytes}")
        gathered = w.push(stored, f"insertelement {gathered.typed}, {value.typed}, i64 {lane}")
    w.set(op, _from_memory(w, gathered, wanted))


def _prefetch(w: Writer, op: Operation) -> None:
    assert isinstance(op, rt.PrefetchOp)
    pointer, write = address(w, *op.operands[:2]), int(op.write is not None)
    locality = 4 - op.level.value.data
    w.line(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 {write}, i32 {locality}, i32 1)")


MEMORY: dict[type[Operation], Handler] = {
    memref.LoadOp: _load,
    memref.StoreOp: _store,
    vector.LoadOp: _load,
    vector.StoreOp: _store,
    vector.MaskedLoadOp: _masked_load,
    vector.MaskedStoreOp: _masked_store,
    rt.GatherOp: _gather,
    rt.PrefetchOp: _prefetch,
}

INDICES = {
    memref.LoadOp.name: 1,
    memref.StoreOp.name: 2,
    vector.LoadOp.name: 1,
    vector.StoreOp.name: 2,
    vector.MaskedLoadOp.name: 1,
    vector.MaskedStoreOp.name: 1,
    rt.GatherOp.name: 1,
    rt.PrefetchOp.name: 1,
}
"""The number of the index among the operands of each access op, by op name."""
