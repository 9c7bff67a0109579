"""Kernels of reductions along axes, and of softmax."""

from __future__ import annotations

import math as numbers
from collections.abc import Sequence

from xdsl.dialects import arith, math
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import i32, i64
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import SSAValue

from tessella.dialects.elements import is_unsigned
from tessella.dialects.layout import NCHW
from tessella.dialects.nn import reduction
from tessella.dialects.nn.core import Tensor, is_float, shape_of, tensor, tensor_type
from tessella.dialects.place import PlaceAttr, place_of, placed
from tessella.dialects.tile import Linear, Running
from tessella.kernels.builder import Body, Form, KernelBuilder, Scalars
from tessella.kernels.elements import (
    FLOATING,
    FLOATS,
    INTEGERS,
    NATIVE,
    SAME,
    Table,
    rows,
    with_code,
)
from tessella.kernels.registry import native
from tessella.support.elements import ELEMENTS
from tessella.support.sizes import Expr, Size, bounds_of


def first(_: Scalars, args: Sequence[SSAValue]) -> SSAValue:
    """Return the first operand's element."""
    return args[0]


def reduce_axes(
    k: KernelBuilder,
    aggregation: str,
    inputs: Sequence[SSAValue],
    axes: Sequence[int],
    type: Tensor,
    body: Body,
    *,
    keepdims: bool,
) -> SSAValue:
    """Aggregate over axes of the first input. Further inputs are indexed by the remaining axes."""
    shape = shape_of(inputs[0])
    names = [f"d{i}" for i in range(len(shape))]
    kept = [d for d in range(len(shape)) if d not in axes]
    out: list[Form] = (
        [0 if d in axes else names[d] for d in range(len(shape))]
        if keepdims
        else [names[d] for d in kept]
    )
    others = [(value, [names[d] for d in kept]) for value in inputs[1:]]
    return k.contract(
        aggregation,
        {names[d]: shape[d] for d in kept},
        {names[d]: shape[d] for d in sorted(axes)},
        [(inputs[0], list(names)), *others],
        (type, out),
        body,
    )


def inner_type(value: SSAValue, shape: Sequence[Size]) -> Tensor:
    """Return the row-major type of an intermediate tensor, with the device and the element type of
    a value."""
    type, place = tensor_type(value), place_of(value.type)
    inner = tensor(type.element_type, shape)
    if place is None:
        return inner
    return placed(inner, PlaceAttr.get(place.device.data, place.precision.data, NCHW))


def kept_shape(value: SSAValue, axes: Sequence[int]) -> list[Size]:
    """Return the shape of a tensor without ``axes``."""
    return [n for d, n in enumerate(shape_of(value)) if d not in axes]


def averaged(k: KernelBuilder, totals: SSAValue, count: Size) -> SSAValue:
    """Convert sums of ``count`` floats to their means."""
    return k.map([totals], tensor_type(totals), lambda s, a: average(s, a[0], count))


def average(s: Scalars, total: SSAValue, count: Size) -> SSAValue:
    """Return the mean of ``count`` floats: their sum times the reciprocal of the count."""
    if not isinstance(count, Expr):
        return s.op(arith.MulfOp(total, s.like(1.0 / count, total)))
    inverse = s.op(arith.DivfOp(s.like(1, total), _count_as(s, total, count)))
    return s.op(arith.MulfOp(total, inverse))


def _count_as(s: Scalars, like: SSAValue, count: Size) -> SSAValue:
    """Return the size ``count`` as a number of the type of ``like``."""
    if isinstance(count, Expr):
        return s.cast(s.op(arith.IndexCastOp(s.size(count), i64)), like.type)
    return s.like(count, like)


PRODUCTS: Table = (*rows(FLOATS, computes="f64"), *rows(INTEGERS))
"""Table of product reductions. Floats are multiplied in f64 and rounded once: an intermediate f32
product could overflow even if the final product does not."""


def _declare(op: type[reduction.ReduceOp], aggregation: str, elements: Table = SAME) -> None:
    @native(op, op.name.removeprefix("nn."), elements=elements)
    def lower(k: KernelBuilder, concrete: reduction.ReduceOp, x: SSAValue) -> SSAValue:
        settings = concrete.settings
        return reduce_axes(
            k,
            aggregation,
            [x],
            settings["axes"],
            k.result_type(concrete),
            first,
            keepdims=settings["keepdims"],
        )


