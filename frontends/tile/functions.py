"""The functions and operators of the Tile language: their types and their scalar code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

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
    check: Callable[..., None] | None = None
    """Raises ValueError for numbers that are known beforehand and are a mistake."""


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


def _comparison(body: Body) -> ScalarFunction:
    return ScalarFunction(2, body, "bif", compares=True)


def _smooth(op: type[ew.ElementwiseOp]) -> ScalarFunction:
    """A function of floats."""
    reads = [row.reads[0] for row in BODIES[op][1]]
    return ScalarFunction(1, _of(op), "f", floating=True, reads=reads)


def _rounding(op: Callable[..., Operation]) -> ScalarFunction:
    """A function of floats that leaves integers as they are."""
    return ScalarFunction(1, lambda s, a: s.op(op(a[0])) if is_float(a[0].type) else a[0])


def _not_equal(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
    return _of(ew.NotOp)(s, [_of(ew.EqualOp)(s, a)])


def _bit_not(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
    ones = s.like(1 if a[0].type == i1 else -1, a[0])
    return s.op(arith.XOrIOp(a[0], ones))


def _mad(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
    return _of(ew.AddOp)(s, [_of(ew.MulOp)(s, a[:2]), a[2]])


def _check_divisor(_: Number, divisor: Number) -> None:
    if divisor == 0:
        raise ValueError("division by zero")


def _check_bits(_: int, bits: int) -> None:
    if not 0 <= bits <= 63:
        raise ValueError("a shift by fewer than 0 or more than 63 bits")


def _check_left(a: int, bits: int) -> None:
    _check_bits(a, bits)
    if not -1 << 63 <= a << bits < 1 << 63:
        raise ValueError("the result is too large")


FUNCTIONS: Mapping[str, ScalarFunction] = {
    "add": ScalarFunction(2, _by_kind(ew.AddOp, ew.OrOp), "bif"),
    "sub": ScalarFunction(2, _of(ew.SubOp)),
    "mul": ScalarFunction(2, _by_kind(ew.MulOp, ew.AndOp), "bif"),
    "div": ScalarFunction(2, _of(ew.DivOp), check=_check_divisor),
    "mad": ScalarFunction(3, _mad),
    "min": ScalarFunction(2, _by_kind(ew.MinOp, ew.AndOp), "bif"),
    "max": ScalarFunction(2, _by_kind(ew.MaxOp, ew.OrOp), "bif"),
    "neg": ScalarFunction(1, _of(ew.NegOp)),
    "ident": ScalarFunction(1, lambda s, a: a[0], "bif"),
    "abs": ScalarFunction(1, _of(ew.AbsOp)),
    "sign": ScalarFunction(1, _of(ew.SignOp)),
    "relu": ScalarFunction(1, _of(ew.ReluOp)),
    "cond": ScalarFunction(3, _of(ew.WhereOp), "bif", conditions=1),
    "cmp_eq": _comparison(_of(ew.EqualOp)),
    "cmp_ne": _comparison(_not_equal),
    "cmp_lt": _comparison(_of(ew.LessOp)),
    "cmp_le": _comparison(_of(ew.LessEqualOp)),
    "cmp_gt": _comparison(_of(ew.GreaterOp)),
    "cmp_ge": _comparison(_of(ew.GreaterEqualOp)),
    "bit_and": ScalarFunction(2, _one(arith.AndIOp), "bi"),
    "bit_or": ScalarFunction(2, _one(arith.OrIOp), "bi"),
    "bit_xor": ScalarFunction(2, _one(arith.XOrIOp), "bi"),
    "bit_not": ScalarFunction(1, _bit_not, "bi"),
    "bit_left": ScalarFunction(2, _one(arith.ShLIOp), "i", check=_check_left),
    "bit_right": ScalarFunction(2, _one(arith.ShRSIOp), "i", check=_check_bits),
    "ceil": _rounding(scalar_math.CeilOp),
    "floor": _rounding(scalar_math.FloorOp),
    "round": _rounding(scalar_math.RoundOp),
    "pow": replace(_smooth(ew.PowOp), arity=2),
    "recip": _smooth(ew.ReciprocalOp),
    "sigmoid": _smooth(ew.SigmoidOp),
    "sqrt": _smooth(ew.SqrtOp),
    "exp": _smooth(ew.ExpOp),
    "log": _smooth(ew.LogOp),
    "sin": _smooth(ew.SinOp),
    "cos": _smooth(ew.CosOp),
    "tan": _smooth(ew.TanOp),
    "asin": _smooth(ew.AsinOp),
    "acos": _smooth(ew.AcosOp),
    "atan": _smooth(ew.AtanOp),
    "sinh": _smooth(ew.SinhOp),
    "cosh": _smooth(ew.CoshOp),
    "tanh": _smooth(ew.TanhOp),
    "asinh": _smooth(ew.AsinhOp),
    "acosh": _smooth(ew.AcoshOp),
    "atanh": _smooth(ew.AtanhOp),
    "erf": _smooth(ew.ErfOp),
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
