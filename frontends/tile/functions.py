"""The functions and operators of the Tile language: their types and their scalar code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import arith
from xdsl.dialects import math as scalar_math
from xdsl.dialects.builtin import i1
from xdsl.ir import Operation, SSAValue

from tessella.dialects.elements import element_of, is_unsigned
from tessella.dialects.nn.core import is_float
from tessella.kernels.builder import Scalars
from tessella.kernels.elementwise import apply

Number = int | float
Body = Callable[[Scalars, Sequence[SSAValue]], SSAValue]


@dataclass(frozen=True)
class ScalarFunction:
    """A function of scalars, whose arguments (except conditions) are first converted to one
    type."""

    arity: int
    body: Body
    kinds: str = "if"
    """NumPy's kinds of the types for which the function is defined; `i` includes unsigned
    integers."""
    floating: bool = False
    """True if integers and booleans are first converted to float32."""
    compares: bool = False
    """True if the function returns booleans instead of values of its arguments' type."""
    conditions: int = 0
    """The number of leading arguments that are conditions, converted to booleans."""
    check: Callable[..., None] | None = None
    """A function that raises ValueError if known arguments are invalid, such as a divisor of 0."""


def _of(op: str) -> Body:
    """Return a function that emits the scalar code of an op of `nn`."""
    return lambda s, a: apply(op, s, a)


def _by_kind(op: str, boolean: str) -> Body:
    """Return a function that emits the scalar code of the `nn` op ``op``, or of ``boolean`` if the
    operands are booleans."""
    numbers, booleans = _of(op), _of(boolean)
    return lambda s, a: (booleans if a[0].type == i1 else numbers)(s, a)


def _one(op: Callable[..., Operation]) -> Body:
    """Return a function that emits scalar code of one op."""
    return lambda s, a: s.op(op(*a))


def _comparison(body: Body) -> ScalarFunction:
    return ScalarFunction(2, body, "bif", compares=True)


def _smooth(op: str) -> ScalarFunction:
    """Return a function of one float whose scalar code is that of an op of `nn`."""
    return ScalarFunction(1, _of(op), "f", floating=True)


def _rounding(op: Callable[..., Operation]) -> ScalarFunction:
    """Return a function of one number that rounds floats, and returns integers unchanged."""
    return ScalarFunction(1, lambda s, a: s.op(op(a[0])) if is_float(a[0].type) else a[0])


def _not_equal(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
    return _of("not")(s, [_of("equal")(s, a)])


def _bit_not(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
    element = element_of(a[0].type)
    ones = {"boolean": 1, "signed": -1, "unsigned": (1 << element.bits) - 1}[element.kind]
    return s.op(arith.XOrIOp(a[0], s.like(ones, a[0])))


def _bit_right(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
    x, bits = a
    shift = arith.ShRUIOp if is_unsigned(x.type) else arith.ShRSIOp
    return s.op(shift(x, bits))


def _mad(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
    return _of("add")(s, [_of("mul")(s, a[:2]), a[2]])


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


_SMOOTH = """
    acos acosh asin asinh atan atanh cos cosh erf exp log sigmoid sin sinh sqrt tan tanh
    """.split()
"""Functions of floats that have the names of their `nn` ops."""

FUNCTIONS: Mapping[str, ScalarFunction] = {
    "add": ScalarFunction(2, _by_kind("add", "or"), "bif"),
    "sub": ScalarFunction(2, _of("sub")),
    "mul": ScalarFunction(2, _by_kind("mul", "and"), "bif"),
    "div": ScalarFunction(2, _of("div"), check=_check_divisor),
    "mad": ScalarFunction(3, _mad),
    "min": ScalarFunction(2, _by_kind("min", "and"), "bif"),
    "max": ScalarFunction(2, _by_kind("max", "or"), "bif"),
    "neg": ScalarFunction(1, _of("neg")),
    "ident": ScalarFunction(1, lambda s, a: a[0], "bif"),
    "abs": ScalarFunction(1, _of("abs")),
    "sign": ScalarFunction(1, _of("sign")),
    "relu": ScalarFunction(1, _of("relu")),
    "cond": ScalarFunction(3, _one(arith.SelectOp), "bif", conditions=1),
    "cmp_eq": _comparison(_of("equal")),
    "cmp_ne": _comparison(_not_equal),
    "cmp_lt": _comparison(_of("less")),
    "cmp_le": _comparison(_of("less_equal")),
    "cmp_gt": _comparison(_of("greater")),
    "cmp_ge": _comparison(_of("greater_equal")),
    "bit_and": ScalarFunction(2, _one(arith.AndIOp), "bi"),
    "bit_or": ScalarFunction(2, _one(arith.OrIOp), "bi"),
    "bit_xor": ScalarFunction(2, _one(arith.XOrIOp), "bi"),
    "bit_not": ScalarFunction(1, _bit_not, "bi"),
    "bit_left": ScalarFunction(2, _one(arith.ShLIOp), "i", check=_check_left),
    "bit_right": ScalarFunction(2, _bit_right, "i", check=_check_bits),
    "ceil": _rounding(scalar_math.CeilOp),
    "floor": _rounding(scalar_math.FloorOp),
    "round": _rounding(scalar_math.RoundOp),
    "pow": replace(_smooth("pow"), arity=2),
    "recip": _smooth("reciprocal"),
    **{name: _smooth(name) for name in _SMOOTH},
}

CASTS: Mapping[str, Mapping[int, str]] = {
    "as_float": {32: "float32", 64: "float64"},
    "as_int": {8: "int8", 16: "int16", 32: "int32", 64: "int64"},
    "as_uint": {8: "uint8", 16: "uint16", 32: "uint32", 64: "uint64"},
    "as_bool": {},
}
"""The functions that convert types: for each, the types by the number of bits, its second argument.
`as_bool` has no second argument."""

WITHOUT_CODE = frozenset(
    """
    prng_step prng_state prng_value simple_reduce tuple
    element reverse_grad broadcast match builtin_softmax builtin_logsoftmax
    builtin_binary_crossentropy
    """.split()
)
"""Functions of PlaidML's Tile that are not supported."""
