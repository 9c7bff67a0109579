"""Products of quantized numbers as products of bytes.

    %x = nn.dequantize %a, %sa, %za : f32
    %w = nn.dequantize %b, %sb, %zb : f32
    %y = nn.conv %x, %w, %bias
    ->
    %1 = nn.conv %a, %b sums i32 : i32
    %2 = nn.sub %1, %za * sum(%b) - %bias / (%sa * %sb)
    %3 = nn.cast %2 : f32
    %y = nn.mul %3, %sa * %sb

Products without scales are replaced likewise: their factors are bytes converted to 32 bits, minus a
zero point (``MatMulInteger``, ``QLinearConv``):

    %y = nn.matmul (nn.sub (nn.cast %a), %za), (nn.cast %b)      -> nn.sub (nn.matmul %a, %b), ..

An instruction of the target multiplies bytes of certain sign types (``targets/instructions.py``).
Bytes of the other sign type are converted: 128 is added to or subtracted from the bytes and their
zero point (``passes/quantized/factors.py``). Zero points become corrections of the sums
(``passes/quantized/products.py``); ``fold-constants`` evaluates the parts of a correction that
depend only on constants. The ops after the product are elementwise: the scale, an activation, a
residual, and the rounding to bytes. ``fuse-elementwise`` makes the kernel of the product compute
them in registers.

A product of floats is replaced if each factor has one scale, or one for each row or column of the
result, and the sums fit into 32 bits. The second factor has to be a constant. The exception is a
product of two activations, as in attention: its sums of rows and of columns are computed at run
time, and it is replaced only if these take few additions compared to its products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tessella import targets
from tessella.dialects.elements import element_of
from tessella.dialects.graph import weights_of
from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.core import shape_of
from tessella.dialects.nn.evaluate import Constants
from tessella.dialects.nn.linear import ConvOp, MatmulOp
from tessella.passes.base import functions
from tessella.passes.kinds import ProgramPass
from tessella.passes.quantized.factors import BYTES, Bytes, Factor, factor_of, flipped
from tessella.passes.quantized.products import (
    Product,
    length,
    product,
    reduced_axes,
    second_as_result,
)
from tessella.passes.quantized.rescale import Rescaler
from tessella.passes.writer import OpWriter, replace
from tessella.runtime.weights import WeightStore
from tessella.support.decisions import at_most
from tessella.support.sizes import estimated
from tessella.targets.instructions import Elements, pairs_of

MOST = (2**31 - 1) // 255**2
"""The most products of two bytes whose sum fits into 32 bits, whatever the bytes are."""
SUMS = 8
"""The least number of products for each result of a row or column sum that is computed at run
time."""
EXACT = 1e-4
"""The largest distance of bias / scale from an integer for which the bias is added to the integer
sums, before scaling."""


@dataclass(frozen=True)
class IntegerProductsPass(ProgramPass):
    """Turn products of quantized numbers into products of bytes."""

    name = "integer-products"
    stages = ("nn", "placed")

    target: str = "native"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pairs = pairs_of(BYTES, "i32", targets.resolve(self.target))
        for function in functions(op):
            rewriter = _IntegerRewriter(weights_of(ctx), pairs)
            for inner in list(function.body.block.ops):
                if isinstance(inner, Product) and not inner.is_fixed and inner.parent:
                    rewriter.visit(inner)
            rewriter.finish(list(function.body.block.ops))


class _IntegerRewriter:
    """Rewrites the products of one function."""

    def __init__(self, weights: WeightStore, pairs: Sequence[Elements]) -> None:
        self.constants = Constants(weights)
        self.bytes = Bytes(self.constants)
        self.pairs = pairs
        """The pairs of byte types that the target multiplies fastest."""

    def visit(self, op: Product) -> None:
        """Replace a product whose factors are bytes, if this is possible and pays."""
        a, b = map(factor_of, op.operands[:2])
        if a is None or b is None or not (_fits(op, 0, a) and _fits(op, 1, b)):
            return
        if (a.scale is None) != (b.scale is None):
            return
        bias = op.operands[2] if len(op.operands) > 2 else None
        w = OpWriter(op)
        if a.scale is None:
            if bias is not None or not self._is_integer(op):
                return
            total = product(w, op, a, b, self.bytes, self.pairs)
        else:
            if not at_most(length(op), MOST) or not self._pays(op, b):
                return
            total = self._scaled(w, op, a, b, bias)
        replace(op, total)

    def _pays(self, op: Product, b: Factor) -> bool:
        """Return whether the second factor is a constant, or the sums of rows and columns, which
        zero points require, take few additions compared to the products."""
        if self.constants.value(b.x) is not None:
            return True
        rows, columns = map(estimated, shape_of(op.res)[-2:])
        return isinstance(op, MatmulOp) and SUMS * (rows + columns) <= rows * columns

    def _is_integer(self, op: Product) -> bool:
        return element_of(op.res.type).name == "i32"

    def _scaled(
        self, w: OpWriter, op: Product, a: Factor, b: Factor, bias: SSAValue | None
    ) -> SSAValue:
        """Emit the product of the bytes, and its conversion to floats, scaled and with the bias."""
        assert a.scale is not None
        assert b.scale is not None
        element = element_of(op.res.type).name
        total = product(w, op, a, b, self.bytes, self.pairs)
        left = w.shaped(a.scale, ()) if isinstance(op, ConvOp) else a.scale
        scale = w.mul(left, second_as_result(w, op, b.scale))
        if bias is not None:
            whole = self._whole(bias, scale)
            channels = 1 if isinstance(op, ConvOp) else len(shape_of(op.res)) - 1
            form = [-1 if d == channels else 1 for d in range(len(shape_of(op.res)))]
            bias = w.shaped(bias, [shape_of(bias)[0] if n == -1 else n for n in form])
            if whole:
                wide = w.op(ew.RoundOp, w.op(ew.DivOp, bias, scale))
                return w.mul(w.cast(w.add(total, w.cast(wide, "i32")), element), scale)
        result = w.mul(w.cast(total, element), scale)
        return result if bias is None else w.add(result, bias)

    def _whole(self, bias: SSAValue, scale: SSAValue) -> bool:
        """Return whether a bias is an integer multiple of the scale, up to rounding, as quantizers
        produce; False if either is unknown."""
        numbers, steps = self.constants.value(bias), self.constants.value(scale)
        if numbers is None or steps is None:
            return False
        with np.errstate(all="ignore"):
            count = numbers.astype(np.float64).reshape(-1) / steps.reshape(-1)
            whole = np.abs(count - np.rint(count)) <= EXACT * np.maximum(1, np.abs(count) * 1e-3)
        return bool((whole & (np.abs(count) < 2**24)).all())

    def finish(self, ops: Sequence[Operation]) -> None:
        """Make dequantizations read the bytes of the other sign type if these exist, and let the
        operands of quantizations absorb their scales."""
        rescaler = Rescaler(self.constants)
        for op in [op for op in ops if op.parent is not None]:
            if isinstance(op, ew.DequantizeOp) and op.x in self.bytes.turned:
                w = OpWriter(op)
                x, zero = self.bytes.turned[op.x], flipped(w, op.zero)
                replace(op, w.op(ew.DequantizeOp, x, op.scale, zero))
            elif isinstance(op, ew.QuantizeOp):
                rescaler.rescale(op)


def _fits(op: Product, index: int, factor: Factor) -> bool:
    """Return whether an operand's scale and zero point are the same along all dimensions that the
    product sums over."""
    shape = shape_of(op.operands[index])
    axes = reduced_axes(op)[index]
    if isinstance(op, ConvOp) and index == 0:
        axes = range(len(shape))
    for value in (factor.scale, factor.zero):
        if value is None:
            continue
        own = (1,) * (len(shape) - len(shape_of(value))) + shape_of(value)
        if any(own[d] != 1 for d in axes):
            return False
    return True
