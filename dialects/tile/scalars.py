"""The semantics of the ops in bodies of statements, in NumPy, on arrays of elements.

Floats follow NumPy; functions are computed in float64 and rounded once. Integers wrap. A division
by zero gives 0, as in native code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr
from xdsl.ir import Attribute, Operation

from tessella.dialects.arith import CASTS, CmpfOp, CmpiOp, ConstantOp, LookupOp
from tessella.dialects.elements import dtype_of
from tessella.dialects.nn.core import Array
from tessella.runtime.elements import converted, widened
from tessella.runtime.host.elementwise import divide, erf, fma
from tessella.support.errors import InternalError

Function = Callable[..., Array]
Cast = Callable[[Array, np.dtype[Any]], Array]


def evaluate(op: Operation, operands: list[Array]) -> Array:
    """Return the result of an op of `arith` or `math`, given its operands as arrays that broadcast.
    Raises InternalError for any other op."""
    if op.name == ConstantOp.name:
        return _constant(op)
    if op.name in _PREDICATES:
        predicate = op.properties["predicate"]
        assert isinstance(predicate, IntegerAttr)
        return _COMPARISONS[op.name, _PREDICATES[op.name][predicate.value.data]](*operands)
    if op.name in CASTS:
        return _CASTS[op.name](operands[0], scalar_dtype(op.results[0].type))
    if isinstance(op, LookupOp):
        table = np.asarray(op.numbers).astype(scalar_dtype(op.result.type))
        return table[operands[0] & (len(table) - 1)]
    if op.name not in _FUNCTIONS:
        raise InternalError(f"no interpretation of {op.name}")
    return _FUNCTIONS[op.name](*operands)


def scalar_dtype(type: Attribute) -> np.dtype[Any]:
    """Return the NumPy dtype that represents a scalar type in a body; `index` is int64."""
    return np.dtype(np.int64) if isinstance(type, IndexType) else dtype_of(type)


def _constant(op: Operation) -> Array:
    value = op.properties["value"]
    assert isinstance(value, FloatAttr | IntegerAttr)
    return np.asarray(value.value.data).astype(scalar_dtype(op.results[0].type))


# ** integers **


def _as(kind: str, x: Array) -> Array:
    """Return a view of an integer array as signed integers (``kind`` is "i") or unsigned ones
    ("u"). Booleans are returned unchanged."""
    return x if x.dtype.kind == "b" else x.view(f"{kind}{x.dtype.itemsize}")


def _of(kind: str, function: Function) -> Function:
    """Return a version of ``function`` that interprets its operands as signed ("i") or unsigned
    ("u") integers."""

    def apply(a: Array, b: Array) -> Array:
        result = function(_as(kind, a), _as(kind, b))
        return result if result.dtype.kind == "b" else result.view(a.dtype)

    return apply


def _remainder(a: Array, b: Array) -> Array:
    return np.where(b == 0, 0, a - b * divide(a, b)).astype(a.dtype)


def _floor_quotient(a: Array, b: Array) -> Array:
    rest = _remainder(a, b)
    return divide(a, b) - ((rest != 0) & ((a < 0) != (b < 0)))


def _ceil_quotient(a: Array, b: Array) -> Array:
    rest = _remainder(a, b)
    return divide(a, b) + ((rest != 0) & ((a < 0) == (b < 0)))


def _shift(function: Function) -> Function:
    """Return a version of the unsigned shift ``function`` that gives 0 if the amount is at least
    the width of the type."""

    def apply(a: Array, b: Array) -> Array:
        bits = 8 * a.dtype.itemsize
        return np.where(b < bits, function(a, np.minimum(b, bits - 1)), 0).astype(a.dtype)

    return _of("u", apply)


def _shift_signed(a: Array, b: Array) -> Array:
    most = 8 * a.dtype.itemsize - 1
    return (_as("i", a) >> np.minimum(_as("u", b), most).view(f"i{a.itemsize}")).view(a.dtype)


def _absolute(x: Array) -> Array:
    return np.abs(_as("i", x)).view(x.dtype)


# ** floats **


def _wide(function: Callable[..., Array]) -> Function:
    """Return a version of ``function`` that computes in float64 and rounds the result once."""

    def apply(*arrays: Array) -> Array:
        wide = (x.astype(np.float64) for x in arrays)
        return np.asarray(function(*wide)).astype(arrays[0].dtype)

    return apply


def _away_from_zero(x: Array) -> Array:
    whole = np.trunc(x)
    return whole + np.copysign(np.abs(x - whole) >= 0.5, x)


def _reciprocal_root(x: Array) -> Array:
    return 1 / np.sqrt(x)


_WIDE: Mapping[str, Callable[..., Array]] = {
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("cos", "cosh", "sin", "sinh", "tan")},
    **{name: getattr(np, name) for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")},
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1")},
    **{name: getattr(np, name) for name in ("log", "log1p", "log2", "log10")},
    "atanh": np.arctanh,
    "erf": erf,
    "powf": np.power,
    "round": _away_from_zero,
    "rsqrt": _reciprocal_root,
    "fma": fma,
}

_FUNCTIONS: Mapping[str, Function] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.remf": np.fmod,
    "arith.negf": np.negative,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.divsi": _of("i", divide),
    "arith.divui": _of("u", divide),
    "arith.remsi": _of("i", _remainder),
    "arith.remui": _of("u", _remainder),
    "arith.floordivsi": _of("i", _floor_quotient),
    "arith.ceildivsi": _of("i", _ceil_quotient),
    "arith.ceildivui": _of("u", _ceil_quotient),
    "arith.minsi": _of("i", np.minimum),
    "arith.maxsi": _of("i", np.maximum),
    "arith.minui": _of("u", np.minimum),
    "arith.maxui": _of("u", np.maximum),
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": _shift(np.left_shift),
    "arith.shrui": _shift(np.right_shift),
    "arith.shrsi": _shift_signed,
    "arith.select": np.where,
    "math.absf": np.abs,
    "math.absi": _absolute,
    "math.ceil": np.ceil,
    "math.floor": np.floor,
    "math.trunc": np.trunc,
    "math.roundeven": np.rint,
    "math.sqrt": np.sqrt,
    "math.copysign": np.copysign,
    **{f"math.{name}": _wide(function) for name, function in _WIDE.items()},
}


# ** comparisons **

_ORDERS: Mapping[str, Function] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _unordered(a: Array, b: Array) -> Array:
    return np.isnan(a) | np.isnan(b)


def _ordered(a: Array, b: Array) -> Array:
    return ~_unordered(a, b)


def _always(a: Array, b: Array) -> Array:
    return np.ones(np.broadcast_shapes(a.shape, b.shape), bool)


def _never(a: Array, b: Array) -> Array:
    return ~_always(a, b)


def _if_ordered(function: Function) -> Function:
    def apply(a: Array, b: Array) -> Array:
        return function(a, b) & _ordered(a, b)

    return apply


def _or_unordered(function: Function) -> Function:
    def apply(a: Array, b: Array) -> Array:
        return function(a, b) | _unordered(a, b)

    return apply


_COMPARISONS: Mapping[tuple[str, str], Function] = {
    ("arith.cmpi", "eq"): np.equal,
    ("arith.cmpi", "ne"): np.not_equal,
    **{("arith.cmpi", f"s{name}"): _of("i", f) for name, f in _ORDERS.items()},
    **{("arith.cmpi", f"u{name}"): _of("u", f) for name, f in _ORDERS.items()},
    ("arith.cmpf", "false"): _never,
    ("arith.cmpf", "true"): _always,
    ("arith.cmpf", "ord"): _ordered,
    ("arith.cmpf", "uno"): _unordered,
    **{("arith.cmpf", f"o{name}"): _if_ordered(f) for name, f in _ORDERS.items()},
    **{("arith.cmpf", f"u{name}"): _or_unordered(f) for name, f in _ORDERS.items()},
}
_PREDICATES = {op.name: op.PREDICATES for op in (CmpiOp, CmpfOp)}


# ** casts **


def _whole(kind: str) -> Cast:
    """Return a conversion from floats to signed ("i") or unsigned ("u") integers. It rounds towards
    zero and saturates; NaN gives 0."""

    def apply(x: Array, to: np.dtype[Any]) -> Array:
        info = np.iinfo(f"{kind}{to.itemsize}")
        wide = np.nan_to_num(
            np.trunc(x.astype(np.float64)), nan=0.0, posinf=2.0**64, neginf=-(2.0**64)
        )
        low, high = float(info.min), float(info.max)
        inside = np.clip(wide, low, np.nextafter(high, 0) if high > 2.0**53 else high)
        result = np.where(wide >= high, info.max, inside.astype(info.dtype))
        return result.astype(info.dtype).view(to)

    return apply


def _nearest(x: Array, to: np.dtype[Any]) -> Array:
    return np.rint(x).astype(to)


def _from(kind: str) -> Cast:
    def apply(x: Array, to: np.dtype[Any]) -> Array:
        return _as(kind, x).astype(to)

    return apply


def _sign_extended(x: Array, to: np.dtype[Any]) -> Array:
    return -x.astype(to) if x.dtype.kind == "b" else _as("i", x).astype(to)


def _truncated(x: Array, to: np.dtype[Any]) -> Array:
    return (x & 1).astype(to) if to.kind == "b" else x.astype(to)


def _extended(x: Array, to: np.dtype[Any]) -> Array:
    return widened(x).astype(to)


def _same_bits(x: Array, to: np.dtype[Any]) -> Array:
    return x.view(to)


_CASTS: Mapping[str, Cast] = {
    "arith.index_cast": _sign_extended,
    "arith.extsi": _sign_extended,
    "arith.extui": _from("u"),
    "arith.trunci": _truncated,
    "arith.sitofp": _from("i"),
    "arith.uitofp": _from("u"),
    "arith.fptosi": _whole("i"),
    "arith.fptoui": _whole("u"),
    "arith.nearest": _nearest,
    "arith.extf": _extended,
    "arith.truncf": converted,
    "arith.bitcast": _same_bits,
}
