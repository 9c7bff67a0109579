"""Kernels of the elementwise ops: one scalar body each, over `arith` and `math`."""

from __future__ import annotations

import math as numbers
from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from tessella.dialects.elements import is_unsigned
from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.core import NnOp, dtype_of, is_float, tensor_type
from tessella.kernels.builder import KernelBuilder, Scalars
from tessella.kernels.elements import (
    COMPARED,
    FLOATING,
    FLOATS,
    INTEGERS,
    NATIVE,
    SAME,
    T,
    Table,
    rows,
)
from tessella.kernels.registry import native
from tessella.kernels.remainder import REMAINDERS, floored, integer_power, truncated
from tessella.runtime.host.values import saturate
from tessella.support.elements import ELEMENTS
from tessella.targets.vectormath import supports

Args = Sequence[SSAValue]
ScalarBody = Callable[[Any, Scalars, Args], SSAValue]
"""The scalar semantics of an op: ``body(op, scalars, arguments)``."""

BOOL = IntegerType(1)


def _declare(op: type[ew.ElementwiseOp], body: ScalarBody, elements: Table) -> None:
    """Register the kernel of an elementwise op."""

    @native(op, op.name.removeprefix("nn."), elements=elements)
    def lower(k: KernelBuilder, concrete: ew.ElementwiseOp, *operands: SSAValue) -> SSAValue:
        return k.elementwise(operands, concrete, lambda s, args: body(concrete, s, args))


def _pure(op: type[Any]) -> ScalarBody:
    """The body that is one op."""
    return lambda _, s, a: s.op(op(*a))


def _either(
    float_op: type[Any], integer_op: type[Any], unsigned_op: type[Any] | None = None
) -> ScalarBody:
    """One op for floats, another for integers, and another for unsigned ones if they differ."""

    def body(_: NnOp, s: Scalars, a: Args) -> SSAValue:
        if is_float(a[0].type):
            return s.op(float_op(*a))
        return s.op((unsigned_op or integer_op if is_unsigned(a[0].type) else integer_op)(*a))

    return body


def _compare(float_kind: str, integer_kind: str) -> ScalarBody:
    def body(_: NnOp, s: Scalars, a: Args) -> SSAValue:
        if is_float(a[0].type):
            return s.op(arith.CmpfOp(a[0], a[1], float_kind))
        kind = integer_kind
        # booleans order as 0 and 1: i1 is signed to arith, hence the unsigned kinds
        if kind[0] == "s" and (a[0].type == BOOL or is_unsigned(a[0].type)):
            kind = "u" + kind[1:]
        return s.op(arith.CmpiOp(a[0], a[1], kind))

    return body


def _select(s: Scalars, condition: SSAValue, then: SSAValue, otherwise: SSAValue) -> SSAValue:
    return s.op(arith.SelectOp(condition, then, otherwise))


def _zero(s: Scalars, x: SSAValue) -> SSAValue:
    return s.like(0, x)


