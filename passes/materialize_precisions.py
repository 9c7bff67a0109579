"""Give tensors the element types that they have in memory, so that casts become ops.

    %1 = place.cast %x : tensor<4xf32, #place.at<x86, f32, nchw>>
           -> tensor<4xf32, #place.at<x86, f64, nchw>>
    %y = nn.log %1 {kernel = "log", ...} : (tensor<4xf32, #place.at<x86, f64, nchw>>) -> ...
    ->
    %1 = nn.cast %x {kernel = "cast", to = f64, ...} : (tensor<4xf32, #place.at<x86, f32, nchw>>)
           -> tensor<4xf64, #place.at<x86, f64, nchw>>
    %y = nn.log %1 {kernel = "log", ...} : (tensor<4xf64, #place.at<x86, f64, nchw>>) -> ...

At the stage `placed` the element type of a tensor is that of the model, and its place says in which
precision it is kept. What comes behind reads element types alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.elements import attribute_of
from tessella.dialects.graph import weights_of
from tessella.dialects.nn import CastOp as ElementCastOp
from tessella.dialects.nn.constants import ConstantOp, SplatOp, WeightOp
from tessella.dialects.nn.core import NnOp, dtype_of, number, tensor_type
from tessella.dialects.place import CastOp, place_of, precision_of
from tessella.kernels.registry import CPU_TARGETS, HOST_KERNEL, generated_limits
from tessella.passes.base import functions
from tessella.passes.kinds import ProgramPass
from tessella.runtime.weights import WeightStore
from tessella.support.errors import ShapeError, Unsupported, UnsupportedError

CAST_KERNEL = "cast"


@dataclass(frozen=True)
class MaterializePrecisionsPass(ProgramPass):
    """Give tensors the element types that they have in memory; make ops of `place.cast`."""

    name = "materialize-precisions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            if any(_retyped(inner) for inner in function.walk()):
                _materialize(function, weights_of(ctx))


def _materialize(function: FuncOp, weights: WeightStore) -> None:
    for op in list(function.walk()):
        changed = _retyped(op)
        if changed and isinstance(op, ConstantOp):
            _convert_constant(op, element_in_memory(op.res), weights)
        for value in changed:
            type = tensor_type(value)
            stored = TensorType(element_in_memory(value), type.get_shape(), type.encoding)
            Rewriter.replace_value_with_new_type(value, stored)
        if isinstance(op, CastOp):
            _convert_cast(op)
    function.update_function_type()
    _check(function)


def element_in_memory(value: SSAValue) -> Attribute:
    """The element type that a tensor has in memory, by its place."""
    place = place_of(value.type)
    if place is None or place.precision.data == "any":
        return _element(value)
    return attribute_of(place.precision.data)


def has_other_elements(value: SSAValue) -> bool:
    """Whether a tensor's elements have another type in memory."""
    return _element(value) != element_in_memory(value)


def _retyped(op: Operation) -> list[SSAValue]:
    """The tensors that an op defines whose elements are others in memory."""
    arguments = (a for region in op.regions for block in region.blocks for a in block.args)
    defined = (*op.results, *arguments)
    return [v for v in defined if isinstance(v.type, TensorType) and has_other_elements(v)]


def _element(value: SSAValue) -> Attribute:
    return tensor_type(value).element_type


def _convert_constant(op: ConstantOp, element: Attribute, weights: WeightStore) -> None:
    """Put the elements of a constant into another type."""
    if isinstance(op, SplatOp):
        dtype = dtype_of(element)
        op.value = number(np.array(op.number).astype(dtype).item(), element)
    elif isinstance(op, WeightOp):
        symbol = op.symbol.root_reference.data
        array = weights.get(symbol)
        if array is not None:
            name = weights.add(symbol, array.astype(dtype_of(element)))
            op.symbol = SymbolRefAttr(name)


def _convert_cast(op: CastOp) -> None:
    """Put the op that converts element by element in the place of a conversion; NumPy's where there
    is no code for such elements."""
    places = (place_of(op.source.type), place_of(op.res.type))
    new = ElementCastOp.make([op.source], node=op.name, to=_element(op.res))
    native = places[1] is not None and places[1].target.data in CPU_TARGETS
    kernel = CAST_KERNEL if native and generated_limits(new) is None else HOST_KERNEL
    new.pick(kernel, [place for place in places if place is not None])
    new.infer_places()
    new.res.name_hint = op.res.name_hint
    Rewriter.insert_op(new, InsertPoint.before(op))
    op.res.replace_all_uses_with(new.res)
    Rewriter.erase_op(op)


def _check(function: FuncOp) -> None:
    """Raise UnsupportedError for ops that the types in memory do not fit."""
    issues = [
        Unsupported(op.name, op.node, reason)
        for op in function.walk()
        if isinstance(op, NnOp) and (reason := _misfit(op))
    ]
    if issues:
        raise UnsupportedError(issues)


def _misfit(op: NnOp) -> str | None:
    """Why an op does not compute from its operands' types what its results have."""
    found = [_element(result) for result in op.results]
    try:
        expected = [type.element_type for type in op.infer()]
    except ShapeError as error:
        return f"the kernel {op.kernel} mixes precisions: {error.what}"
    if expected == found:
        return None
    names = (" and ".join(map(precision_of, elements)) for elements in (found, expected))
    return "the kernel {} gives {} where its operands make it {}".format(op.kernel, *names)
