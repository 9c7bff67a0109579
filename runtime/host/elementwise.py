"""The table of elementwise ops: a row states everything about an op.

    Row("softsign", "float", "x / (1 + |x|)", _softsign, Onnx("Softsign", 1, 22))

- `dialects/nn/elementwise.py` creates the op's class.
- The function is the NumPy kernel, in ``KERNELS``.
- The native kernel is the same function, applied to a scalar that adds an op of `arith` or `math`
  for each NumPy function: `kernels/elementwise.py`.
- ONNX's operator is converted to the op: `frontends/onnx/ops/elementwise.py`.
- If elements are sizes, `dialects/nn/evaluate_sizes.py` applies the row's function of sizes.
- Under `jit`, NumPy's ufunc becomes the op: `frontends/trace/ufuncs.py`.
- `tessella.ops` has the op.

A function may call the functions with scalar code in `kernels/elementwise.py`: ufuncs, ``np.where``
and those with ``@primitive``. It must not branch on elements.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tessella.runtime.elements import computing, converted, element_of
from tessella.runtime.host.registry import KERNELS, Array, HostKernel, kernel
from tessella.runtime.host.values import limits_of, saturate
from tessella.runtime.host.values import wide as widest
from tessella.support.decisions import decided_max, decided_min
from tessella.support.elements import Element
from tessella.support.size_functions import (
    deciding,
    equal,
    remainder,
    remainder_of_positive,
    truncated,
)

# a function of the table; ``Any`` is an array, or a traced scalar
Function = Callable[..., Any]

Kind = Literal[
    "unary", "float", "part", "predicate", "boolean", "bits", "binary", "parts", "comparison",
    "logic", "bitwise", "quantize", "dequantize",
]  # fmt: skip
"""The element types of operands and result:

- unary, binary: numbers of one type, which is the result's too
- float: one float, computed in float64 and rounded once
- part: one number, to the float type of its parts if it is complex, otherwise to its own type
- parts: two floats of one type, to the complex type with these parts
- predicate: one float to a boolean
- comparison: two elements of one type to a boolean
- boolean, logic: one boolean, two booleans
- bits, bitwise: one integer, two integers of one type, which is the result's too
- quantize: a float, a scale of its type, and a zero point, whose integer type is the result's
- dequantize: an integer, a scale and a zero point of the integer's type, to the scale's type
"""


Law = Literal["commutative", "idempotent", "involution", "additive"]
"""Algebraic laws of an op. In order: f(a, b) = f(b, a); f(f(x)) = f(x); f(f(x)) = x; f(a + b, c +
d) = f(a, c) + f(b, d)"""


@dataclass(frozen=True)
class Onnx:
    """ONNX's operator that equals the op, in versions ``first`` to ``last`` of the operator."""

    name: str
    first: int
    last: int
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    """The name of ONNX's attribute for each parameter that ONNX names differently."""


@dataclass(frozen=True)
class Row:
    """A row of the table: an elementwise op."""

    name: str
    kind: Kind
    meaning: str
    """The result, in words or as a formula."""
    function: Function
    """The function that computes the op: it takes an array for each operand, and the parameters by
    name."""
    onnx: Onnx | None = None
    parameters: Mapping[str, float] = field(default_factory=dict[str, float])
    """The op's properties, which are numbers, with their default values."""
    laws: Sequence[Law] = ()
    neutral: float | None = None
    """The second operand for which the result equals the first operand; a boolean for ops on
    booleans."""
    equivalent: np.ufunc | None = None
    """The NumPy ufunc that computes the op, if ``function`` is tessella's own; None if NumPy has
    none."""
    complex: bool = False
    """True if the function takes complex numbers too."""
    sizes: Function | None = None
    """The integer function on sizes, which may be symbolic expressions; one argument for each
    operand."""

    @property
    def ufunc(self) -> np.ufunc | None:
        """The NumPy ufunc that the op computes, if there is one."""
        return self.function if isinstance(self.function, np.ufunc) else self.equivalent


# ** functions that NumPy lacks **


def primitive(function: Function) -> Function:
    """Let array-like operands override a function through ``__array_function__`` (NEP 18)."""

    @functools.wraps(function)
    def call(*operands: Any) -> Any:
        for x in operands:
            if hasattr(x, "__array_function__") and not isinstance(x, np.ndarray):
                return x.__array_function__(call, (type(x),), operands, {})
        return function(*operands)

    return call


