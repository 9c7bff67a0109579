"""The ops as native code."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, math
from xdsl.ir import SSAValue

from acme.ops import SquareplusOp
from tessella.kernels.builder import KernelBuilder, Scalars
from tessella.kernels.elements import FLOATING
from tessella.kernels.registry import native


@native(SquareplusOp, "squareplus", elements=FLOATING)
def squareplus(k: KernelBuilder, op: SquareplusOp, x: SSAValue) -> SSAValue:
    """One statement; it joins the group of the op before it."""
    b = op.b.value.data

    def body(s: Scalars, args: Sequence[SSAValue]) -> SSAValue:
        (v,) = args
        square = s.op(arith.AddfOp(s.op(arith.MulfOp(v, v)), s.like(b, v)))
        total = s.op(arith.AddfOp(v, s.op(math.SqrtOp(square))))
        return s.op(arith.MulfOp(total, s.like(0.5, v)))

    return k.elementwise([x], op, body)
