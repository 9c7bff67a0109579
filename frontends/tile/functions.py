"""The functions and operators of the Tile language: their types, their scalar code, and what they
give for numbers that are known before the program runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects import math as scalar_math
from xdsl.dialects.builtin import i1
from xdsl.ir import Operation, SSAValue

from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.core import is_float
from tessella.kernels.builder import Scalars
from tessella.kernels.elements import NATIVE
from tessella.kernels.elementwise import BODIES

Number = int | float
Body = Callable[[Scalars, Sequence[SSAValue]], SSAValue]


@dataclass(frozen=True)
class ScalarFunction:
    """A function of scalars, whose arguments are brought to one type first."""

    arity: int
    body: Body
    number: Callable[..., Any]
    """The result for numbers that are known; may raise ArithmeticError, ValueError, TypeError."""
    kinds: str = "if"
    """NumPy's kinds of the types that it is defined for."""
    floating: bool = False
    """Whether integers and booleans become float32 first."""
    compares: bool = False
    """Whether it gives booleans, not the type of its arguments."""
    conditions: int = 0
    """How many of its first arguments are conditions, which become booleans."""
    reads: Sequence[str] = NATIVE
    """The elements that there is native code of it for."""


def _of(op: type[ew.ElementwiseOp]) -> Body:
    """The scalar code of an op of `nn`."""
    body = BODIES[op][0]
    return lambda s, a: body(None, s, a)


def _by_kind(op: type[ew.ElementwiseOp], boolean: type[ew.ElementwiseOp]) -> Body:
    """The scalar code of an op of `nn`, and of another one for booleans."""
    numbers, booleans = _of(op), _of(boolean)
    return lambda s, a: (booleans if a[0].type == i1 else numbers)(s, a)


def _one(op: Callable[..., Operation]) -> Body:
    """The scalar code that is one op."""
    return lambda s, a: s.op(op(*a))


def _unary(body: Body, number: Callable[[Any], Any], kinds: str = "if") -> ScalarFunction:
    return ScalarFunction(1, body, number, kinds)


def _binary(body: Body, number: Callable[[Any, Any], Any], kinds: str = "if") -> ScalarFunction:
    return ScalarFunction(2, body, number, kinds)


def _comparison(body: Body, number: Callable[[Any, Any], Any]) -> ScalarFunction:
    return ScalarFunction(2, body, number, "bif", compares=True)


def _smooth(op: type[ew.ElementwiseOp], number: Callable[[Any], Any]) -> ScalarFunction:
    """A function of floats."""
    reads = [row.reads[0] for row in BODIES[op][1]]
    return ScalarFunction(1, _of(op), number, "f", floating=True, reads=reads)


def _rounding(op: Callable[..., Operation], number: Callable[[Any], int]) -> ScalarFunction:
    """A function of floats that leaves integers as they are."""
    return _unary(lambda s, a: s.op(op(a[0])) if is_float(a[0].type) else a[0], number)


