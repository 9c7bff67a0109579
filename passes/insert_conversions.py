"""Assign a place (device, element type, layout) to every value, and insert conversions where a
kernel requires another place.

    %y = nn.conv %x {places = [#place.at<x86, f32, nhwc>, ...]} : tensor<..>
    ->
    %1 = place.relayout %x : tensor<.., #place.at<x86, f32, nchw>>
           -> tensor<.., #place.at<x86, f32, nhwc>>
    %y = nn.conv %1 {...} : ...

Inputs and outputs of the program are row-major unless their attribute `nn.place` states a place. A
constant gets the place that its user requires, at no cost. Equal conversions of a value are shared,
and inverse conversions cancel: a converted value is converted again from its source, unless the
first conversion rounded it. A cast of the program that loses nothing counts as a conversion.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella import targets
from tessella.dialects.graph import weights_of
from tessella.dialects.layout import IMAGE, NCHW, pack
from tessella.dialects.nn.constants import ConstantOp, SplatOp, WeightOp, weight_array
from tessella.dialects.nn.core import NnOp, dtype_of, shape_of, tensor_type
from tessella.dialects.nn.elementwise import CastOp as ElementwiseCastOp
from tessella.dialects.nn.elementwise import widened_from
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
from tessella.passes.base import (
    functions,
    places_of_arguments,
    places_of_results,
    row_major,
)
from tessella.passes.kinds import ProgramPass
from tessella.runtime.elements import DTYPES, converted, full, widened
from tessella.runtime.weights import WeightStore
from tessella.support.elements import widens
from tessella.support.errors import ShapeError, Unsupported, UnsupportedError

Conversion = CopyOp | CastOp | RelayoutOp


@dataclass(frozen=True)
class InsertConversionsPass(ProgramPass):
    """Assign a place (device, element type, layout) to every value. Insert `place.copy`,
    `place.cast` and `place.relayout` where a kernel requires another place."""

    name = "insert-conversions"
    stages = ("nn", "placed")

    device: str = ""
    """The CPU of values that no kernel places; this machine's if empty."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            _PlacedFunction(function, self.device or targets.native().arch, weights_of(ctx)).run()


class _PlacedFunction:
    def __init__(self, function: FuncOp, device: str, weights: WeightStore) -> None:
        self.function = function
        self.device = device
        self.weights = weights
        self.converted: dict[tuple[SSAValue, PlaceAttr], SSAValue] = {}

    def run(self) -> None:
        returned = places_of_results(self.function, self.device)
        given = places_of_arguments(self.function, self.device)
        for argument, place in zip(self.function.body.block.args, given, strict=True):
            self._set(argument, place)
        for op in list(self.function.body.block.ops):
            if isinstance(op, ReturnOp):
                for i, (value, place) in enumerate(zip(op.operands, returned, strict=True)):
                    op.operands[i] = self._convert(value, self._at(value, place), op)
            elif isinstance(op, NnOp) and op.places is not None:
                self._place(op, op.places)
        _check(self.function)
        for op in reversed(list(self.function.body.block.ops)):
            if not isinstance(op, ConstantOp | Conversion | ElementwiseCastOp):
                continue
            if op.res.first_use is None:
                Rewriter.erase_op(op)
        self.function.update_function_type()

    def _place(self, op: NnOp, wanted: tuple[PlaceAttr, ...]) -> None:
        for i, value in enumerate(op.operands):
            op.operands[i] = self._convert(value, self._at(value, wanted[i]), op)
        op.place_results(wanted[len(op.operands) :])

    def _at(self, value: SSAValue, wanted: PlaceAttr) -> PlaceAttr:
        """Return the place that a reader requires, with each `any` replaced by that part of the
        value's present place."""
        return wanted.resolved(place_of(value.type) or row_major(value, self.device))

    def _set(self, value: SSAValue, place: PlaceAttr) -> None:
        Rewriter.replace_value_with_new_type(value, placed(tensor_type(value), place))

    def _convert(self, value: SSAValue, place: PlaceAttr, user: Operation) -> SSAValue:
        if isinstance(value.owner, ConstantOp):
            if (value, place) not in self.converted:
                self.converted[value, place] = self._constant(value.owner, place)
            return self.converted[value, place]
        return self._chain(_source(value, place), place, InsertPoint.before(user))

    def _chain(self, value: SSAValue, place: PlaceAttr, at: InsertPoint) -> SSAValue:
        """Return the value converted to a place: one op changes the device, one the element type,
        and one the layout, where these differ."""
        start = place_of(value.type)
        for kind, step in conversion_steps(start, place) if start is not None else ():
            if (value, step) not in self.converted:
                op = kind(value, step)
                if isinstance(op, CopyOp) and _is_constant(value):
                    op.once = UnitAttr()
                Rewriter.insert_op(op, at)
                self.converted[value, step] = op.res
            value = self.converted[value, step]
        return value

    def _constant(self, op: ConstantOp, place: PlaceAttr) -> SSAValue:
        """Return the constant at a place.

        If its elements are known and the layout is a memory order, they are converted at compile
        time; otherwise, conversion ops follow the constant.
        """
        at, start = InsertPoint.before(op), place
        if place.layout == IMAGE and isinstance(op, WeightOp):
            start = place.replaced(layout=NCHW)
        if start != PlaceAttr.get(place.device.data, place.precision.data, start.layout):
            # the device copies a constant to fields other than the defaults
            start = PlaceAttr.get(self.device, place.precision.data, start.layout)
        made = self._converted(op, start)
        if made is None:
            start = row_major(op.res, start.device.data)
            made = op.clone()
        made.res.name_hint = op.res.name_hint
        Rewriter.insert_op(made, at)
        self._set(made.res, start)
        return self._chain(made.results[0], place, at)

    def _converted(self, op: ConstantOp, place: PlaceAttr) -> ConstantOp | None:
        """Return the constant in a place's memory order; None if it is unknown."""
        precision, shape = place.precision.data, shape_of(op.res)
        same = precision == precision_of(tensor_type(op.res).element_type)
        if same and (isinstance(op, SplatOp) or place.layout.same_memory(NCHW, shape)):
            return op.clone()
        if isinstance(op, SplatOp):
            return SplatOp(_converted_number(op, precision), placed(tensor_type(op.res), place))
        assert isinstance(op, WeightOp)
        symbol = op.symbol.root_reference.data
        stored = self.weights.get(symbol)
        if stored is None:
            return None
        array = converted(weight_array(op, self.weights), DTYPES[precision])
        name = f"{symbol}.{place.layout}" if same else f"{symbol}.{precision}.{place.layout}"
        moved = pack(array, place.layout)
        return WeightOp(self.weights.add(name, moved), placed(tensor_type(op.res), place))


