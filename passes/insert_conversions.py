"""Give every value its place, and convert where a kernel wants another one.

    %y = nn.conv %x {places = [#place.at<x86, f32, nhwc>, ...]} : (tensor<..>, ..) -> tensor<..>
    ->
    %1 = place.relayout %x : tensor<.., #place.at<x86, f32, nchw>>
           -> tensor<.., #place.at<x86, f32, nhwc>>
    %y = nn.conv %1 {...} : (tensor<.., #place.at<x86, f32, nhwc>>, ..) -> ...

Inputs and outputs of the program are row-major. A constant is placed where its user wants it: it
costs nothing. Equal conversions of a value are shared, and inverse ones cancel: what was converted
is converted again from where it came from, unless its precision changed on the way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.graph import weights_of
from tessella.dialects.layout import IMAGE, NCHW, pack
from tessella.dialects.nn.constants import ConstantOp, SplatOp, WeightOp
from tessella.dialects.nn.core import NnOp, shape_of, tensor_type
from tessella.dialects.place import (
    CastOp,
    CopyOp,
    PlaceAttr,
    RelayoutOp,
    conversion_steps,
    place_of,
    placed,
    precision_of,
)
from tessella.passes.base import functions
from tessella.runtime.weights import WeightStore

Conversion = CopyOp | CastOp | RelayoutOp
_DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


@dataclass(frozen=True)
class InsertConversionsPass(ModulePass):
    """Place all values; insert `place.copy`, `place.cast` and `place.relayout` where a kernel wants
    another place."""

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
        for op in reversed(list(self.function.body.block.ops)):
            if isinstance(op, ConstantOp | Conversion) and op.res.first_use is None:
                Rewriter.erase_op(op)
        self.function.update_function_type()

    def _place(self, op: NnOp, wanted: tuple[PlaceAttr, ...]) -> None:
        resolved = list(wanted)
        for i, value in enumerate(op.operands):
            resolved[i] = wanted[i].resolved(place_of(value.type) or self._row_major(value))
            op.operands[i] = self._convert(value, resolved[i], op)
        op.attributes["places"] = ArrayAttr(resolved)
        op.infer_places()

    def _row_major(self, value: SSAValue, target: str | None = None) -> PlaceAttr:
        precision = precision_of(tensor_type(value).element_type)
        return PlaceAttr.get(target or self.target, precision, NCHW)

    def _set(self, value: SSAValue, place: PlaceAttr) -> None:
        Rewriter.replace_value_with_new_type(value, placed(tensor_type(value), place))

    def _convert(self, value: SSAValue, place: PlaceAttr, user: Operation) -> SSAValue:
        if isinstance(value.owner, ConstantOp):
            if (value, place) not in self.converted:
                self.converted[value, place] = self._constant(value.owner, place)
            return self.converted[value, place]
        return self._chain(_source(value, place), place, InsertPoint.before(user))

    def _chain(self, value: SSAValue, place: PlaceAttr, at: InsertPoint) -> SSAValue:
        """The value at a place: a conversion for each part that differs, if it is not there yet."""
        start = place_of(value.type)
        for kind, step in conversion_steps(start, place) if start is not None else ():
            if (value, step) not in self.converted:
                op = kind(value, step)
                Rewriter.insert_op(op, at)
                self.converted[value, step] = op.res
            value = self.converted[value, step]
        return value

    def _constant(self, op: ConstantOp, place: PlaceAttr) -> SSAValue:
        """The constant at a place: a weight's elements are put into the precision and order of the
        place, where they are at hand and that is a matter of memory."""
        at, shape = InsertPoint.before(op), shape_of(op.res)
        stored = self._row_major(op.res, place.target.data)
        rounded = _DTYPES.get(place.precision.data)
        same = place.precision == stored.precision
        if same and (isinstance(op, SplatOp) or place.layout.same_memory(NCHW, shape)):
            clone = op.clone()
            Rewriter.insert_op(clone, at)
            self._set(clone.results[0], place)
            return clone.results[0]
        if place.layout == IMAGE:
            row_major = PlaceAttr.get(place.target.data, place.precision.data, NCHW)
            return self._chain(self._constant(op, row_major), place, at)
        symbol = op.symbol.root_reference.data if isinstance(op, WeightOp) else ""
        array = self.weights.get(symbol)
        if array is None or not (same or rounded):
            return self._chain(self._constant(op, stored), place, at)
        if not same:
            array = array.astype(rounded).astype(array.dtype)
            symbol = f"{symbol}.{place.precision.data}"
        moved = pack(array.reshape(shape), place.layout)
        new = WeightOp(
            self.weights.add(f"{symbol}.{place.layout}", moved),
            placed(tensor_type(op.res), place),
        )
        new.res.name_hint = op.res.name_hint
        Rewriter.insert_op(new, at)
        return new.res


def _source(value: SSAValue, place: PlaceAttr) -> SSAValue:
    """Where to convert a value to a place from: the first that it is a conversion of and that is at
    the place, or else the very first; as far back as nothing was lost."""
    source, there = value, value if place_of(value.type) == place else None
    while isinstance(source.owner, CopyOp | RelayoutOp):
        source = source.owner.source
        if place_of(source.type) == place:
            there = source
    return there or source