@primitive
def erf(x: Array) -> Array:
    """Return the error function of each element, in float64."""
    return np.fromiter(map(math.erf, x.flat), np.float64, x.size).reshape(x.shape)


@primitive
def fma(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c; native code rounds the result once."""
    return a * b + c


@primitive
def divide(lhs: Array, rhs: Array) -> Array:
    """Return the quotients. Integer quotients round towards zero. Division by zero gives 0 for
    integers, and follows IEEE for floats."""
    if lhs.dtype.kind in "fc":
        return lhs / rhs
    divisor = np.where(rhs == 0, rhs.dtype.type(1), rhs)
    quotient, rest = np.divmod(lhs, divisor)
    # divmod rounds down: one too low if the exact quotient is negative and not an integer.
    towards_zero = quotient + ((rest != 0) & ((lhs < 0) != (divisor < 0)))
    return np.where(rhs == 0, 0, towards_zero).astype(lhs.dtype)


@primitive
def power(lhs: Array, rhs: Array) -> Array:
    """Return ``lhs`` to the power of ``rhs``: floats and complex numbers with 64 bits each, rounded
    once; integers modulo their type's range."""
    if lhs.dtype.kind not in "fc":
        return _integer_power(lhs, rhs)
    return np.power(lhs.astype(widest(lhs)), rhs.astype(widest(rhs))).astype(lhs.dtype)


def _integer_power(lhs: Array, rhs: Array) -> Array:
    """Return integers to the power of integers. A negative exponent gives the reciprocal rounded
    towards zero: 0 unless ``lhs`` is 1 or -1."""
    negative = rhs < 0
    power = np.power(lhs, np.where(negative, rhs % 2, rhs).astype(lhs.dtype))
    return np.where(negative & (np.abs(lhs) != 1), 0, power).astype(lhs.dtype)


@primitive
def of_parts(lhs: Array, rhs: Array) -> Array:
    """Return the complex numbers with these real and imaginary parts."""
    found = np.empty(np.broadcast_shapes(lhs.shape, rhs.shape), np.result_type(lhs, np.complex64))
    found.real, found.imag = lhs, rhs
    return found


@primitive
def wide(x: Array) -> Array:
    """Convert an integer to 32 bits."""
    return x.astype(np.int32)


@primitive
def whole(x: Array) -> Array:
    """Round a float in 32-bit range to the nearest integer, ties to even."""
    return np.rint(x).astype(np.int32)


@primitive
def like(x: Array, other: Array) -> Array:
    """Convert elements to another array's type; integers wrap."""
    return x.astype(other.dtype)


# ** formulas **

_where: Callable[[Any, Any, Any], Any] = np.where


def _relu(x: Any) -> Any:
    return np.maximum(x, 0)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def _softsign(x: Any) -> Any:
    return x / (1 + np.abs(x))


def _unit(x: Any) -> Any:
    return np.minimum(np.maximum(x, 0), 1)


def _hard_sigmoid(x: Any, alpha: float, beta: float) -> Any:
    return _unit(x * alpha + beta)


def _hard_swish(x: Any) -> Any:
    return x * _unit(x * (1 / 6) + 0.5)


def _gelu(x: Any) -> Any:
    e = erf(x * (1 / math.sqrt(2)))
    half = x * 0.5
    return fma(half, e, half)


def _gelu_tanh(x: Any) -> Any:
    scale = math.sqrt(2 / math.pi)
    t = np.tanh(x * fma(x * x, 0.044715 * scale, scale))
    half = x * 0.5
    return fma(half, t, half)


def _softplus(x: Any) -> Any:
    # log(1 + e^x) would overflow.
    e = np.exp(-np.abs(x))
    return np.maximum(x, 0) + np.log1p(e)


def _mish(x: Any) -> Any:
    # tanh(log(1 + e^x)) without the logarithm; it is 1 long before e^2x overflows.
    e = np.exp(np.minimum(x, 40))
    n = e * (e + 2)
    return x * (n / (n + 2))


def _elu(x: Any, alpha: float) -> Any:
    below = np.expm1(x) * alpha
    return _where(x >= 0, x, below)


def _selu(x: Any, alpha: float, beta: float) -> Any:
    return _elu(x, alpha) * beta


def _leaky_relu(x: Any, alpha: float) -> Any:
    return _where(x >= 0, x, x * alpha)


def _thresholded_relu(x: Any, alpha: float) -> Any:
    return _where(x > alpha, x, 0)


def _celu(x: Any, alpha: float) -> Any:
    scale = 1 / alpha if alpha else math.copysign(math.inf, alpha)
    below = np.minimum(0, np.expm1(x * scale) * alpha)
    return np.maximum(x, 0) + below


def _quantize(x: Any, scale: Any, zero: Any) -> Any:
    # The bounds apply to the float: beyond 32 bits there is no nearest integer.
    element = element_of(zero.dtype)
    assert element is not None
    low, high = limits_of(element)
    shift = wide(zero)
    offset = like(shift, x)
    inside = np.fmin(np.fmax(x / scale, low - offset), high - offset)
    return like(whole(inside) + shift, zero)


def _dequantize(x: Any, scale: Any, zero: Any) -> Any:
    return like(wide(x) - wide(zero), scale) * scale


def _clip(x: Any, low: float, high: float) -> Any:
    least, most = saturate(low, x.dtype), saturate(high, x.dtype)
    x = x if least == -math.inf else np.maximum(x, least)
    return x if most == math.inf else np.minimum(x, most)


# ** the table **

_ROWS = (
    # numbers
    Row(
        "abs", "part", "absolute value", np.absolute, Onnx("Abs", 1, 13), laws=["idempotent"],
        complex=True,
    ),
    Row("real", "part", "real part", np.real, complex=True),
    Row("imag", "part", "imaginary part: 0 of a real number", np.imag, complex=True),
    Row("conj", "unary", "complex conjugate", np.conjugate, laws=["involution"], complex=True),
    Row(
        "neg", "unary", "negation", np.negative, Onnx("Neg", 1, 13),
        laws=["involution", "additive"], complex=True, sizes=operator.neg,
    ),
    Row("sign", "unary", "sign: -1, 0 or 1", np.sign, Onnx("Sign", 9, 13), laws=["idempotent"]),
    Row("relu", "unary", "max(x, 0)", _relu, Onnx("Relu", 1, 14), laws=["idempotent"]),
    Row(
        "clip", "unary", "min(max(x, low), high); the bounds may be infinite", _clip,
        parameters={"low": -math.inf, "high": math.inf},
    ),
    # floats
    Row("exp", "float", "e^x", np.exp, Onnx("Exp", 1, 13), complex=True),
    Row("log", "float", "natural logarithm", np.log, Onnx("Log", 1, 13), complex=True),
    Row("log2", "float", "logarithm to the base 2", np.log2, complex=True),
    Row("log10", "float", "logarithm to the base 10", np.log10, complex=True),
    Row("sqrt", "float", "square root", np.sqrt, Onnx("Sqrt", 1, 13), complex=True),
    Row("reciprocal", "float", "1 / x", np.reciprocal, Onnx("Reciprocal", 1, 13), complex=True),
    Row("floor", "float", "rounding down", np.floor, Onnx("Floor", 1, 13), laws=["idempotent"]),
    Row("ceil", "float", "rounding up", np.ceil, Onnx("Ceil", 1, 13), laws=["idempotent"]),
    Row(
        "round", "float", "rounding to nearest, halves to even", np.rint,
        Onnx("Round", 11, 22), laws=["idempotent"],
    ),
    Row("sin", "float", "sine", np.sin, Onnx("Sin", 7, 22), complex=True),
    Row("cos", "float", "cosine", np.cos, Onnx("Cos", 7, 22), complex=True),
    Row("tan", "float", "tangent", np.tan, Onnx("Tan", 7, 22), complex=True),
    Row("asin", "float", "arc sine", np.arcsin, Onnx("Asin", 7, 22), complex=True),
    Row("acos", "float", "arc cosine", np.arccos, Onnx("Acos", 7, 22), complex=True),
    Row("atan", "float", "arc tangent", np.arctan, Onnx("Atan", 7, 22), complex=True),
    Row("sinh", "float", "hyperbolic sine", np.sinh, Onnx("Sinh", 9, 22), complex=True),
    Row("cosh", "float", "hyperbolic cosine", np.cosh, Onnx("Cosh", 9, 22), complex=True),
    Row("tanh", "float", "hyperbolic tangent", np.tanh, Onnx("Tanh", 1, 13), complex=True),
    Row(
        "asinh", "float", "inverse hyperbolic sine", np.arcsinh, Onnx("Asinh", 9, 22),
        complex=True,
    ),
    Row(
        "acosh", "float", "inverse hyperbolic cosine", np.arccosh, Onnx("Acosh", 9, 22),
        complex=True,
    ),
    Row(
        "atanh", "float", "inverse hyperbolic tangent", np.arctanh, Onnx("Atanh", 9, 22),
        complex=True,
    ),
    Row("erf", "float", "error function", erf),
    Row("sigmoid", "float", "1 / (1 + e^-x)", _sigmoid, Onnx("Sigmoid", 1, 13)),
    Row("softplus", "float", "log(1 + e^x)", _softplus, Onnx("Softplus", 1, 22)),
    Row("softsign", "float", "x / (1 + |x|)", _softsign, Onnx("Softsign", 1, 22)),
    Row("hard_swish", "float", "x * clip(x/6 + 1/2, 0, 1)", _hard_swish, Onnx("HardSwish", 14, 22)),
    Row("silu", "float", "x * sigmoid(x)", _silu),
    Row("gelu", "float", "x/2 * (1 + erf(x / sqrt 2))", _gelu),
    Row("gelu_tanh", "float", "tanh approximation of gelu", _gelu_tanh),
    Row(
        "leaky_relu", "float", "x where x >= 0, alpha * x below", _leaky_relu,
        Onnx("LeakyRelu", 1, 16), {"alpha": 0.01},
    ),
    Row(
        "elu", "float", "x where x >= 0, alpha * (e^x - 1) below", _elu,
        Onnx("Elu", 1, 22), {"alpha": 1.0},
    ),
    Row(
        "celu", "float", "max(x, 0) + min(0, alpha * (e^(x / alpha) - 1))", _celu,
        Onnx("Celu", 12, 28), {"alpha": 1.0},
    ),
    Row("mish", "float", "x * tanh(softplus(x))", _mish, Onnx("Mish", 18, 22)),
    Row(
        "selu", "float", "beta * (x where x >= 0, alpha * (e^x - 1) below)", _selu,
        Onnx("Selu", 1, 22, {"beta": "gamma"}),
        {"alpha": 1.6732632423543772, "beta": 1.0507009873554805},
    ),
    Row(
        "thresholded_relu", "float", "x where x > alpha, 0 elsewhere", _thresholded_relu,
        Onnx("ThresholdedRelu", 10, 22), {"alpha": 1.0},
    ),
    Row(
        "hard_sigmoid", "float", "clip(alpha * x + beta, 0, 1)", _hard_sigmoid,
        Onnx("HardSigmoid", 1, 22), {"alpha": 0.2, "beta": 0.5},
    ),
    # to booleans
    Row("is_nan", "predicate", "test for NaN", np.isnan, Onnx("IsNaN", 9, 20), complex=True),
    Row("is_inf", "predicate", "test for an infinity", np.isinf, complex=True),
    Row(
        "not", "boolean", "logical negation", np.logical_not, Onnx("Not", 1, 1),
        laws=["involution"],
    ),
    # two operands
    Row("complex", "parts", "lhs + i * rhs", of_parts),
    Row(
        "add", "binary", "lhs + rhs", np.add, Onnx("Add", 1, 14), laws=["commutative", "additive"],
        neutral=-0.0, complex=True, sizes=operator.add,
    ),
    Row(
        "sub", "binary", "lhs - rhs", np.subtract, Onnx("Sub", 1, 14), laws=["additive"],
        neutral=0.0, complex=True, sizes=operator.sub,
    ),
    Row(
        "mul", "binary", "lhs * rhs", np.multiply, Onnx("Mul", 1, 14), laws=["commutative"],
        neutral=1, complex=True, sizes=operator.mul,
    ),
    Row(
        "div", "binary", "lhs / rhs; integers round towards zero", divide,
        Onnx("Div", 1, 14), equivalent=np.true_divide, neutral=1, complex=True, sizes=truncated,
    ),
    Row(
        "pow", "binary", "lhs to the power of rhs", power, equivalent=np.power, neutral=1,
        complex=True,
    ),
    Row(
        "min", "binary", "smaller of both; NaN if either is", np.minimum, laws=["commutative"],
        sizes=decided_min,
    ),
    Row(
        "max", "binary", "larger of both; NaN if either is", np.maximum, laws=["commutative"],
        sizes=decided_max,
    ),
    Row("mod", "binary", "remainder with the sign of rhs", np.remainder, sizes=remainder),
    Row(
        "fmod", "binary", "remainder with the sign of lhs", np.fmod,
        sizes=remainder_of_positive,
    ),
    Row(
        "equal", "comparison", "lhs == rhs", np.equal, Onnx("Equal", 1, 19), laws=["commutative"],
        complex=True, sizes=equal,
    ),
    Row(
        "less", "comparison", "lhs < rhs", np.less, Onnx("Less", 1, 13),
        sizes=deciding(operator.lt),
    ),
    Row(
        "less_equal", "comparison", "lhs <= rhs", np.less_equal, Onnx("LessOrEqual", 12, 16),
        sizes=deciding(operator.le),
    ),
    Row(
        "greater", "comparison", "lhs > rhs", np.greater, Onnx("Greater", 1, 13),
        sizes=deciding(operator.gt),
    ),
    Row(
        "greater_equal", "comparison", "lhs >= rhs", np.greater_equal,
        Onnx("GreaterOrEqual", 12, 16), sizes=deciding(operator.ge),
    ),
    Row(
        "and", "logic", "logical and", np.logical_and, Onnx("And", 1, 7), laws=["commutative"],
        neutral=True,
    ),
    Row(
        "or", "logic", "logical or", np.logical_or, Onnx("Or", 1, 7), laws=["commutative"],
        neutral=False,
    ),
    Row("xor", "logic", "exclusive or", np.logical_xor, Onnx("Xor", 1, 7), laws=["commutative"]),
    # bits
    Row(
        "bit_not", "bits", "all bits of x inverted", np.invert, Onnx("BitwiseNot", 18, 18),
        laws=["involution"],
    ),
    Row(
        "bit_and", "bitwise", "bitwise and", np.bitwise_and, Onnx("BitwiseAnd", 18, 18),
        laws=["commutative"],
    ),
    Row(
        "bit_or", "bitwise", "bitwise or", np.bitwise_or, Onnx("BitwiseOr", 18, 18),
        laws=["commutative"],
    ),
    Row(
        "bit_xor", "bitwise", "bitwise exclusive or", np.bitwise_xor, Onnx("BitwiseXor", 18, 18),
        laws=["commutative"],
    ),
    Row("bit_left", "bitwise", "lhs shifted left by rhs bits", np.left_shift),
    Row("bit_right", "bitwise", "lhs shifted right by rhs bits", np.right_shift),
    # quantized numbers
    Row(
        "quantize", "quantize",
        "x / scale, rounded to nearest, halves to even, plus zero, saturated; NaN is the least",
        _quantize,
    ),
    Row("dequantize", "dequantize", "(x - zero) * scale", _dequantize),
)  # fmt: skip

ROWS: Mapping[str, Row] = {row.name: row for row in _ROWS}
"""The ops by name, without the dialect: `exp`.

Only `nn.where`, `nn.cast` and `nn.bitcast` have no row, as their operands and results differ.
"""


def _kernel(row: Row) -> HostKernel:
    if row.kind != "float":
        return row.function

    def rounded(x: Array, **parameters: float) -> Array:
        exact = row.function(x.astype(widest(x)), **parameters)
        return np.asarray(exact).astype(x.dtype)

    return rounded


KERNELS.update({f"nn.{name}": _kernel(row) for name, row in ROWS.items()})


@kernel("where")
def where(condition: Array, lhs: Array, rhs: Array) -> Array:
    """Return ``lhs`` where the condition is true, otherwise ``rhs``."""
    return np.where(condition, lhs, rhs)


@kernel("cast")
def cast(x: Array, *, to: npt.DTypeLike) -> Array:
    """Convert elements as NumPy's astype does, except that floats out of an integer type's range
    saturate, and NaN becomes 0."""
    element = element_of(to)
    assert element is not None
    if x.dtype.kind == "f" and element.is_integer:
        x = _whole(x, element)
    return converted(x, to)


@kernel("bitcast", of_bits=True)
def bitcast(x: Array, *, to: npt.DTypeLike) -> Array:
    """Return the bits of elements as elements of another type. Any byte but 0 is a true boolean."""
    bits = x.view(np.uint8) if x.dtype == np.bool_ else x
    return bits != 0 if np.dtype(to) == np.bool_ else bits.view(to)


def _whole(x: Array, element: Element) -> Array:
    """Convert floats to the integers of an element type: round towards zero, and saturate to the
    range of the type; NaN becomes 0."""
    target, (low, high) = computing(element), limits_of(element)
    # the largest float below the limit: the limit itself may round up out of range
    top = np.nextafter(x.dtype.type(high), x.dtype.type(0))
    whole = np.trunc(np.nan_to_num(x, nan=0.0, posinf=np.inf, neginf=-np.inf))
    inside = np.clip(whole, x.dtype.type(low), top).astype(target)
    return np.where(whole > top, target.type(high), inside)
