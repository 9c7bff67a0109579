"""Rewrites of nodes of old op sets to the newest form, which is the only form that converters
support.

    Squeeze-1 (x) {axes = [0]}  ->  Squeeze-13 (x, [0])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.cut import CutError
from tessella.frontends.onnx.held import Held
from tessella.frontends.onnx.ops.normalization import check_groups
from tessella.frontends.onnx.registry import Converter, Results
from tessella.support.decisions import decided_zero
from tessella.support.errors import ShapeError

Rewrite = Callable[[Call], Call]
Finish = Callable[[Call, Value], Value]


@dataclass(frozen=True)
class Upgrade:
    """The rewrite of nodes of versions below ``before`` to the form of version ``before``."""

    before: int
    rewrite: Rewrite
    finish: dict[int, Finish] | None = None
    """Functions that convert results, by the index of the result; each also takes the node before
    the rewrite."""


def convert(call: Call, version: int, converter: Converter) -> Results:
    """Return the results of a node of version ``version``, by upgrading it and applying the
    converter of the newest form."""
    done: list[tuple[Upgrade, Call]] = []
    for upgrade in (*_OF_ALL, *_UPGRADES.get(call.node.op, ())):
        if version < upgrade.before:
            done.append((upgrade, call))
            call = upgrade.rewrite(call)
    try:
        results = converter(call)
    except CutError as error:
        if error.node is call.node and error.find is not None:
            call.check_read()
        raise
    call.check_read()
    for upgrade, old in reversed(done):
        if upgrade.finish:
            results = _finished(upgrade.finish, old, results)
    return results


def _finished(finish: dict[int, Finish], old: Call, results: Results) -> Results:
    every = [results] if isinstance(results, Value | Held) else [*results]
    for index, change in finish.items():
        value = every[index]
        if isinstance(value, Value):
            every[index] = change(old, value)
    return every


# ** attributes that became inputs **


def _dropped(*names: str) -> Rewrite:
    """Return a rewrite that drops attributes which have no effect, or which request the only
    current behaviour."""

    def rewrite(call: Call) -> Call:
        given = [name for name in names if name in call.node.attributes]
        return call.replaced(**dict.fromkeys(given)) if given else call

    return rewrite


def _integers(**inputs: int) -> Rewrite:
    """Return a rewrite that turns attributes with integers into inputs at these indices."""

    def rewrite(call: Call) -> Call:
        found = {index: call.attribute(name) for name, index in inputs.items()}
        values = {i: _constant(call, v) for i, v in found.items() if v is not None}
        return call.replaced(values, **dict.fromkeys(inputs))

    return rewrite


def _numbers(**inputs: int) -> Rewrite:
    """Return a rewrite that turns attributes with a number into inputs at these indices, with the
    element type of the first input."""

    def rewrite(call: Call) -> Call:
        found = {index: call.attribute(name) for name, index in inputs.items()}
        values = {i: call.x.like(float(v)) for i, v in found.items() if v is not None}
        return call.replaced(values, **dict.fromkeys(inputs))

    return rewrite


def _constant(call: Call, value: int | Sequence[int], dtype: npt.DTypeLike = np.int64) -> Value:
    return call.constant(np.array(value, dtype))


def _corner_pixels(call: Call) -> Call:
    return call.replaced(coordinate_transformation_mode="output_half_pixel")


def _pads(call: Call) -> Call:
    return call.replaced(pads=call.integers("paddings"), paddings=None)


def _tile(call: Call) -> Call:
    """Rewrite a Tile that has a number of copies and an axis to one with the number of copies along
    each axis."""
    rank = call.x.rank
    count, axis = (int(call.static_number(i, name)) for i, name in ((1, "tiles"), (2, "axis")))
    axis = front_axis(axis, rank)
    repeats = _constant(call, [count if d == axis else 1 for d in range(rank)])
    return call.replaced({1: repeats, 2: None})


def _equal_parts(call: Call) -> Call:
    """Rewrite a Split without sizes to one into equal parts. Raises ShapeError if they are not
    equal."""
    if call.optional(1) is not None:
        return call
    size, count = call.x.shape[call.axis(call.x, default=0)], len(call.node.outputs)
    if not decided_zero(size % count):
        raise ShapeError("a dimension does not split into equal parts", found=f"{size} by {count}")
    return call.replaced({1: call.build.sizes([size // count] * count)})


# ** broadcasting **


def _broadcast(call: Call) -> Call:
    """Rewrite an op with the attribute ``broadcast``: the right operand is aligned to the left one
    at the attribute ``axis``, if given."""
    lhs, rhs = call.operand(0), call.operand(1)
    if not call.flag("broadcast"):
        if lhs.shape != rhs.shape:
            raise ShapeError(
                "shapes differ and the attribute broadcast is not set",
                expected=str(lhs.shape),
                found=str(rhs.shape),
            )
    elif call.attribute("axis") is not None:
        after = lhs.rank - call.axis(lhs) - rhs.rank
        if after < 0:
            axis = str(call.axis(lhs))
            raise ShapeError("the right operand does not fit at the attribute axis", found=axis)
        rhs = rhs.reshape((*rhs.shape, *[1] * after))
    return call.replaced({1: rhs}, broadcast=None, axis=None)


def _slope_of_channels(call: Call) -> Call:
    x, slope = call.x, call.operand(1)
    if slope.rank != 1 or slope.shape == (1,) or x.rank < 2:
        return call
    return call.replaced({1: slope.reshape((*slope.shape, *[1] * (x.rank - 2)))})


def _parameters_of_groups(call: Call) -> Call:
    """Rewrite a GroupNormalization with a scale and a bias for each group to one with a scale and a
    bias for each channel."""
    x, groups = call.x, call.integer("num_groups")
    check_groups(x, groups)
    each = (groups, x.shape[1] // groups)
    columns = {i: call.operand(i).reshape((groups, 1)) for i in (1, 2)}
    return call.replaced({i: v.expand(each).reshape(x.shape[1:2]) for i, v in columns.items()})


# ** axes **


def _flat(call: Call) -> Call:
    """Rewrite an op along all dimensions from ``axis`` on, together, to an op along the second axis
    of a matrix."""
    x, axis = call.x, call.integer("axis")
    # here the axis may be one past the last
    axis = axis if axis == x.rank else front_axis(axis, x.rank)
    if math.prod(x.shape[axis + 1 :]) == 1 and axis < x.rank:
        return call.replaced(axis=axis)
    matrix = x.reshape((math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
    return call.replaced({0: matrix}, axis=1)


def _reshaped(old: Call, value: Value) -> Value:
    return value.reshape(old.x.shape)


def _second_axis(call: Call) -> Call:
    return call.replaced(axis=call.integer("axis", 1))


# ** Resize **


def _scales_of_image(call: Call) -> Call:
    """Rewrite an Upsample with scales of height and width to one with a scale for each
    dimension."""
    image = (call.number("height_scale"), call.number("width_scale"))
    scales = (1.0,) * (call.x.rank - 2) + image
    return call.replaced(scales=scales, height_scale=None, width_scale=None)


def _scales(call: Call) -> Call:
    scales = np.array(call.numbers("scales") or (), np.float64)
    return call.replaced({1: call.constant(scales)}, scales=None)


def _as_resize(call: Call, rounding: str) -> Call:
    mode = call.choice("mode", "nearest", "linear", "bilinear").removeprefix("bi")
    return call.replaced(
        {1: None, 2: call.operand(1)},
        mode=mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode=rounding,
    )


def _first_resize(call: Call) -> Call:
    scales = call.static(1, "scales")
    shrinks = bool((scales < 1).any())
    if shrinks and (scales > 1).any() and call.text("mode") == "nearest":
        call.unsupported("growing and shrinking at once, in version 10")
    return _as_resize(call, "ceil" if shrinks else "floor")


# ** training **


def _mask(old: Call, value: Value) -> Value:
    """Return the mask of a Dropout in the element type of the data, as old versions have it."""
    return value.cast(old.x.dtype)


def _tested(call: Call) -> Call:
    if not call.flag("is_test"):
        call.unsupported("training mode (is_test=0)")
    return call.replaced(is_test=None)


def _statistics_of_elements(call: Call) -> Call:
    """Rewrite a BatchNormalization without ``spatial``, in which each element of an image has its
    own statistics: each element becomes a channel."""
    if call.flag("spatial", True) or call.x.rank < 3:
        return call.replaced(spatial=None)
    count = math.prod(call.x.shape[1:])
    inputs = {i: call.operand(i).reshape((count,)) for i in range(1, 5)}
    inputs[0] = call.x.reshape((call.x.shape[0], count))
    return call.replaced(inputs, spatial=None)


# ** the table **


def _each(names: str, *upgrades: Upgrade) -> Iterable[tuple[str, tuple[Upgrade, ...]]]:
    return ((name, upgrades) for name in names.split())


_OF_ALL = (Upgrade(6, _dropped("consumed_inputs")),)

_AXES = _integers(axes=1)

_UPGRADES = dict(
    (
        *_each("Add And Div Equal Greater Less Mul Or Pow Sub Xor", Upgrade(7, _broadcast)),
        *_each(
            "BatchNormalization",
            Upgrade(7, _tested),
            Upgrade(9, _statistics_of_elements, {0: _reshaped}),
        ),
        *_each("Clip", Upgrade(11, _numbers(min=1, max=2))),
        *_each("Concat", Upgrade(4, _second_axis)),
        *_each("DFT", Upgrade(20, _integers(axis=2))),
        *_each(
            "Dropout",
            Upgrade(7, _tested),
            Upgrade(10, lambda call: call, {1: _mask}),
            Upgrade(12, _numbers(ratio=1)),
        ),
        *_each("Gemm", Upgrade(7, _dropped("broadcast"))),
        *_each("GroupNormalization", Upgrade(21, _parameters_of_groups)),
        *_each("Hardmax LogSoftmax Softmax", Upgrade(13, _flat, {0: _reshaped})),
        *_each("PRelu", Upgrade(7, _slope_of_channels)),
        *_each(
            "Pad", Upgrade(2, _pads), Upgrade(11, _integers(pads=1)), Upgrade(11, _numbers(value=2))
        ),
        *_each("RoiAlign", Upgrade(16, _corner_pixels)),
        *_each("ReduceSum Squeeze Unsqueeze", Upgrade(13, _AXES)),
        *_each(
            "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin "
            "ReduceProd ReduceSumSquare",
            Upgrade(18, _AXES),
        ),
        *_each("Reshape", Upgrade(5, _integers(shape=1))),
        *_each("Resize", Upgrade(11, _first_resize)),
        *_each("Slice", Upgrade(10, _integers(starts=1, ends=2, axes=3))),
        *_each("Split", Upgrade(13, _integers(split=1)), Upgrade(18, _equal_parts)),
        *_each("Tile", Upgrade(6, _tile)),
        *_each("TopK", Upgrade(10, _integers(k=1))),
        *_each(
            "Upsample",
            Upgrade(7, _scales_of_image),
            Upgrade(9, _scales),
            Upgrade(10, lambda call: _as_resize(call, "floor")),
        ),
    )
)