def _max(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
    if is_unsigned(a.type):
        return s.op(arith.MaxUIOp(a, b))
    return s.op((arith.MaximumfOp if is_float(a.type) else arith.MaxSIOp)(a, b))


def _min(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
    if is_unsigned(a.type):
        return s.op(arith.MinUIOp(a, b))
    return s.op((arith.MinimumfOp if is_float(a.type) else arith.MinSIOp)(a, b))


def _mul(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
    return s.op(arith.MulfOp(a, b))


def _add(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
    return s.op(arith.AddfOp(a, b))


def _fma(s: Scalars, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
    return s.op(math.FmaOp(a, b, c))


def _neg(_: NnOp, s: Scalars, a: Args) -> SSAValue:
    if is_float(a[0].type):
        return s.op(arith.NegfOp(a[0]))
    return s.op(arith.SubiOp(_zero(s, a[0]), a[0]))


def _abs(_: NnOp, s: Scalars, a: Args) -> SSAValue:
    if is_unsigned(a[0].type):
        return a[0]
    return s.op((math.AbsFOp if is_float(a[0].type) else math.AbsIOp)(a[0]))


def _sign(_: NnOp, s: Scalars, a: Args) -> SSAValue:
    x, zero, one = a[0], _zero(s, a[0]), s.like(1, a[0])
    if is_unsigned(x.type):
        return s.op(arith.MinUIOp(x, one))
    minus = s.like(-1, x)
    if not is_float(x.type):
        below = _select(s, s.op(arith.CmpiOp(x, zero, "slt")), minus, zero)
        return _select(s, s.op(arith.CmpiOp(x, zero, "sgt")), one, below)
    # NaN compares false both times and is kept
    below = _select(s, s.op(arith.CmpfOp(x, zero, "olt")), minus, x)
    return _select(s, s.op(arith.CmpfOp(x, zero, "ogt")), one, below)


def _by_one_and_exp(s: Scalars, value: SSAValue, x: SSAValue) -> SSAValue:
    """value / (1 + e^-x)"""
    e = s.op(math.ExpOp(s.op(arith.NegfOp(x))))
    return s.op(arith.DivfOp(value, _add(s, s.like(1, x), e)))


def _sigmoid(_: NnOp, s: Scalars, a: Args) -> SSAValue:
    return _by_one_and_exp(s, s.like(1, a[0]), a[0])


def _silu(_: NnOp, s: Scalars, a: Args) -> SSAValue:
    return _by_one_and_exp(s, a[0], a[0])


def _gelu(_: NnOp, s: Scalars, a: Args) -> SSAValue:
    x = a[0]
    t = s.op(math.ErfOp(_mul(s, x, s.like(1 / numbers.sqrt(2), x))))
    half = _mul(s, x, s.like(0.5, x))
    return _fma(s, half, t, half)


def _gelu_tanh(_: NnOp, s: Scalars, a: Args) -> SSAValue:
    x = a[0]
    scale = numbers.sqrt(2 / numbers.pi)
    slope = _fma(s, _mul(s, x, x), s.like(0.044715 * scale, x), s.like(scale, x))
    t = s.op(math.TanhOp(_mul(s, x, slope)))
    half = _mul(s, x, s.like(0.5, x))
    return _fma(s, half, t, half)


def _softplus(_: NnOp, s: Scalars, a: Args) -> SSAValue:
    # log(1 + e^x) = max(x, 0) + log1p(e^-|x|) does not overflow
    x = a[0]
    e = s.op(math.ExpOp(s.op(arith.NegfOp(s.op(math.AbsFOp(x))))))
    return _add(s, _max(s, x, _zero(s, x)), s.op(math.Log1pOp(e)))


def _softsign(_: NnOp, s: Scalars, a: Args) -> SSAValue:
    x = a[0]
    return s.op(arith.DivfOp(x, _add(s, s.like(1, x), s.op(math.AbsFOp(x)))))


def _unit_clip(s: Scalars, x: SSAValue) -> SSAValue:
    return _min(s, _max(s, x, _zero(s, x)), s.like(1, x))


def _hard_swish(_: NnOp, s: Scalars, a: Args) -> SSAValue:
    x = a[0]
    gate = _add(s, _mul(s, x, s.like(1 / 6, x)), s.like(0.5, x))
    return _mul(s, x, _unit_clip(s, gate))


def _hard_sigmoid(op: ew.HardSigmoidOp, s: Scalars, a: Args) -> SSAValue:
    x = a[0]
    alpha, beta = (s.like(v, x) for v in (op.settings["alpha"], op.settings["beta"]))
    return _unit_clip(s, _add(s, _mul(s, x, alpha), beta))


def _positive(s: Scalars, x: SSAValue) -> SSAValue:
    return s.op(arith.CmpfOp(x, _zero(s, x), "oge"))


def _leaky_relu(op: ew.LeakyReluOp, s: Scalars, a: Args) -> SSAValue:
    x = a[0]
    return _select(s, _positive(s, x), x, _mul(s, x, s.like(op.settings["alpha"], x)))


def _elu(op: ew.EluOp, s: Scalars, a: Args) -> SSAValue:
    x = a[0]
    below = _mul(s, s.op(math.ExpM1Op(x)), s.like(op.settings["alpha"], x))
    return _select(s, _positive(s, x), x, below)


def _celu(op: ew.CeluOp, s: Scalars, a: Args) -> SSAValue:
    x, alpha = a[0], op.settings["alpha"]
    inner = s.op(math.ExpM1Op(_mul(s, x, s.like(1 / alpha, x))))
    below = _min(s, _zero(s, x), _mul(s, inner, s.like(alpha, x)))
    return _add(s, _max(s, x, _zero(s, x)), below)


def _selu(op: ew.SeluOp, s: Scalars, a: Args) -> SSAValue:
    x = a[0]
    below = _mul(s, s.op(math.ExpM1Op(x)), s.like(op.settings["alpha"], x))
    return _mul(s, _select(s, _positive(s, x), x, below), s.like(op.settings["beta"], x))


def _thresholded_relu(op: ew.ThresholdedReluOp, s: Scalars, a: Args) -> SSAValue:
    x = a[0]
    above = s.op(arith.CmpfOp(x, s.like(op.settings["alpha"], x), "ogt"))
    return _select(s, above, x, _zero(s, x))


def _clip(op: ew.ClipOp, s: Scalars, a: Args) -> SSAValue:
    x = a[0]
    low, high = (saturate(op.settings[name], dtype_of(x.type)) for name in ("low", "high"))
    if low != -numbers.inf:
        x = _max(s, x, s.like(low, x))
    return _min(s, x, s.like(high, x)) if high != numbers.inf else x


def _reciprocal(_: NnOp, s: Scalars, a: Args) -> SSAValue:
    return s.op(arith.DivfOp(s.like(1, a[0]), a[0]))


def _pow(_: NnOp, s: Scalars, a: Args) -> SSAValue:
    return s.op(math.PowFOp(a[0], a[1])) if is_float(a[0].type) else integer_power(s, a[0], a[1])


def _not(_: NnOp, s: Scalars, a: Args) -> SSAValue:
    return s.op(arith.XOrIOp(a[0], s.constant(1, BOOL)))


def _is_nan(_: NnOp, s: Scalars, a: Args) -> SSAValue:
    return s.op(arith.CmpfOp(a[0], a[0], "uno"))


def _is_inf(_: NnOp, s: Scalars, a: Args) -> SSAValue:
    infinity = s.like(numbers.inf, a[0])
    return s.op(arith.CmpfOp(s.op(math.AbsFOp(a[0])), infinity, "oeq"))


def _cast(op: ew.CastOp, s: Scalars, a: Args) -> SSAValue:
    return s.cast(a[0], tensor_type(op.res).element_type)


def _relu(_: NnOp, s: Scalars, a: Args) -> SSAValue:
    return _max(s, a[0], _zero(s, a[0]))


def with_code(*functions: str) -> Table:
    """The table of kernels on floats of which there is vector code of all these functions of
    `math`."""

    def has_code(name: str) -> bool:
        bits = ELEMENTS[ELEMENTS[name].arithmetic].bits
        return all(supports(f"math.{f}", bits) for f in functions)

    return rows(filter(has_code, FLOATS))


LOGICAL = rows(["bool"])
CHOSEN = rows(NATIVE, ("bool", T), computes=T)
CONVERTED = tuple(row for to in NATIVE for row in rows(NATIVE, writes=(to,)))

BODIES: dict[type[ew.ElementwiseOp], tuple[ScalarBody, Table]] = {
    ew.AddOp: (_either(arith.AddfOp, arith.AddiOp), SAME),
    ew.SubOp: (_either(arith.SubfOp, arith.SubiOp), SAME),
    ew.MulOp: (_either(arith.MulfOp, arith.MuliOp), SAME),
    ew.DivOp: (_either(arith.DivfOp, arith.DivSIOp, arith.DivUIOp), SAME),
    ew.MinOp: (_either(arith.MinimumfOp, arith.MinSIOp, arith.MinUIOp), SAME),
    ew.MaxOp: (_either(arith.MaximumfOp, arith.MaxSIOp, arith.MaxUIOp), SAME),
    ew.PowOp: (_pow, (*with_code("powf"), *rows(INTEGERS))),
    ew.ModOp: (floored, REMAINDERS),
    ew.FmodOp: (truncated, REMAINDERS),
    ew.EqualOp: (_compare("oeq", "eq"), COMPARED),
    ew.LessOp: (_compare("olt", "slt"), COMPARED),
    ew.LessEqualOp: (_compare("ole", "sle"), COMPARED),
    ew.GreaterOp: (_compare("ogt", "sgt"), COMPARED),
    ew.GreaterEqualOp: (_compare("oge", "sge"), COMPARED),
    ew.AndOp: (_pure(arith.AndIOp), LOGICAL),
    ew.OrOp: (_pure(arith.OrIOp), LOGICAL),
    ew.XorOp: (_pure(arith.XOrIOp), LOGICAL),
    ew.NotOp: (_not, LOGICAL),
    ew.WhereOp: (lambda _, s, a: _select(s, *a), CHOSEN),
    ew.CastOp: (_cast, CONVERTED),
    ew.AbsOp: (_abs, SAME),
    ew.NegOp: (_neg, SAME),
    ew.SignOp: (_sign, SAME),
    ew.ReluOp: (_relu, SAME),
    ew.ClipOp: (_clip, SAME),
    ew.IsNanOp: (_is_nan, rows(FLOATS, writes=("bool",))),
    ew.IsInfOp: (_is_inf, rows(FLOATS, writes=("bool",))),
    ew.SqrtOp: (_pure(math.SqrtOp), FLOATING),
    ew.ReciprocalOp: (_reciprocal, FLOATING),
    ew.FloorOp: (_pure(math.FloorOp), FLOATING),
    ew.CeilOp: (_pure(math.CeilOp), FLOATING),
    ew.RoundOp: (_pure(math.RoundEvenOp), FLOATING),
    ew.ExpOp: (_pure(math.ExpOp), with_code("exp")),
    ew.LogOp: (_pure(math.LogOp), with_code("log")),
    ew.Log2Op: (_pure(math.Log2Op), with_code("log2")),
    ew.Log10Op: (_pure(math.Log10Op), with_code("log10")),
    ew.SinOp: (_pure(math.SinOp), with_code("sin")),
    ew.CosOp: (_pure(math.CosOp), with_code("cos")),
    ew.TanOp: (_pure(math.TanOp), with_code("tan")),
    ew.AsinOp: (_pure(math.AsinOp), with_code("asin")),
    ew.AcosOp: (_pure(math.AcosOp), with_code("acos")),
    ew.AtanOp: (_pure(math.AtanOp), with_code("atan")),
    ew.SinhOp: (_pure(math.SinhOp), with_code("sinh")),
    ew.CoshOp: (_pure(math.CoshOp), with_code("cosh")),
    ew.TanhOp: (_pure(math.TanhOp), with_code("tanh")),
    ew.AsinhOp: (_pure(math.AsinhOp), with_code("asinh")),
    ew.AcoshOp: (_pure(math.AcoshOp), with_code("acosh")),
    ew.AtanhOp: (_pure(math.AtanhOp), with_code("atanh")),
    ew.ErfOp: (_pure(math.ErfOp), with_code("erf")),
    ew.SigmoidOp: (_sigmoid, with_code("exp")),
    ew.SiluOp: (_silu, with_code("exp")),
    ew.SoftplusOp: (_softplus, with_code("exp", "log1p")),
    ew.SoftsignOp: (_softsign, FLOATING),
    ew.HardSwishOp: (_hard_swish, FLOATING),
    ew.HardSigmoidOp: (_hard_sigmoid, FLOATING),
    ew.GeluOp: (_gelu, with_code("erf")),
    ew.GeluTanhOp: (_gelu_tanh, with_code("tanh")),
    ew.LeakyReluOp: (_leaky_relu, FLOATING),
    ew.EluOp: (_elu, with_code("expm1")),
    ew.CeluOp: (_celu, with_code("expm1")),
    ew.SeluOp: (_selu, with_code("expm1")),
    ew.ThresholdedReluOp: (_thresholded_relu, FLOATING),
}

for _op, (_body, _elements) in BODIES.items():
    _declare(_op, _body, _elements)