_declare(reduction.ReduceSumOp, "+")
_declare(reduction.ReduceProdOp, "*", PRODUCTS)
_declare(reduction.ReduceMaxOp, ">")
_declare(reduction.ReduceMinOp, "<")


MEANS: Table = (
    *FLOATING,
    *rows([name for name in INTEGERS if ELEMENTS[name].kind == "unsigned"], computes="u64"),
    *rows([name for name in INTEGERS if ELEMENTS[name].kind == "signed"], computes="i64"),
)
"""Table of means. Integers are summed in 64 bits."""


@native(reduction.ReduceMeanOp, "reduce_mean", elements=MEANS)
def reduce_mean(k: KernelBuilder, op: reduction.ReduceMeanOp, x: SSAValue) -> SSAValue:
    """Emit the sum times the reciprocal of the count; integer sums are divided by the count."""
    axes: tuple[int, ...] = op.settings["axes"]
    count = numbers.prod(shape_of(x)[d] for d in axes)
    keepdims = op.settings["keepdims"]
    total = reduce_axes(k, "+", [x], axes, k.result_type(op), first, keepdims=keepdims)
    type = tensor_type(total)
    if is_float(type.element_type):
        return averaged(k, total, count)
    divide = arith.DivUIOp if is_unsigned(type.element_type) else arith.DivSIOp
    return k.map([total], type, lambda s, a: s.op(divide(a[0], _count_as(s, a[0], count))))