def _not_equal(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
    return _of(ew.NotOp)(s, [_of(ew.EqualOp)(s, a)])


def _bit_not(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
    ones = s.like(1 if a[0].type == i1 else -1, a[0])
    return s.op(arith.XOrIOp(a[0], ones))


def _mad(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
    return _of(ew.AddOp)(s, [_of(ew.MulOp)(s, a[:2]), a[2]])


def _divide(a: Number, b: Number) -> Number:
    """As C does: integers toward zero."""
    if b == 0:
        raise ZeroDivisionError("division by zero")
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _shift(shift: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """A shift by a number of bits that integers have."""

    def shifted(a: int, bits: int) -> int:
        if not 0 <= bits <= 63:
            raise ValueError("a shift by fewer than 0 or more than 63 bits")
        return shift(a, bits)

    return shifted


def _round(x: Number) -> int:
    """To the nearest integer, halves away from zero."""
    whole = math.floor(abs(x))
    return (whole + (abs(x) - whole >= 0.5)) * (1 if x >= 0 else -1)


def _choose(condition: Number, then: Number, otherwise: Number) -> Number:
    return then if condition else otherwise


def _multiply_add(a: Number, b: Number, c: Number) -> Number:
    return a * b + c


FUNCTIONS: Mapping[str, ScalarFunction] = {
    "add": _binary(_by_kind(ew.AddOp, ew.OrOp), lambda a, b: a + b, "bif"),
    "sub": _binary(_of(ew.SubOp), lambda a, b: a - b),
    "mul": _binary(_by_kind(ew.MulOp, ew.AndOp), lambda a, b: a * b, "bif"),
    "div": _binary(_of(ew.DivOp), _divide),
    "mad": ScalarFunction(3, _mad, _multiply_add),
    "min": _binary(_by_kind(ew.MinOp, ew.AndOp), min, "bif"),
    "max": _binary(_by_kind(ew.MaxOp, ew.OrOp), max, "bif"),
    "neg": _unary(_of(ew.NegOp), lambda x: -x),
    "ident": _unary(lambda s, a: a[0], lambda x: x, "bif"),
    "abs": _unary(_of(ew.AbsOp), abs),
    "sign": _unary(_of(ew.SignOp), lambda x: type(x)((x > 0) - (x < 0))),
    "relu": _unary(_of(ew.ReluOp), lambda x: max(x, type(x)(0))),
    "cond": ScalarFunction(3, _of(ew.WhereOp), _choose, "bif", conditions=1),
    "cmp_eq": _comparison(_of(ew.EqualOp), lambda a, b: a == b),
    "cmp_ne": _comparison(_not_equal, lambda a, b: a != b),
    "cmp_lt": _comparison(_of(ew.LessOp), lambda a, b: a < b),
    "cmp_le": _comparison(_of(ew.LessEqualOp), lambda a, b: a <= b),
    "cmp_gt": _comparison(_of(ew.GreaterOp), lambda a, b: a > b),
    "cmp_ge": _comparison(_of(ew.GreaterEqualOp), lambda a, b: a >= b),
    "bit_and": _binary(_one(arith.AndIOp), lambda a, b: a & b, "bi"),
    "bit_or": _binary(_one(arith.OrIOp), lambda a, b: a | b, "bi"),
    "bit_xor": _binary(_one(arith.XOrIOp), lambda a, b: a ^ b, "bi"),
    "bit_not": _unary(_bit_not, lambda x: ~x, "bi"),
    "bit_left": _binary(_one(arith.ShLIOp), _shift(lambda a, bits: a << bits), "i"),
    "bit_right": _binary(_one(arith.ShRSIOp), _shift(lambda a, bits: a >> bits), "i"),
    "ceil": _rounding(scalar_math.CeilOp, math.ceil),
    "floor": _rounding(scalar_math.FloorOp, math.floor),
    "round": _rounding(scalar_math.RoundOp, _round),
    "pow": replace(_smooth(ew.PowOp, abs), arity=2, number=math.pow),
    "recip": _smooth(ew.ReciprocalOp, lambda x: _divide(1.0, x)),
    "sigmoid": _smooth(ew.SigmoidOp, lambda x: 1 / (1 + math.exp(-x))),
    "sqrt": _smooth(ew.SqrtOp, math.sqrt),
    "exp": _smooth(ew.ExpOp, math.exp),
    "log": _smooth(ew.LogOp, math.log),
    "sin": _smooth(ew.SinOp, math.sin),
    "cos": _smooth(ew.CosOp, math.cos),
    "tan": _smooth(ew.TanOp, math.tan),
    "asin": _smooth(ew.AsinOp, math.asin),
    "acos": _smooth(ew.AcosOp, math.acos),
    "atan": _smooth(ew.AtanOp, math.atan),
    "sinh": _smooth(ew.SinhOp, math.sinh),
    "cosh": _smooth(ew.CoshOp, math.cosh),
    "tanh": _smooth(ew.TanhOp, math.tanh),
    "asinh": _smooth(ew.AsinhOp, math.asinh),
    "acosh": _smooth(ew.AcoshOp, math.acosh),
    "atanh": _smooth(ew.AtanhOp, math.atanh),
    "erf": _smooth(ew.ErfOp, math.erf),
}

CASTS: Mapping[str, Mapping[int, str]] = {
    "as_float": {32: "float32", 64: "float64"},
    "as_int": {8: "int8", 16: "int16", 32: "int32", 64: "int64"},
    "as_bool": {},
}
"""The casts: the types by number of bits, which is their second argument; `as_bool` has none."""

WITHOUT_CODE = frozenset(
    """
    as_uint reshape shape index gather scatter prng_step prng_state prng_value simple_reduce tuple
    element reverse_grad broadcast match builtin_softmax builtin_logsoftmax
    builtin_binary_crossentropy
    """.split()
)
"""Functions of PlaidML's Tile that there is no code for."""
