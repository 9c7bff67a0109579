"""Segments: straight lines that call kernels on weights, the arena, and the call's arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp, SymbolRefAttr
from xdsl.ir import Attribute, Operation, SSAValue

from tessella.codegen.lltypes import I64, constant, quote, type_of
from tessella.codegen.writer import Handler, Writer
from tessella.dialects import rt
from tessella.support.errors import InternalError

SEGMENT_PARAMETERS = (
    "ptr noundef %context, ptr noundef %inputs, ptr noundef %outputs, "
    f"ptr noundef align {rt.ARENA_ALIGNMENT} %weights, "
    f"ptr noundef align {rt.ARENA_ALIGNMENT} %arena, i64 %thread, i64 %threads"
)
INPUTS = "rt.inputs"


def memref_bytes(type_: Attribute) -> int:
    """Bytes that a buffer of a static memref type takes."""
    if not isinstance(type_, MemRefType):
        raise InternalError(f"expected a memref, found {type_}")
    shape = type_.get_shape()
    if any(size < 0 for size in shape):
        raise InternalError(f"expected a memref of static size, found {type_}")
    return prod(shape) * type_of(type_.element_type).memory_bytes


def weight_offsets(module: ModuleOp) -> dict[str, int]:
    """Where each weight lies, in bytes from the start: in the order of first use, aligned to 64."""
    offsets: dict[str, int] = {}
    end = 0
    for op in module.walk():
        if isinstance(op, rt.WeightOp) and op.symbol.root_reference.data not in offsets:
            offsets[op.symbol.root_reference.data] = end
            size = memref_bytes(op.res.type)
            end += -(-size // rt.ARENA_ALIGNMENT) * rt.ARENA_ALIGNMENT
    return offsets


@dataclass
class SegmentWriter(Writer):
    """A writer that knows where the weights lie, in bytes from the segment's weights pointer."""

    weights: Mapping[str, int] = field(default_factory=dict[str, int])


def bind_segment(w: SegmentWriter, function: func.FuncOp) -> None:
    """Load the pointers of the segment's arguments; make room for the calls' arrays of buffers."""
    inputs = function.attributes.get(INPUTS)
    if not isinstance(inputs, IntegerAttr):
        raise InternalError(f"segment {function.sym_name.data} does not say its {INPUTS}")
    count = inputs.value.data
    calls = [len(op.operands) for op in function.body.block.ops if isinstance(op, func.CallOp)]
    if calls:
        w.line(f"%buffers = alloca [{max(calls) + 1} x ptr], align 8")
        w.line("store ptr %context, ptr %buffers, align 8")
    for index, argument in enumerate(function.body.block.args):
        array, slot = ("%inputs", index) if index < count else ("%outputs", index - count)
        address = w.gep(array, "ptr", constant(I64, slot))
        w.buffers[argument] = pointer = w.name()
        w.line(f"{pointer} = load ptr, ptr {address}, align 8")


def _offset(w: Writer, result: SSAValue, base: str, offset: int) -> None:
    w.buffers[result] = w.gep(base, "i8", constant(I64, offset))


def _arena(w: Writer, op: Operation) -> None:
    assert isinstance(op, rt.ArenaOp)
    _offset(w, op.res, "%arena", op.offset.value.data)


def _weight(w: Writer, op: Operation) -> None:
    assert isinstance(op, rt.WeightOp)
    assert isinstance(w, SegmentWriter)
    symbol = op.symbol.root_reference.data
    if symbol not in w.weights:
        raise InternalError(f"nobody says where weight {symbol!r} lies", where=str(op))
    _offset(w, op.res, "%weights", w.weights[symbol])


def _call(w: Writer, op: Operation) -> None:
    callee = op.properties["callee"]
    assert isinstance(callee, SymbolRefAttr)
    name = quote(callee.root_reference.data)
    for index in range(len(op.operands)):
        slot = w.gep("%buffers", "ptr", constant(I64, index + 1))
        w.line(f"store ptr {w.buffer(op, index)}, ptr {slot}, align 8")
    w.line(f"call void @{name}(ptr %buffers, i64 %thread, i64 %threads)")
    w.helpers[name] = f"declare void @{name}(ptr, i64, i64) nounwind"


def _copy(w: Writer, op: Operation) -> None:
    source, destination = w.buffer(op, 0), w.buffer(op, 1)
    size = memref_bytes(op.operands[0].type)
    if size != memref_bytes(op.operands[1].type):
        raise InternalError("memref.copy between buffers of different sizes", where=str(op))
    w.line(
        f"call void @llvm.memcpy.p0.p0.i64(ptr {destination}, ptr {source}, i64 {size}, i1 false)"
    )


def _return(w: Writer, op: Operation) -> None:
    """Nothing: the function around the walk returns."""


SEGMENT: dict[type[Operation], Handler] = {
    rt.ArenaOp: _arena,
    rt.WeightOp: _weight,
    func.CallOp: _call,
    memref.CopyOp: _copy,
    func.ReturnOp: _return,
}
