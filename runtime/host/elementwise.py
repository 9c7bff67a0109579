"""NumPy semantics of the elementwise ops."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tessella.runtime.elements import computing, converted, element_of
from tessella.runtime.host.registry import KERNELS, Array, kernel
from tessella.runtime.host.values import limits_of, saturate
from tessella.support.elements import Element


def _float(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The function computed in float64 and rounded once to the operand's type."""

    def apply(x: Array) -> Array:
        return function(x.astype(np.float64)).astype(x.dtype)

    return apply


def _erf(x: Array) -> Array:
    return np.fromiter(map(math.erf, x.flat), np.float64, x.size).reshape(x.shape)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


_UNARY: dict[str, Callable[[Array], Array]] = {
    "abs": np.abs,
    "neg": np.negative,
    "sign": np.sign,
    "relu": lambda x: np.maximum(x, x.dtype.type(0)),
    "not": np.logical_not,
    "is_nan": np.isnan,
    "is_inf": np.isinf,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "sqrt": np.sqrt,
    "reciprocal": lambda x: x.dtype.type(1) / x,
}

_SMOOTH: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _erf,
    "sigmoid": _sigmoid,
    "softplus": lambda x: np.logaddexp(x, 0),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "silu": lambda x: x * _sigmoid(x),
    "gelu": lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    "gelu_tanh": _gelu_tanh,
}

_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "mod": np.mod,
    "fmod": np.fmod,
    "equal": np.equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}

KERNELS.update({f"nn.{name}": function for name, function in (_UNARY | _BINARY).items()})
KERNELS.update({f"nn.{name}": _float(function) for name, function in _SMOOTH.items()})


@kernel("div")
def div(lhs: Array, rhs: Array) -> Array:
    """Integers round towards zero; a division by zero gives 0 for integers, as IEEE for floats."""
    if lhs.dtype.kind == "f":
        return lhs / rhs
    divisor = np.where(rhs == 0, rhs.dtype.type(1), rhs)
    quotient, rest = np.divmod(lhs, divisor)
    # divmod rounds down: one too low where the exact quotient is negative and no integer
    towards_zero = quotient + ((rest != 0) & ((lhs < 0) != (divisor < 0)))
    return np.where(rhs == 0, 0, towards_zero).astype(lhs.dtype)


def _integer_power(lhs: Array, rhs: Array) -> Array:
    """A negative exponent gives the reciprocal rounded towards zero: 0 unless lhs is 1 or -1."""
    negative = rhs < 0
    power = np.power(lhs, np.where(negative, rhs % 2, rhs).astype(lhs.dtype))
    return np.where(negative & (np.abs(lhs) != 1), 0, power).astype(lhs.dtype)


@kernel("pow")
def power(lhs: Array, rhs: Array) -> Array:
    """The power: of floats in float64 and rounded once; of integers modulo their type's range."""
    if lhs.dtype.kind != "f":
        return _integer_power(lhs, rhs)
    return np.power(lhs.astype(np.float64), rhs.astype(np.float64)).astype(lhs.dtype)


@kernel("leaky_relu")
def leaky_relu(x: Array, *, alpha: float) -> Array:
    """x where x >= 0, alpha * x below."""
    return np.where(x >= 0, x, x * x.dtype.type(alpha))


@kernel("elu")
def elu(x: Array, *, alpha: float) -> Array:
    """x where x >= 0, alpha * (e^x - 1) below."""
    return np.where(x >= 0, x, alpha * np.expm1(x.astype(np.float64))).astype(x.dtype)


@kernel("celu")
def celu(x: Array, *, alpha: float) -> Array:
    """max(x, 0) + min(0, alpha * (e^(x / alpha) - 1))."""
    wide = x.astype(np.float64)
    return (np.maximum(wide, 0) + np.minimum(0, alpha * np.expm1(wide / alpha))).astype(x.dtype)


@kernel("thresholded_relu")
def thresholded_relu(x: Array, *, alpha: float) -> Array:
    """x where x > alpha, 0 elsewhere."""
    return np.where(x > alpha, x, x.dtype.type(0))


@kernel("hard_sigmoid")
def hard_sigmoid(x: Array, *, alpha: float, beta: float) -> Array:
    """clip(alpha * x + beta, 0, 1)."""
    return np.clip(alpha * x + beta, 0, 1).astype(x.dtype)


@kernel("selu")
def selu(x: Array, *, alpha: float, beta: float) -> Array:
    """beta * (x where x > 0, alpha * (e^x - 1) below)."""
    wide = x.astype(np.float64)
    return (beta * np.where(wide > 0, wide, alpha * np.expm1(wide))).astype(x.dtype)


@kernel("clip")
def clip(x: Array, *, low: float, high: float) -> Array:
    """min(max(x, low), high)."""
    if x.dtype.kind == "f":
        return np.minimum(np.maximum(x, x.dtype.type(low)), x.dtype.type(high))
    return np.minimum(np.maximum(x, saturate(low, x.dtype)), saturate(high, x.dtype))


@kernel("where")
def where(condition: Array, lhs: Array, rhs: Array) -> Array:
    """lhs where the condition holds, else rhs."""
    return np.where(condition, lhs, rhs)


@kernel("cast")
def cast(x: Array, *, to: npt.DTypeLike) -> Array:
    """NumPy's astype; a float out of an integer type's range saturates, NaN becomes 0."""
    element = element_of(to)
    assert element is not None
    if x.dtype.kind == "f" and element.is_integer:
        x = _whole(x, element)
    return converted(x, to)


def _whole(x: Array, element: Element) -> Array:
    """Floats as integers of an element's range."""
    target, (low, high) = computing(element), limits_of(element)
    # the largest float below the limit: the limit itself may round up out of range
    top = np.nextafter(x.dtype.type(high), x.dtype.type(0))
    whole = np.trunc(np.nan_to_num(x, nan=0.0, posinf=np.inf, neginf=-np.inf))
    inside = np.clip(whole, x.dtype.type(low), top).astype(target)
    return np.where(whole > top, target.type(high), inside)
