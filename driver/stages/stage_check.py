"""Checks of stages that were read from text, beyond what verifiers see.

Native code is made from a stage and accesses memory without further checks. An op's verifier sees
the op and the symbols that it names: that calls agree with kernels, segments with launches, buffers
with the arena, and views with memory. It does not see

- the stage of the file, which decides the ops that may be there, and that `@main` is its program;
- the file of weights: that each weight is there, has the size that the text states, and has its own
  slot in the table that segments read;
- whether tensors that no kernel has touched yet have a place in memory, and whether tensors between
  steps have the size that their shape states.

The loops inside kernels are not checked: see ``stage_file``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from tessella.dialects import rt
from tessella.dialects.elements import element_of
from tessella.dialects.graph import PLACE
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.constants import WeightOp
from tessella.dialects.nn.core import Array, NnOp, dtype_of, shape_of, tensor_type
from tessella.dialects.nn.recurrent import ScanOp
from tessella.dialects.place import place_of, verify_place
from tessella.passes.base import buffer_weights
from tessella.runtime.weights import WeightStore
from tessella.support.conditions import always
from tessella.support.sizes import product

STAGE_DIALECTS = {
    "nn": {"builtin", "func", "nn"},
    "placed": {"builtin", "func", "nn", "place", "tile", "arith", "math"},
    "tile": {"builtin", "func", "nn", "place", "rt", "tile", "arith", "math", "scf"},
    "loops": {
        *("builtin", "func", "nn", "place", "rt"),
        *("affine", "arith", "math", "memref", "scf", "vector"),
    },
}
"""The dialects of each stage's ops; where `nn` is allowed, so are ``NnOp``s of plugins."""

_MOST_ELEMENTS = 1 << 59  # the most elements of a tensor in memory that addresses can distinguish


@dataclass(frozen=True)
class Fault:
    """An error in an op."""

    op: Operation
    what: str
    expected: str | None = None
    found: str | None = None
    hint: str | None = None


def faults(stage: str, module: ModuleOp, weights: WeightStore) -> Iterator[Fault]:
    """Yield the errors of a module that verifies, and of its weights."""
    yield from _foreign_ops(stage, module)
    yield from _program(module)
    yield from _memory_orders(module)
    yield from _padded_values(module)
    yield from _weights(module, weights)
    yield from _weight_slots(module)


def _program(module: ModuleOp) -> Iterator[Fault]:
    """Check `@main`: it is the only `func.func` except those that `nn.scan` runs.

    All of them take and return arrays with the element types they state.
    """
    functions = [op for op in module.walk() if isinstance(op, FuncOp)]
    run = {op.body_name for op in module.walk() if isinstance(op, ScanOp)}
    if not any(function.sym_name.data == "main" for function in functions):
        yield Fault(module, "func.func @main is missing")
    for function in functions:
        if function.sym_name.data not in {"main", *run} or not function.body.blocks:
            reason = "is neither @main nor run by an nn.scan, or has no body"
            yield Fault(function, f"@{function.sym_name.data} {reason}")
        else:
            yield from _signature(function)


def _signature(function: FuncOp) -> Iterator[Fault]:
    """Yield a fault for each argument or result of a function that is not stored as its place says,
    or whose attribute states a place."""
    for marks in (*(function.arg_attrs or ()), *(function.res_attrs or ())):
        if PLACE in marks.data:
            yield Fault(function, f"{PLACE} is for calls of single ops, not for files")
    last = function.body.block.last_op
    for value in (*function.body.block.args, *(last.operands if last is not None else ())):
        try:
            verify_place(value.type)
        except VerifyException as error:
            yield Fault(function, str(error))


def _foreign_ops(stage: str, module: ModuleOp) -> Iterator[Fault]:
    allowed = STAGE_DIALECTS[stage]
    for op in module.walk():
        if op.dialect_name() not in allowed and not isinstance(op, NnOp):
            yield Fault(
                op,
                f"{op.name} does not belong into the stage {stage!r}",
                expected=f"ops of {', '.join(sorted(allowed))}",
            )


def _memory_orders(module: ModuleOp) -> Iterator[Fault]:
    """Check that every tensor has a memory order that gives each element its own address."""
    for op in module.walk():
        arguments = (block.args for region in op.regions for block in region.blocks)
        for value in (*op.results, *chain.from_iterable(arguments)):
            place = place_of(value.type)
            if place is None:
                continue
            shape, layout = shape_of(value), place.layout
            if not layout.is_order(len(shape)) or always(layout.size(shape) > _MOST_ELEMENTS):
                expected = "a layout that spells the index of each dimension, and a sensible size"
                yield Fault(
                    op, "a layout is not a memory order of its tensor", expected, str(value.type)
                )


def _padded_values(module: ModuleOp) -> Iterator[Fault]:
    """Check that no value between program steps has padding, so that users exchange arrays of the
    shapes that the program states."""
    for op in module.walk():
        if isinstance(op, rt.LaunchOp):
            for value in (*op.arguments, *op.res):
                if rt.memory_shape(value) != shape_of(value):
                    yield Fault(op, "a value between steps has padding", found=str(value.type))


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
        elements = dtype_of(type.element_type), type.element_count()
        return elements == (array.dtype, array.size)
    tensor = tensor_type(type)
    place, shape = place_of(tensor), shape_of(tensor)
    shapes = [shape] if place is None or place.layout == NCHW else []
    if place is not None:
        shapes.append((place.layout.size(shape),))
    element = element_of(tensor)
    if element.kind == "string":  # the strings are checked when they are decoded
        return array.dtype == np.uint8 and array.ndim == 1
    if element.bits < 8:
        size = element.bytes(product(shapes[-1]))
        return array.dtype.name == element.dtype and array.shape == (size,)
    return dtype_of(tensor) == array.dtype and array.shape in shapes


def _weight_slots(module: ModuleOp) -> Iterator[Fault]:
    """Check that weights have the slots 0, 1, .. in the order in which segments first name them."""
    slots: dict[str, int] = {}
    for op in buffer_weights(module):
        expected = slots.setdefault(op.weight_name, len(slots))
        found = None if op.slot is None else op.slot.value.data
        if found != expected:
            yield Fault(
                op,
                f"the weight @{op.weight_name} is in the wrong slot",
                expected=f"slot {expected}",
                found=f"{found}",
            )
