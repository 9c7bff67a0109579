"""Give every value its place, and convert where a kernel wants another one.

    %y = nn.conv %x {places = [#place.at<x86, f32, nhwc>, ...]} : (tensor<..>, ..) -> tensor<..>
    ->
    %1 = place.relayout %x : tensor<.., #place.at<x86, f32, nchw>>
           -> tensor<.., #place.at<x86, f32, nhwc>>
    %y = nn.conv %1 {...} : (tensor<.., #place.at<x86, f32, nhwc>>, ..) -> ...

Inputs and outputs of the program are row-major. A constant is placed where its user wants it: it
costs nothing. Equal conversions of a value are shared.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.graph import weights_of
from tessella.dialects.layout import ANY_LAYOUT, NCHW, pack
from tessella.dialects.nn.constants import ConstantOp, WeightOp
from tessella.dialects.nn.core import NnOp, shape_of, tensor_type
from tessella.dialects.place import (
    CopyOp,
    PlaceAttr,
    RelayoutOp,
    place_of,
    placed,
    precision_of,
)
from tessella.passes.base import functions
from tessella.runtime.weights import WeightStore


@dataclass(frozen=True)
class InsertConversionsPass(ModulePass):
    """Place all values; insert `place.copy` and `place.relayout` where a kernel wants another
    place."""

    name = "insert-conversions"

    target: str = "x86"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            _Function(function, self.target, weights_of(ctx)).run()


class _Function:
    def __init__(self, function: FuncOp, target: str, weights: WeightStore) -> None:
        self.function = function
        self.target = target
        self.weights = weights
        self.converted: dict[tuple[SSAValue, PlaceAttr], SSAValue] = {}

    def run(self) -> None:
        for argument in self.function.body.block.args:
            self._set(argument, self._row_major(argument))
        for op in list(self.function.body.block.ops):
            if isinstance(op, ReturnOp):
                for i, value in enumerate(op.operands):
                    op.operands[i] = self._convert(value, self._row_major(value), op)
            elif isinstance(op, NnOp) and op.places is not None:
                self._place(op, op.places)
        for op in list(self.function.body.block.ops):
            if isinstance(op, ConstantOp) and op.res.first_use is None:
                Rewriter.erase_op(op)
        self.function.update_function_type()

    def _place(self, op: NnOp, wanted: tuple[PlaceAttr, ...]) -> None:
        resolved = list(wanted)
        for i, value in enumerate(op.operands):
            if wanted[i].layout == ANY_LAYOUT:
                place = place_of(value.type)
                layout = place.layout if place is not None else NCHW
                resolved[i] = PlaceAttr.get(wanted[i].target.data, wanted[i].precision.data, layout)
            op.operands[i] = self._convert(value, resolved[i], op)
        for result, place in zip(op.results, wanted[len(op.operands) :], strict=True):
            self._set(result, place)
        op.attributes["places"] = ArrayAttr(resolved)

    def _row_major(self, value: SSAValue) -> PlaceAttr:
        return PlaceAttr.get(self.target, precision_of(tensor_type(value).element_type), NCHW)

    def _set(self, value: SSAValue, place: PlaceAttr) -> None:
        Rewriter.replace_value_with_new_type(value, placed(tensor_type(value), place))

    def _convert(self, value: SSAValue, place: PlaceAttr, user: Operation) -> SSAValue:
        key = (value, place)
        if key in self.converted:
            return self.converted[key]
        start = place_of(value.type)
        if isinstance(value.owner, ConstantOp):
            result = self._constant(value.owner, place)
        elif start is None or start == place:
            return value
        else:
            result = self._chain(value, start, place, user)
        self.converted[key] = result
        return result

    def _constant(self, op: ConstantOp, place: PlaceAttr) -> SSAValue:
        """The constant at a place: a weight's elements are put into the order of the place."""
        shape = shape_of(op.res)
        if not isinstance(op, WeightOp) or place.layout.same_memory(NCHW, shape):
            clone = op.clone()
            Rewriter.insert_op(clone, InsertPoint.before(op))
            self._set(clone.results[0], place)
            return clone.results[0]
        symbol = op.symbol.root_reference.data
        array = self.weights.get(symbol)
        if array is not None:
            moved = pack(array.reshape(shape), place.layout)
            symbol = self.weights.add(f"{symbol}.{place.layout}", moved)
            new = WeightOp(symbol, placed(tensor_type(op.res), place))
            new.res.name_hint = op.res.name_hint
            Rewriter.insert_op(new, InsertPoint.before(op))
            return new.res
        row_major = PlaceAttr.get(place.target.data, place.precision.data, NCHW)
        relayout = RelayoutOp(self._constant(op, row_major), place)
        Rewriter.insert_op(relayout, InsertPoint.before(op))
        return relayout.res

    def _chain(
        self, value: SSAValue, start: PlaceAttr, end: PlaceAttr, user: Operation
    ) -> SSAValue:
        """One conversion for each part of the place that differs; the order in memory changes on
        the native side."""
        middle = PlaceAttr.get(
            end.target.data if start.target.data == "host" else start.target.data,
            start.precision.data,
            start.layout,
        )
        steps = [
            (CopyOp, middle),
            (RelayoutOp, PlaceAttr.get(middle.target.data, middle.precision.data, end.layout)),
            (CopyOp, end),
        ]
        for kind, place in steps:
            if place_of(value.type) != place:
                op = kind(value, place)
                Rewriter.insert_op(op, InsertPoint.before(user))
                value = op.res
        return value
