"""Products of bytes and their corrections for zero points.

    sum (a - p) (b - q)  =  sum a b - p * sum b - q * sum a + n p q

A sum has n elements; p and q are the zero points of a and b. ``sum b`` is a constant if b holds
weights; the whole correction is a constant if p is known, too. If q is 0, ``sum a`` is not needed.
An image is padded with p, so that the sums of b are the same at its edges.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.core import NnOp, PyValue, shape_of, to_python
from tessella.dialects.nn.linear import ConvOp, FcOp, MatmulOp
from tessella.dialects.nn.movement import PadOp
from tessella.passes.base import record_fusion
from tessella.passes.quantized.factors import Bytes, Factor
from tessella.passes.writer import OpWriter
from tessella.support.decisions import known, known_all
from tessella.support.sizes import Size
from tessella.targets.instructions import Elements

Product = ConvOp | MatmulOp | FcOp
PATTERN = "integer-products"


def second_as_result(w: OpWriter, op: Product, value: SSAValue) -> SSAValue:
    """Return a scale or zero point of the second operand, reshaped to broadcast to the result."""
    shape = shape_of(value)
    if math.prod(shape) == 1:
        return w.shaped(value, ())
    if isinstance(op, ConvOp):
        return w.shaped(value, (1, shape[0], *[1] * (len(shape_of(op.w)) - 2)))
    if not turned(op):
        return value
    return w.shaped(value, (*shape[:-2], shape[-1], shape[-2]))


def turned(op: Product) -> bool:
    """Return whether the product reads its second operand transposed."""
    if isinstance(op, ConvOp):
        return False
    return bool(to_python(op.transpose_b if isinstance(op, MatmulOp) else op.transpose_w))


def reduced_axes(op: Product) -> tuple[Sequence[int], Sequence[int]]:
    """Return the dimensions of both operands that the product sums over."""
    a, b = (len(shape_of(x)) for x in op.operands[:2])
    if isinstance(op, ConvOp):
        return range(1, a), range(1, b)
    return [a - 1], [b - 1 if turned(op) else b - 2]


def length(op: Product) -> Size:
    """Return the number of products that each element of the result sums."""
    shape = shape_of(op.operands[1])
    return math.prod(shape[d] for d in reduced_axes(op)[1])


def product(
    w: OpWriter, op: Product, a: Factor, b: Factor, bytes: Bytes, pairs: Sequence[Elements]
) -> SSAValue:
    """Emit the product of two factors in bytes of one of ``pairs``, summed in 32 bits and corrected
    for zero points, without scales."""
    first, second = bytes.pair(a, b, pairs)
    a, b = bytes.first(w, a, first), bytes.second(w, b, second)
    kind: type[NnOp] = MatmulOp
    settings: Mapping[str, PyValue] = {"transpose_b": turned(op)}
    if isinstance(op, ConvOp):
        kind, (a, settings) = ConvOp, _padded(w, op, a, bytes)
    settings = {**settings, "sums": i32}
    total = w.op(kind, a.x, b.x, **settings)
    made = total.owner
    assert isinstance(made, NnOp)
    record_fusion(made, PATTERN, [op])
    correction = _of_second(w, op, a, b)
    if correction is not None:
        total = w.sub(total, correction)
    if b.zero is not None:
        sums = _sum_of_first(w, op, a, b, settings)
        total = w.sub(total, w.mul(sums, second_as_result(w, op, b.zero)))
    return total


def _of_second(w: OpWriter, op: Product, a: Factor, b: Factor) -> SSAValue | None:
    """Emit the correction p * (sum b - n q) for the zero point of the first factor; None if that is
    0."""
    if a.zero is None:
        return None
    total = second_as_result(w, op, w.sum(w.cast(b.x, "i32"), reduced_axes(op)[1]))
    if b.zero is not None:
        count = w.splat(known(length(op)), "i32")
        total = w.sub(total, w.mul(second_as_result(w, op, b.zero), count))
    return w.mul(total, a.zero)


def _sum_of_first(
    w: OpWriter, op: Product, a: Factor, b: Factor, settings: Mapping[str, PyValue]
) -> SSAValue:
    """Emit the sums of the first factor's bytes, in a shape that broadcasts to the result."""
    if not isinstance(op, ConvOp):
        return w.sum(w.cast(a.x, "i32"), reduced_axes(op)[0])
    outs, *window = known_all(shape_of(op.w))
    ones = w.splat(1, b.element, (1 if op.settings["groups"] == 1 else outs, *window))
    return w.op(ConvOp, a.x, ones, **settings)


def _none(op: ConvOp) -> tuple[int, ...]:
    return (0,) * len(op.settings["pads"])


def _padded(
    w: OpWriter, op: ConvOp, a: Factor, bytes: Bytes
) -> tuple[Factor, Mapping[str, PyValue]]:
    """Return the image padded with its zero point, and the convolution's settings without padding;
    both unchanged if there is no padding or the zero point is 0."""
    settings, pads = op.setting_properties, op.settings["pads"]
    if a.zero is None or not any(pads):
        return a, settings
    rank = len(pads) // 2
    low, high = (0, 0, *pads[:rank]), (0, 0, *pads[rank:])
    known_zero = bytes.constants.value(a.zero)
    number = 0.0 if known_zero is None else float(known_zero.reshape(-1)[0])
    x = w.op(PadOp, a.x, low=low, high=high, mode="constant", value=number)
    if known_zero is None:
        inside = w.splat(True, "bool", (1, 1, *shape_of(a.x)[2:]))
        inside = w.op(PadOp, inside, low=low, high=high, mode="constant", value=0.0)
        x = w.op(ew.WhereOp, inside, x, w.cast(a.zero, a.element))
    return replace(a, x=x), {**settings, "pads": _none(op)}