def _is_constant(value: SSAValue) -> bool:
    """Return whether a value is a constant or a copy of one."""
    owner = value.owner
    return isinstance(owner, ConstantOp) or (isinstance(owner, CopyOp) and owner.once is not None)


def _converted_number(op: SplatOp, precision: str) -> float:
    one = full((), op.number, dtype_of(op.res.type))
    return widened(converted(one, DTYPES[precision])).item()


def _source(value: SSAValue, place: PlaceAttr) -> SSAValue:
    """Return the value that ``value`` should be converted from: if ``value`` is itself a result of
    lossless conversions, the earliest of their operands that is at the place, otherwise the
    earliest of all."""
    same = list(_unrounded(value))
    there = [source for source in same if place_of(source.type) == place]
    return (there or same)[-1]


def _unrounded(value: SSAValue) -> Iterator[SSAValue]:
    """Yield a value, and the values that it is a lossless conversion of."""
    yield value
    later = {precision_of(tensor_type(value).element_type)}
    while (source := _converted_from(value)) is not None:
        value = source
        own = precision_of(tensor_type(value).element_type)
        if all(own == precision or widens(own, precision) for precision in later):
            yield value
        later.add(own)


def _converted_from(value: SSAValue) -> SSAValue | None:
    """Return the source of a conversion, including lossless casts of the program."""
    return value.owner.source if isinstance(value.owner, Conversion) else widened_from(value)


def _check(function: FuncOp) -> None:
    """Raise UnsupportedError for ops whose element types differ from those of their kernels'
    places."""
    issues = [
        Unsupported(op.name, op.node, reason)
        for op in function.body.block.ops
        if isinstance(op, NnOp) and op.places is not None and (reason := _misfit(op))
    ]
    if issues:
        raise UnsupportedError(issues)


def _misfit(op: NnOp) -> str | None:
    """Return why an op's results do not have the element types that follow from its operands; None
    if they have."""
    found = [tensor_type(result).element_type for result in op.results]
    try:
        expected = [type.element_type for type in op.infer()]
    except ShapeError as error:
        return f"the kernel {op.kernel} mixes precisions: {error.what}"
    if expected == found:
        return None
    names = (" and ".join(map(precision_of, elements)) for elements in (found, expected))
    return "the kernel {} gives {} where its operands make it {}".format(op.kernel, *names)