def _declare_where(op: type[reduction.ArgOp], most: str) -> None:
    @native(op, op.name.removeprefix("nn."), elements=rows(NATIVE, writes=("i64",)))
    def lower(k: KernelBuilder, concrete: reduction.ArgOp, x: SSAValue) -> SSAValue:
        """Emit the extreme value M of X along the axis, then the first or last index at which X is
        M or NaN."""
        axis: int = concrete.settings["axis"]
        last: bool = concrete.settings["select_last_index"]
        kept = inner_type(x, kept_shape(x, [axis]))
        found = reduce_axes(k, most, [x], [axis], kept, first, keepdims=False)
        _, most_elements = bounds_of(shape_of(x)[axis])
        element = i32 if most_elements < 1 << 31 else i64

        def position(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
            index = s.op(arith.IndexCastOp(s.index(f"d{axis}"), element))
            none = s.constant(-1 if last else most_elements - 1, element)
            return s.op(arith.SelectOp(_holds(s, *a), index, none))

        type = k.result_type(concrete)
        return reduce_axes(
            k, ">" if last else "<", [x, found], [axis], type, position,
            keepdims=concrete.settings["keepdims"],
        )  # fmt: skip


def _holds(s: Scalars, x: SSAValue, extreme: SSAValue) -> SSAValue:
    """Return whether an element ``x`` has the value of the extreme element: it equals ``extreme``
    or is NaN."""
    if not is_float(x.type):
        return s.op(arith.CmpiOp(x, extreme, "eq"))
    equal, is_nan = arith.CmpfOp(x, extreme, "oeq"), arith.CmpfOp(x, x, "uno")
    return s.op(arith.OrIOp(s.op(equal), s.op(is_nan)))


_declare_where(reduction.ArgMaxOp, ">")
_declare_where(reduction.ArgMinOp, "<")


def _declare_along(
    op: type[reduction.CumulativeOp], aggregation: str, elements: Table = SAME
) -> None:
    @native(op, op.name.removeprefix("nn."), elements=elements)
    def lower(k: KernelBuilder, concrete: reduction.CumulativeOp, x: SSAValue) -> SSAValue:
        settings, shape = concrete.settings, shape_of(x)
        running = Running(settings["reverse"], settings["exclusive"])
        names = [f"d{i}" for i in range(len(shape))]
        axis = names[int(settings["axis"])]
        ranges = dict(zip(names, shape, strict=True))
        return k.contract(
            aggregation,
            {name: size for name, size in ranges.items() if name != axis},
            {axis: ranges[axis]},
            [(x, list(names))],
            (k.result_type(concrete), list(names)),
            first,
            running={axis: running},
        )


_declare_along(reduction.CumsumOp, "+")
_declare_along(reduction.CumprodOp, "*", PRODUCTS)
_declare_along(reduction.CummaxOp, ">")
_declare_along(reduction.CumminOp, "<")


def _along(x: SSAValue, axis: int) -> tuple[dict[str, Size], list[str]]:
    """Return the indices of a tensor with their ranges, and the names of the indices without the
    axis."""
    names = [f"d{i}" for i in range(len(shape_of(x)))]
    free = dict(zip(names, shape_of(x), strict=True))
    return free, [n for d, n in enumerate(names) if d != axis]


def maxima(k: KernelBuilder, x: SSAValue, axis: int) -> SSAValue:
    """Return the greatest number along an axis, ignoring NaN.

    A softmax still propagates NaN: the exponential of NaN is NaN, and hence the sum.
    """
    type = inner_type(x, kept_shape(x, [axis]))
    return reduce_axes(k, ">", [x], [axis], type, _number, keepdims=False)


def _number(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
    """Return the first operand's element; -inf if it is NaN."""
    return s.op(arith.MaxnumfOp(a[0], s.like(-numbers.inf, a[0])))


def sums(k: KernelBuilder, x: SSAValue, axis: int, body: Body = first) -> SSAValue:
    """Return the sums of the body's values along an axis."""
    type = inner_type(x, kept_shape(x, [axis]))
    return reduce_axes(k, "+", [x], [axis], type, body, keepdims=False)


def shifted(
    k: KernelBuilder,
    x: SSAValue,
    most: SSAValue,
    axis: int,
    type: Tensor,
    map: Body,
    last: Linear | None = None,
) -> SSAValue:
    """Return ``map`` of x minus ``most``, which has a number for each point of the other axes.

    The result is 0 where the axis's index (``d0`` etc.) is above ``last``.
    """
    free, kept = _along(x, axis)

    def body(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
        value = map(s, [s.op(arith.SubfOp(a[0], a[1]))])
        return value if last is None else s.up_to(f"d{axis}", last, value, 0.0)

    operands = [(x, list(free)), (most, list(kept))]
    return k.contract("=", free, {}, operands, (type, list(free)), body)


_APPROXIMATE = FastMathFlagsAttr([FastMathFlag.APPROX_FUNC])


def exponential(s: Scalars, args: Sequence[SSAValue]) -> SSAValue:
    """Return exp of the first operand's element, with 0 in place of denormal results: next to the
    exponential of a row's maximum, which is 1, they do not count."""
    return s.op(math.ExpOp(args[0], _APPROXIMATE))


def first_over_second(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
    """Return the first operand's element times the reciprocal of the second's."""
    inverse = s.op(arith.DivfOp(s.like(1, a[1]), a[1]))
    return s.op(arith.MulfOp(a[0], inverse))


def exponentials(
    k: KernelBuilder,
    x: SSAValue,
    axis: int,
    type: Tensor,
    last: Linear | None = None,
) -> tuple[SSAValue, SSAValue]:
    """Return E = exp(X - max X) along one axis, and the sums of E.

    X counts as -inf, and E as 0, where the axis's index is above ``last``.
    """
    e = shifted(k, x, maxima(k, x, axis), axis, type, exponential, last)
    return e, sums(k, e, axis)


@native(reduction.SoftmaxOp, "softmax", NCHW, elements=with_code("math.exp"))
def softmax(k: KernelBuilder, op: reduction.SoftmaxOp, x: SSAValue) -> SSAValue:
    """Emit E = exp(X - max X), then E / sum E, along one axis."""
    axis, type = op.settings["axis"], k.result_type(op)
    e, total = exponentials(k, x, axis, type)
    free, kept = _along(x, axis)
    operands = [(e, list(free)), (total, list(kept))]
    return k.contract("=", free, {}, operands, (type, list(free)), first_over_second)


@native(reduction.LogSoftmaxOp, "log_softmax", NCHW, elements=with_code("math.exp", "math.log"))
def log_softmax(k: KernelBuilder, op: reduction.LogSoftmaxOp, x: SSAValue) -> SSAValue:
    """Emit S = X - max X, then S - log(sum exp S), along one axis."""
    axis = op.settings["axis"]
    type = k.result_type(op)
    difference = shifted(k, x, maxima(k, x, axis), axis, type, first)
    total = sums(k, difference, axis, exponential)
    free, kept = _along(x, axis)
    return k.contract(
        "=",
        free,
        {},
        [(difference, list(free)), (total, list(kept))],
        (type, list(free)),
        lambda s, a: s.op(arith.SubfOp(a[0], s.op(math.LogOp(a[1])))),
    )
