"""What a stage that was read from text must hold, beyond what its ops verify of themselves.

Native code is made from a stage and reads and writes memory without further checks. So all that
the IR states about the memory around kernels is checked here: weights, arena, and the buffers that
are handed to segments and kernels. What the loops of a kernel do inside is not: see ``stage_file``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from xdsl.dialects import memref
from xdsl.dialects.builtin import (
    IntegerAttr,
    MemRefType,
    ModuleOp,
    NoneAttr,
    i64,
)
from xdsl.dialects.func import CallOp as FuncCallOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from tessella.dialects import rt
from tessella.dialects.elements import bytes_of, element_of
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.constants import WeightOp
from tessella.dialects.nn.core import Array, NnOp, dtype_of, shape_of, tensor_type
from tessella.dialects.place import place_of, verify_place
from tessella.dialects.tile import CallOp, KernelOp
from tessella.lowering.tile_to_loops import INPUTS, KERNEL
from tessella.passes.outline_segments import SEGMENT
from tessella.passes.plan_arena import ARENA_BYTES
from tessella.runtime.weights import WeightStore

STAGE_DIALECTS = {
    "nn": {"builtin", "func", "nn"},
    "placed": {"builtin", "func", "nn", "place", "tile", "arith", "math"},
    "tile": {"builtin", "func", "nn", "place", "rt", "tile", "arith", "math", "scf"},
    "loops": {
        *("builtin", "func", "nn", "place", "rt"),
        *("affine", "arith", "math", "memref", "scf", "vector"),
    },
}
"""The dialects whose ops a stage may hold; where `nn` is, so are the ``NnOp``s of plugins."""

_MOST_ELEMENTS = 1 << 59  # in memory: what addresses can tell apart


@dataclass(frozen=True)
class Fault:
    """Something wrong with an op."""

    op: Operation
    what: str
    expected: str | None = None
    found: str | None = None
    hint: str | None = None


def faults(stage: str, module: ModuleOp, weights: WeightStore) -> Iterator[Fault]:
    """What is wrong with a module that verifies."""
    yield from _foreign_ops(stage, module)
    yield from _order(module, set())
    yield from _memory_orders(module)
    yield from _weights(module, weights)
    functions, repeated = _functions(module)
    yield from repeated
    for kind, check in _CHECKS.items():
        for op in module.walk():
            if isinstance(op, kind):
                yield from check(op, functions)


Function = FuncOp | KernelOp
Functions = dict[str, Function]


def _functions(module: ModuleOp) -> tuple[Functions, list[Fault]]:
    known: Functions = {}
    repeated: list[Fault] = []
    for op in module.body.block.ops:
        if isinstance(op, Function):
            name = op.sym_name.data
            if name in known:
                repeated.append(Fault(op, f"two functions are called @{name}"))
            known[name] = op
    if not isinstance(known.get("main"), FuncOp):
        repeated.append(Fault(module, "there is no func.func @main"))
    return known, repeated


def _foreign_ops(stage: str, module: ModuleOp) -> Iterator[Fault]:
    allowed = STAGE_DIALECTS[stage]
    for op in module.walk():
        if op.dialect_name() not in allowed and not isinstance(op, NnOp):
            yield Fault(
                op,
                f"{op.name} does not belong into the stage {stage!r}",
                expected=f"ops of {', '.join(sorted(allowed))}",
            )


def _order(op: Operation, defined: set[SSAValue]) -> Iterator[Fault]:
    """Every value is defined above its uses and around them: xDSL's parser and verifier let others
    pass."""
    if not defined.issuperset(op.operands):
        yield Fault(op, f"an operand of {op.name} is not defined above it")
    for region in op.regions:
        inner: set[SSAValue] = set()
        for block in region.blocks:
            inner.update(block.args, *(child.results for child in block.ops))
            defined.update(block.args)
            for child in block.ops:
                yield from _order(child, defined)
        defined -= inner
    defined.update(op.results)


def _memory_orders(module: ModuleOp) -> Iterator[Fault]:
    """Every tensor has a memory order in which its elements do not lie over one another."""
    for op in module.walk():
        arguments = (block.args for region in op.regions for block in region.blocks)
        for value in (*op.results, *chain.from_iterable(arguments)):
            place = place_of(value.type)
            if place is None:
                continue
            shape = shape_of(value)
            if not place.layout.is_order(len(shape)) or place.layout.size(shape) > _MOST_ELEMENTS:
                expected = "a layout that spells the index of each dimension, and a sensible size"
                yield Fault(
                    op, "a layout is no memory order of its tensor", expected, str(value.type)
                )


def _weights(module: ModuleOp, weights: WeightStore) -> Iterator[Fault]:
    for op in module.walk():
        if not isinstance(op, WeightOp | rt.WeightOp):
            continue
        symbol = op.symbol.root_reference.data
        array = weights.get(symbol)
        if array is None:
            yield Fault(
                op,
                f"the weight @{symbol} is not in the file of weights",
                hint="take the two files that were written together",
            )
        elif not _fits(op, array):
            yield Fault(
                op,
                f"the weight @{symbol} does not fit its type",
                expected=str(op.res.type),
                found=f"{array.dtype} {list(array.shape)}",
            )


def _fits(op: WeightOp | rt.WeightOp, array: Array) -> bool:
    type = op.res.type
    if isinstance(type, MemRefType):
        return (
            _is_flat(type)
            and dtype_of(type.element_type) == array.dtype
            and type.element_count() == array.size
        )
    tensor = tensor_type(type)
    place, shape = place_of(tensor), shape_of(tensor)
    shapes = [shape] if place is None or place.layout == NCHW else []
    if place is not None:
        shapes.append((place.layout.size(shape),))
    if (element := element_of(tensor)).bits < 8:
        return array.dtype.name == element.dtype and array.shape == (element.bytes(shapes[-1][0]),)
    return dtype_of(tensor) == array.dtype and array.shape in shapes


def _is_flat(type: Attribute) -> bool:
    """Whether a type is what buffers are: one dimension, of known size, without gaps."""
    return (
        isinstance(type, MemRefType)
        and len(type.get_shape()) == 1
        and type.element_count() >= 0
        and isinstance(type.layout, NoneAttr)
    )


def _bytes(type: Attribute) -> int:
    """Bytes of a flat buffer."""
    assert isinstance(type, MemRefType)
    return bytes_of(type)


def _tile_call(op: CallOp, functions: Functions) -> Iterator[Fault]:
    callee = functions.get(op.kernel_name)
    if not isinstance(callee, KernelOp):
        yield Fault(op, f"there is no tile.kernel @{op.kernel_name}")
    else:
        yield from _same_types(op, callee, [*op.arguments, *op.res])


def _same_types(op: Operation, callee: Function, values: Sequence[SSAValue]) -> Iterator[Fault]:
    """A call passes what the callee takes and returns, in that order."""
    expected = [*callee.function_type.inputs, *callee.function_type.outputs]
    found = [value.type for value in values]
    if expected != found:
        yield Fault(
            op,
            f"the types of a call differ from those of @{callee.sym_name.data}",
            expected=_listed(expected),
            found=_listed(found),
        )


def _listed(types: Sequence[Attribute]) -> str:
    return ", ".join(map(str, types)) or "none"


def _launch(op: rt.LaunchOp, functions: Functions) -> Iterator[Fault]:
    name = op.callee.root_reference.data
    callee = functions.get(name)
    if not isinstance(callee, FuncOp) or SEGMENT not in callee.attributes:
        yield Fault(op, f"there is no segment @{name}")
        return
    values = [*op.arguments, *op.res]
    yield from _plain_values(op, values)
    if INPUTS not in callee.attributes:
        yield from _same_types(op, callee, values)
        return
    buffers = callee.function_type.inputs.data
    needed = [(tensor_type(v).element_type, math.prod(shape_of(v))) for v in values]
    given = [(t.element_type, t.element_count()) for t in buffers if isinstance(t, MemRefType)]
    if needed != given or len(given) != len(buffers) or _inputs(callee) != len(op.arguments):
        yield Fault(
            op,
            f"the tensors of a launch do not fit the buffers of @{name}",
            expected=f"{_listed(buffers)}, the first {_inputs(callee)} of them inputs",
            found=f"{_listed([v.type for v in op.arguments])} -> {_listed(op.res.types)}",
        )


def _plain_values(op: rt.LaunchOp, values: Sequence[SSAValue]) -> Iterator[Fault]:
    """Values between steps are arrays of their own shape, without padding."""
    for value in values:
        place, shape = place_of(value.type), shape_of(value)
        if place is not None and place.layout.size(shape) != math.prod(shape):
            yield Fault(op, "a value between steps has padding", found=str(value.type))


def _inputs(segment: FuncOp) -> int:
    count = segment.attributes.get(INPUTS)
    return count.value.data if isinstance(count, IntegerAttr) else -1


def _kernel_call(op: FuncCallOp, functions: Functions) -> Iterator[Fault]:
    name = op.callee.root_reference.data
    callee = functions.get(name)
    if not isinstance(callee, FuncOp) or KERNEL not in callee.attributes:
        yield Fault(op, f"there is no kernel @{name}")
    else:
        yield from _same_types(op, callee, [*op.operands, *op.results])


def _function(op: FuncOp, _: Functions) -> Iterator[Fault]:
    marks = [mark for mark in (KERNEL, SEGMENT) if mark in op.attributes]
    if not op.body.blocks:
        yield Fault(op, f"@{op.sym_name.data} has no body")
    elif marks == [KERNEL] or (marks == [SEGMENT] and INPUTS in op.attributes):
        yield from _buffers(op)
    elif marks != ([] if op.sym_name.data == "main" else [SEGMENT]):
        yield Fault(
            op,
            f"@{op.sym_name.data} is neither a kernel nor a segment, or both",
            expected=f"the attribute {KERNEL} or {SEGMENT}, and none on @main",
        )
    elif not marks:
        yield from _signature(op)


def _signature(main: FuncOp) -> Iterator[Fault]:
    """What the program takes and gives is stored as its place says."""
    last = main.body.block.last_op
    for value in (*main.body.block.args, *(last.operands if last is not None else ())):
        try:
            verify_place(value.type)
        except VerifyException as error:
            yield Fault(main, str(error))


def _buffers(op: FuncOp) -> Iterator[Fault]:
    """A kernel or segment takes buffers; a segment's arena holds what is put there."""
    types = op.function_type.inputs
    if not all(_is_flat(type) for type in types) or len(op.function_type.outputs):
        yield Fault(
            op,
            f"@{op.sym_name.data} does not take buffers and return nothing",
            expected="one-dimensional memrefs of known size",
            found=str(op.function_type),
        )
    attribute = op.attributes.get(ARENA_BYTES)
    size = attribute.value.data if isinstance(attribute, IntegerAttr) else 0
    if size < 0:
        yield Fault(op, "the size of the arena is negative", found=str(size))
    for inner in op.walk():
        if not isinstance(inner, rt.ArenaOp):
            continue
        end = inner.offset.value.data + _bytes(inner.res.type)
        if not _is_flat(inner.res.type) or end > size:
            yield Fault(
                inner,
                "a buffer reaches out of the arena",
                expected=f"an end of at most {size} bytes ({ARENA_BYTES})",
                found=f"{inner.res.type} at {inner.offset.value.data}, which ends at {end}",
            )


def _copy(op: memref.CopyOp, _: Functions) -> Iterator[Fault]:
    source, destination = op.source.type, op.destination.type
    if source != destination:
        yield Fault(op, "a copy between buffers of different types", f"{source}", f"{destination}")


def _context(op: rt.ContextOp, _: Functions) -> Iterator[Fault]:
    wanted = MemRefType(i64, [rt.CONTEXT_SLOTS])
    if op.res.type != wanted:
        yield Fault(op, "the context has another type", str(wanted), str(op.res.type))


_CHECKS: dict[type[Operation], Callable[[Any, Functions], Iterator[Fault]]] = {
    FuncOp: _function,
    CallOp: _tile_call,
    rt.LaunchOp: _launch,
    FuncCallOp: _kernel_call,
    memref.CopyOp: _copy,
    rt.ContextOp: _context,
}
